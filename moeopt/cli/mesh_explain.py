"""Why a mesh lost or won: where its GPU time goes, beside the best of its family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moeopt.cli.say import Say
from moeopt.cli.tables import table
from moeopt.percent import percent

MOST = 5
"""Configurations of a family that are explained at most, beside its first."""
COLUMNS = {"attention": "attention", "experts": "FFNs", "communication": "between GPUs", "overhead": "launches",
           "head": "head", "hidden": "overlapped"}  # fmt: skip
"""Parts of a step as people call them."""
MATTERS = 0.005
"""Differences below this part of the whole are left out of the reason."""

Row = Mapping[str, Any]


def matching(ranking: Sequence[Row], words: str) -> list[Row]:
    """Rows whose label has all these words, small or capital; ``EP32`` is no ``EP320``.

    >>> rows = [{"label": "decode DP320 = EP320"}, {"label": "decode DP32 = EP32"}]
    >>> [row["label"] for row in matching(rows, "ep32")]
    ['decode DP32 = EP32']
    """
    wanted = set(words.lower().replace(",", " ").split()) - {"x", "="}
    return [row for row in ranking if wanted and wanted <= set(row["label"].lower().replace(",", " ").split())]


def gpu_us(row: Row) -> dict[str, float]:
    """Microseconds of a GPU for one token, by part; what overlap hides is below 0, so that they add up.

    >>> row = {"tokens_per_s_gpu": 1000.0, "parts_s": {"attention": 2.0, "experts": 3.0, "hidden": 1.0}}
    >>> gpu_us(row)
    {'attention': 500.0, 'experts': 750.0, 'hidden': -250.0}
    """
    signed = {name: -seconds if name == "hidden" else seconds for name, seconds in row["parts_s"].items()}
    whole = sum(signed.values())
    if not row["tokens_per_s_gpu"] or not whole > 0:
        return {}
    return {name: part / whole * 1e6 / row["tokens_per_s_gpu"] for name, part in signed.items()}


def reason(row: Row, best: Row) -> str:
    """What makes a token dearer or cheaper than with the best of the family, the largest difference first."""
    own, other = gpu_us(row), gpu_us(best)
    whole = sum(other.values())
    if not own or not whole:
        return str(row["why_not"])
    more = {name: own[name] - other.get(name, 0.0) for name in own}
    more["communication"] += more.pop("hidden", 0.0)
    names = COLUMNS | {"communication": "between GPUs, not overlapped"}
    total = sum(more.values())
    sign = 1 if total >= 0 else -1
    order = sorted((name for name in more if abs(more[name]) >= MATTERS * whole), key=lambda name: -sign * more[name])
    said = ", ".join(f"{names[name]} {more[name]:+,.3g}" for name in order)
    return f"{percent(abs(total) / whole)} {'more' if sign > 0 else 'less'}" + (f": {said}" if said else "")


def explain(words: str, solution: Mapping[str, Any], say: Say) -> None:
    """A table of the configurations that are asked for, the best of each family first."""
    ranking = solution["ranking"]
    found = matching(ranking, words)
    if not found:
        near = ", ".join(dict.fromkeys(row["label"] for row in ranking[:3]))
        say.note(f"--explain {words}: no configuration has this in its name; names are as {near}")
        return
    rows = table(
        "where the GPU time of a token goes, microseconds", "mesh", "GPUs", "batch", *COLUMNS.values(), "all",
        "busiest rank", "against the first of its kind",
    )  # fmt: skip
    rows.columns[-1].justify, rows.columns[-1].no_wrap = "left", False
    shown = 0
    for kind in dict.fromkeys((row["demand"], row["family"]) for row in found):
        mine = [row for row in ranking if (row["demand"], row["family"]) == kind and gpu_us(row)]
        best = next((row for row in mine if row["bought"]), mine[0] if mine else None)
        asked = [row for row in found if (row["demand"], row["family"]) == kind and row is not best]
        for row in [*([] if best is None else [best]), *asked[:MOST]]:
            shown += 1
            _add(rows, row, best)
    say.line("")
    say.show(rows)
    if len(found) > shown:
        say.line(f"{len(found) - shown:,} more have {words} in their names; --json -v has them all")


def _add(rows: Any, row: Row, best: Row | None) -> None:
    parts = gpu_us(row)
    cells = [f"{parts[name]:,.3g}" if parts.get(name) else "-" for name in COLUMNS]
    if row is best:
        why = "bought" if row["bought"] else "the least of its kind"
    else:
        why = row["why_not"] if best is None or not parts else reason(row, best)
    rows.add_row(
        row["label"],
        ", ".join(f"{many:,} {name}" for name, many in row["gpus"].items()),
        f"{row['batch']:,}" if row["batch"] else "-",
        *cells,
        f"{sum(parts.values()):,.4g}" if parts else "-",
        f"{row['imbalance']:.3f}",
        why,
        style="bold green" if row["bought"] else None,
    )
