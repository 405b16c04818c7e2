"""Results in a few lines of text: what is known, what it is worth, and the shape of the plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from moeopt.percent import percent, tokens, total

if TYPE_CHECKING:
    from moeopt.result import Result

Solution = Mapping[str, Any]

POOLS_SHOWN = 4
"""Pools of a mesh that are named; the rest is counted."""
LONGEST = 160
"""Characters of a line that quotes a note or a conflict."""


def table(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns: the first and the last begin on the left, numbers between them end on the right.

    >>> table([("method", "objective", ""), ("lpt", "10", "best")])
    ['method  objective', 'lpt            10  best']
    """
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    made = []
    for line in lines:
        numbers = (cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True))
        made.append("  ".join([line[0].ljust(widths[0]), *numbers, line[-1]]).rstrip())
    return made


def head(result: Result) -> str:
    """A line: the problem, the method, what is known and why the search ended, and the value with its bound.

    >>> from moeopt import placement
    >>> head(placement.solve(placement.PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4), method="lpt"))
    'placement by lpt: FEASIBLE (stop FINISHED), objective 10 tokens, lower bound 8, gap 20.0 %'
    """
    said = f"{result.problem} by {result.method}: {result.status} (stop {result.stop})"
    ratios = result.unit == "imbalance"
    if result.objective is not None:
        said += f", objective {total(result.objective, ratios)} {result.unit}"
    if result.lower_bound is not None:
        said += f", lower bound {total(result.lower_bound, ratios)}"
    return said if result.gap is None else f"{said}, gap {percent(result.gap)}"


def lines(result: Result) -> list[str]:
    """The head, the shape of the plan or the first rule in conflict, the time, and the first note."""
    made = [head(result)]
    shape = SHAPES.get(result.problem)
    if result.solution is not None and shape is not None:
        with suppress(KeyError, TypeError, ValueError):  # of a result that somebody put together by hand
            made.append(f"plan: {shape(result.solution)}")
    for conflict in result.conflicts[:1]:
        rule = str(conflict.get("message") or conflict.get("rule") or "a rule")
        made.append(f"conflict: {cut(rule)}{_more(len(result.conflicts))}")
    made.append(f"time: {result.runtime_s:.3g} s, seed {result.seed}")
    made += [f"note: {cut(note)}{_more(len(result.notes))}" for note in result.notes[:1]]
    return made


def cut(text: str) -> str:
    """A text in one line that is not too long.

    >>> cut("one\\ntwo")
    'one two'
    """
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _more(count: int) -> str:
    return f" (and {count - 1:,} more)" if count > 1 else ""


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _layered(solution: Solution) -> list[str]:
    layers = solution["layers"]
    said = [_count(len(layers), "layer")]
    if layers and "slot_expert" in layers[0]:
        slots, gpus = len(layers[0]["slot_expert"]), solution["ep_size"]
        said.append(f"{_count(slots, 'slot')} on {_count(gpus, 'GPU')}")
    if solution.get("imbalance_mean") is not None:
        said.append(f"imbalance {solution['imbalance_mean']:.4f}, the mean of layers")
    return said


def _placement(solution: Solution) -> str:
    moves = solution.get("moves")
    return ", ".join(_layered(solution) + ([_count(moves, "move")] if isinstance(moves, int) else []))


def _routing(solution: Solution) -> str:
    said = _layered(solution)
    if solution.get("even_objective") is not None:
        said.append(f"with even parts {tokens(solution['even_objective'])}")
    return ", ".join(said)


def _collocation(solution: Solution) -> str:
    said = _layered(solution)
    if isinstance(solution.get("copies_per_token"), int | float):
        said.append(f"{solution['copies_per_token']:.3g} copies a token")
    return ", ".join(said)


def _microbatch(solution: Solution) -> str:
    said = f"m = {solution['m']}, batch {solution['batch']:,}, {solution['pattern']}"
    return f"{said} over {_count(solution['num_layers'], 'layer')}, step {solution['time_s']:.4g} s"


def _mesh(solution: Solution) -> str:
    pools = solution["pools"]
    said = [
        f"{pool['replicas']:,} x {pool['label']} ("
        + ", ".join(f"{count:,} {kind}" for kind, count in pool["gpus"].items())
        + ")"
        for pool in pools[:POOLS_SHOWN]
    ]
    if len(pools) > POOLS_SHOWN:
        said.append(_count(len(pools) - POOLS_SHOWN, "further pool"))
    return ", ".join([*said, f"{_count(solution['total_gpus'], 'GPU')} in all"])


SHAPES: dict[str, Callable[[Solution], str]] = {
    "placement": _placement,
    "routing": _routing,
    "collocation": _collocation,
    "microbatch": _microbatch,
    "mesh": _mesh,
}
"""How each problem says the shape of a plan."""
