"""Splits in pictures: the load of every GPU on one layer beside the set that proves the bound, and all layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from moeopt.percent import tokens
from moeopt.report import words
from moeopt.report.plots.canvas import FAINT, INK, Plot, label, layer_axis, new_figure, style, to_svg
from moeopt.report.plots.looks import LOOKS
from moeopt.report.routing_words import RIVALS, said

if TYPE_CHECKING:
    from moeopt.report.rows import RowFigures
    from moeopt.routing import RoutingInstance

SHOWN = 6
CUT, BARS = "#eceff2", "#9db7d4"
FEW_GPUS = 48
"""Up to this many GPUs each has its id below."""


def loads_plot(instance: RoutingInstance, rows: Sequence[RowFigures], prefix: str) -> Plot:
    """Every GPU under the best split and what engines do, on the layer where they differ most."""
    from moeopt.routing import evaluate

    solved = [row for row in rows if row.solution is not None and not row.remark]
    best = next(row for row in solved if row.best)
    place = _layer(solved)
    assert best.solution is not None
    layer = best.solution["layers"][place]
    shown = [best, *_others(solved, best, place)]
    costs = [np.array(evaluate(instance, row.result.plan).gpu_cost[place]) for row in shown if row.result is not None]
    alike = _alike([row.method for row in shown[1:]], costs[1:])
    inside = np.zeros(instance.num_gpus, dtype=bool)
    inside[layer["cut"]["gpus"]] = True
    order = sorted(range(instance.num_gpus), key=lambda gpu: (not inside[gpu], -costs[-1][gpu], gpu))
    across, bound = np.arange(instance.num_gpus), layer["lower_bound"]
    with style():
        figure = new_figure(3.6)
        axes = figure.subplots()
        axes.grid(axis="y", color=FAINT, linewidth=0.4)
        axes.axvspan(-0.5, inside.sum() - 0.5, color=CUT, linewidth=0, zorder=0, label="GPUs of the certificate")
        name, few = f"{label(best.method)} (best)", instance.num_gpus <= FEW_GPUS
        if few:
            axes.bar(across, costs[0][order], width=0.8, color=BARS, zorder=2, label=name)
        else:  # one shape, where bars would be as many as the GPUs
            axes.fill_between(across, costs[0][order], step="mid", color=BARS, linewidth=0, zorder=2, label=name)
        for index, (names, cost) in enumerate(alike, start=1):
            colour, line, marker = LOOKS[index]
            look: dict[str, Any] = {"color": colour, "zorder": 3 + index, "label": label(names, 40)}
            if few:
                axes.plot(across, cost[order], marker, markersize=4.4, markerfacecolor="white", **look)
            else:
                axes.step(across, cost[order], where="mid", linestyle=line, linewidth=1.1, **look)
        axes.axhline(bound, color=INK, linewidth=0.9, dashes=(6, 3), zorder=3, label="bound of the busiest")
        axes.set_xlim(-0.6, instance.num_gpus - 0.4)
        axes.set_ylim(0, 1.06 * max(float(cost.max()) for cost in costs) or 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
        if few:
            axes.set_xticks(across, [str(gpu) for gpu in order])
            axes.tick_params(axis="x", labelsize=8 if instance.num_gpus <= 32 else 6.5)
        else:
            axes.set_xticks([])
        axes.set_xlabel(f"GPU, those with the most under {label(shown[-1].method)} first")
        even = len(set(instance.speed)) == 1
        axes.set_ylabel(f"tokens of layer {layer['layer']}" + ("" if even else " / speed"))
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
        axes.spines[["top", "right"]].set_visible(False)
        svg = to_svg(figure, prefix)
    title = f"Load of every GPU, layer {layer['layer']}"
    tops = ", ".join(f"{row.method} {tokens(float(cost.max()))}" for row, cost in zip(shown, costs, strict=True))
    cut = layer["cut"]["gpus"]
    caption = f"Busiest GPU: {tops}. Grey: {said(cut, instance.num_gpus)} {'has' if len(cut) == 1 else 'have'} so much "
    caption += f"that lies nowhere else that the busiest has {tokens(bound)} in any split."
    if instance.num_layers > 1:
        caption += " Drawn is the layer on which the splits differ most."
    return Plot(title, svg, f"{title}. Busiest: {tops}; bound {tokens(bound)}.", caption)


def _alike(names: Sequence[str], values: Sequence[Any]) -> list[tuple[str, Any]]:
    """One point or line for all that lie on each other, under all their names."""
    found: list[tuple[list[str], Any]] = []
    for name, value in zip(names, values, strict=True):
        same = next((one for one in found if np.allclose(one[1], value, rtol=1e-9, atol=0)), None)
        if same is None:
            found.append(([name], value))
        else:
            same[0].append(name)
    return [(", ".join(those), value) for those, value in found]


def _layer(solved: Sequence[RowFigures]) -> int:
    """Where the worst split is furthest above the best."""
    tables = [[layer["max_load"] for layer in (row.solution or {})["layers"]] for row in solved]
    spread = [max(column) / min(column) if min(column) else 1.0 for column in zip(*tables, strict=True)]
    return spread.index(max(spread))


def _others(solved: Sequence[RowFigures], best: RowFigures, place: int) -> list[RowFigures]:
    """What engines do, and other splits that are not as good there; the worst comes last."""

    def top(row: RowFigures) -> Any:
        return (row.solution or {})["layers"][place]["max_load"]

    rest = [row for row in solved if row is not best]
    rest = [row for row in rest if row.method in RIVALS or top(row) > top(best) * (1 + 1e-9)]
    rest.sort(key=lambda row: (row.method not in RIVALS, top(row)))
    return sorted(rest[: SHOWN - 1], key=top)


def layers_plot(instance: RoutingInstance, rows: Sequence[RowFigures], prefix: str) -> Plot | None:
    """How far every split is above the bound, layer by layer."""
    solved = [row for row in rows if row.solution is not None and not row.remark]
    if instance.num_layers < 2:
        return None
    floors = [max(column) for column in zip(*([_of(row, "lower_bound") for row in solved]), strict=True)]
    values = {
        row.method: np.array(
            [top / floor - 1 if floor else 0.0 for top, floor in zip(_of(row, "max_load"), floors, strict=True)]
        )
        for row in solved
    }
    above = sorted((name for name in values if values[name].max() > 1e-9), key=lambda name: values[name].mean())
    shown = _alike(above, [values[name] for name in above])[: len(LOOKS)]
    step = max(1, instance.num_layers // 24)
    if not shown:
        return None
    with style():
        figure = new_figure(3.0)
        axes = figure.subplots()
        axes.grid(axis="y", color=FAINT, linewidth=0.4)
        for index, (names, excess) in enumerate(shown):
            colour, line, marker = LOOKS[index]
            axes.plot(
                100 * excess, color=colour, linestyle=line, linewidth=1.1, marker=marker, markersize=3.8,
                markevery=(index % step, step), markerfacecolor="white", markeredgewidth=0.8, label=label(names, 40),
            )  # fmt: skip
        axes.set_xlim(-0.6, instance.num_layers - 0.4)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
        layer_axis(axes, instance.layers, "x")
        axes.set_xlabel("layer")
        axes.set_ylabel("busiest GPU above the bound")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.2)
        axes.spines[["top", "right"]].set_visible(False)
        svg = to_svg(figure, prefix)
    means = ", ".join(f"{names} {words.percent(float(excess.mean()))}" for names, excess in shown)
    equal = [name for name in values if name not in above]
    title = "Busiest GPU above the bound, layer by layer"
    caption = f"Lower is better. Means over layers: {means}."
    if equal:
        caption += f" Not drawn, as they are on the bound everywhere: {', '.join(equal)}."
    return Plot(title, svg, f"{title}. Means: {means}.", caption)


def _of(row: RowFigures, key: str) -> list[float]:
    return [layer[key] for layer in (row.solution or {})["layers"]]
