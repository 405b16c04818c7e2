"""Which algorithm a collective should use: the quickest by the alpha-beta model, and the sizes where that changes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, is_number
from moeopt.cost.collectives import COLLECTIVES, lines_of
from moeopt.cost.links import Link
from moeopt.errors import Violations


@dataclass(frozen=True, slots=True)
class Crossover:
    """A size from which another algorithm is the quicker one."""

    size_bytes: float
    below: str
    above: str


@dataclass(frozen=True, slots=True)
class CollectiveChoice:
    """The quickest algorithm for a size, seconds of all of them, and the sizes where the choice changes."""

    algorithm: str
    time_s: float
    times_s: dict[str, float]
    crossovers: tuple[Crossover, ...]


@checked
def best_collective(
    op: str,
    size_bytes: Number,
    *,
    ranks: int,
    link: Link,
    nodes: int = 1,
    outer: Link | None = None,
    among: tuple[str, ...] | None = None,
) -> CollectiveChoice:
    """The quickest algorithm by `collective_s`, and every size at which it would be another one.

    Parameters
    ----------
    op, size_bytes, ranks, link, nodes, outer
        As in `collective_s`.
    among
        Algorithms that the library at hand has; by default all, ``hierarchical`` from two nodes on. Equal times go to
        the one that comes first.

    Returns
    -------
    CollectiveChoice
        `crossovers` are in rising order, none for one rank; between two of them the choice stays.

    Raises
    ------
    InstanceError
        As in `collective_s`; an algorithm that this collective has not.

    Notes
    -----
    Strength: exact for the model. Each time is the largest of at most two lines in the size, so the choice can change
    only where two lines meet: all of those are looked at.

    >>> choice = best_collective("all_reduce", 2**20, ranks=8, link=Link(2e-6, 360e9), among=("ring", "one_shot"))
    >>> choice.algorithm, [(round(at.size_bytes), at.below, at.above) for at in choice.crossovers]
    ('one_shot', [(1782857, 'one_shot', 'ring')])
    """
    if among is None and op in COLLECTIVES:
        among = tuple(name for name in COLLECTIVES[op] if name != "hierarchical" or (is_number(nodes) and nodes > 1))
    check = Violations()
    if among is not None and not among:
        check.add("among", among, rule="must name an algorithm", fix="Leave it out for all")
    lines: dict[str, list[tuple[float, float]]] = {}
    for name in among or ("",):
        with check.within():
            lines[name] = lines_of(op, size_bytes, name, ranks=ranks, link=link, nodes=nodes, outer=outer)
            continue
        break  # the others would say the same
    check.raise_if_any()

    def quickest(size: float) -> str:
        return min(lines, key=lambda name: max(fixed + slope * size for fixed, slope in lines[name]))

    meets = sorted(_meetings([line for group in lines.values() for line in group]))
    edges = [0.0, *meets, 2 * meets[-1] + 1 if meets else 1.0]
    names = [quickest((low + high) / 2) for low, high in pairwise(edges)]
    changes = [
        Crossover(at, below, above) for at, (below, above) in zip(meets, pairwise(names), strict=True) if below != above
    ]
    size = float(size_bytes)
    seconds = {name: max(fixed + slope * size for fixed, slope in group) for name, group in lines.items()}
    chosen = min(seconds, key=seconds.__getitem__)
    return CollectiveChoice(chosen, seconds[chosen], seconds, tuple(changes))


def _meetings(lines: list[tuple[float, float]]) -> set[float]:
    found = set()
    for index, (fixed, slope) in enumerate(lines):
        for other, steep in lines[:index]:
            if slope != steep and (at := (other - fixed) / (slope - steep)) > 0:
                found.add(at)
    return found
