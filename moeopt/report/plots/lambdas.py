"""Units that a token touches by method: planned for, held out, and the floor that no plan gets below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.report.plots.canvas import FAINT, Plot, label, new_figure, style, to_svg

if TYPE_CHECKING:
    from moeopt.report.rows import RowFigures

SHOWN = 12


def lambda_plot(rows: list[RowFigures], prefix: str) -> Plot | None:
    """Draw up to `SHOWN` methods, the best on top."""
    known = [row for row in rows if row.solution is not None and row.solution["lambda_lower_bound"] is not None]
    if not known:
        return None
    known = sorted(known, key=lambda row: (row.solution or {})["lambda"])[:SHOWN]
    floor = max((row.solution or {})["lambda_lower_bound"] for row in known)
    with style():
        figure = new_figure(0.9 + 0.26 * len(known))
        axes = figure.subplots()
        axes.grid(axis="x", color=FAINT, linewidth=0.4)
        for place, row in enumerate(known):
            solution = row.solution or {}
            fitted, scored = solution["lambda"], solution["lambda_held_out"]
            if scored is not None:
                axes.plot([fitted, scored], [place, place], color="#c9ced4", linewidth=2, solid_capstyle="butt")
                axes.plot(scored, place, "s", color="#c8502f", markersize=5, label="held out" if not place else None)
            axes.plot(fitted, place, "o", color="#10355e", markersize=6, label="planned for" if not place else None)
        axes.axvline(floor, color="#22262b", linewidth=0.9, dashes=(6, 3), label="no plan is below (planned for)")
        axes.set_yticks(range(len(known)), [label(row.method) for row in known])
        axes.invert_yaxis()
        axes.set_xlabel("units a token touches, mean over layers")
        axes.set_title("Units a token touches")
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        svg = to_svg(figure, prefix)
    named = "; ".join(f"{row.method} {(row.solution or {})['lambda']:.3f}" for row in known)
    caption = f"Fewer is better. The dashed line, {floor:.3f}, is proved for the tokens that plans are made for."
    return Plot("Units a token touches", svg, f"Units a token touches by method: {named}; bound {floor:.3f}.", caption)
