"""Collectives under the alpha-beta model: steps, bytes a rank sends, and seconds.

``S`` is, as in nccl-tests: the vector on every rank (all-reduce), the gathered result (all-gather), the input of a rank
(reduce-scatter), all that a rank holds for all ranks, itself included (all-to-all). ``p`` ranks, ``n`` nodes of ``g``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from moeopt.cost.checked import checked
from moeopt.cost.checks import Number, divides, is_number, not_negative, whole
from moeopt.cost.exact import times
from moeopt.cost.links import Link
from moeopt.errors import Violations


@dataclass(frozen=True, slots=True)
class Stage:
    """What a rank does on one fabric: latencies paid one after another, and bytes sent as a part of ``S``."""

    steps: int
    part: Fraction


@dataclass(frozen=True, slots=True)
class Schedule:
    """Both fabrics of an algorithm: `inner` within a node, `outer` between nodes; `together` if they overlap."""

    inner: Stage
    outer: Stage
    together: bool


def _apart(factor: int, steps: int | None) -> Callable[[int, int], Schedule]:
    """Every rank to every other at once: each pair moves S/p, `factor` times; `steps` None is one latency a peer."""

    def build(n: int, g: int) -> Schedule:
        def stage(peers: int) -> Stage:
            paid = peers if steps is None else steps if peers else 0
            return Stage(paid, Fraction(factor * peers, n * g))

        return Schedule(stage(g - 1), stage((n - 1) * g), True)

    return build


def _ring(factor: int) -> Callable[[int, int], Schedule]:
    """One ring over all ranks. Between nodes every step waits for the slow hop, so all of it counts as outer."""

    def build(n: int, g: int) -> Schedule:
        p = n * g
        stage, idle = Stage(factor * (p - 1), Fraction(factor * (p - 1), p)), Stage(0, Fraction(0))
        return Schedule(idle, stage, False) if n > 1 else Schedule(stage, idle, False)

    return build


def _levels(factor: int) -> Callable[[int, int], Schedule]:
    """Rings within nodes, then rings between the GPUs of one rail, each with its S/g."""

    def build(n: int, g: int) -> Schedule:
        inner = Stage(factor * (g - 1), Fraction(factor * (g - 1), g))
        return Schedule(inner, Stage(factor * (n - 1), Fraction(factor * (n - 1), n * g)), False)

    return build


def _broadcast(n: int, g: int) -> Schedule:
    """One-shot all-reduce: the whole vector to every peer, and each rank adds up by itself."""
    inner, outer = g - 1, (n - 1) * g
    return Schedule(Stage(min(inner, 1), Fraction(inner)), Stage(min(outer, 1), Fraction(outer)), True)


def _rails(n: int, g: int) -> Schedule:
    """Two-level all-to-all: sort by rail within the node, then one message a node."""
    return Schedule(Stage(g - 1, Fraction(g - 1, g)), Stage(n - 1, Fraction(n - 1, n)), False)


COLLECTIVES: dict[str, dict[str, Callable[[int, int], Schedule]]] = {
    "all_reduce": {"ring": _ring(2), "one_shot": _broadcast, "two_shot": _apart(2, 2), "hierarchical": _levels(2)},
    "all_gather": {"ring": _ring(1), "one_shot": _apart(1, 1), "hierarchical": _levels(1)},
    "reduce_scatter": {"ring": _ring(1), "one_shot": _apart(1, 1), "hierarchical": _levels(1)},
    "all_to_all": {"direct": _apart(1, 1), "pairwise": _apart(1, None), "hierarchical": _rails},
}
"""Algorithms by collective; the first of each is the default. See `collective_schedule` for what each one does."""


@checked
def collective_schedule(op: str, algorithm: str | None = None, *, ranks: int, nodes: int = 1) -> Schedule:
    """Steps and bytes of one algorithm, exactly, as parts of ``S``.

    Parameters
    ----------
    op, algorithm
        A collective and an algorithm of `COLLECTIVES`; ``None`` is the first.

        ============ ======================= ==========================================================================
        ring         2(p-1) or p-1 steps     least bytes, ``2(p-1)/p S`` or ``(p-1)/p S``; flat over nodes it crosses
                                             the slow fabric in every step (one ring, one NIC a rank)
        one_shot     1 step                  all-reduce: ``(p-1) S``, the whole vector to everybody; the others:
                                             ``(p-1)/p S``, needs a fabric that joins every pair
        two_shot     2 steps                 reduce-scatter and all-gather, both direct: ``2(p-1)/p S``; with half of
                                             `NVL72_COLLECTIVE_S` a step it is the rack of the lecture notes
        direct       1 step                  all-to-all, all messages posted at once
        pairwise     p-1 steps               all-to-all, one latency a peer; both fabrics work side by side
        hierarchical by level                rings in nodes on S, rings between nodes on S/g; all-to-all: sort by rail
                                             within the node (``(g-1)/g S``), then n-1 messages of ``S/n``
        ============ ======================= ==========================================================================
    ranks, nodes
        ``p`` and ``n``; nodes must divide ranks.

    Raises
    ------
    InstanceError
        An unknown collective or algorithm; counts below 1; nodes that do not divide ranks.

    Notes
    -----
    Strength: exact counts of these algorithms. Ring: Patarasuk and Yuan, JPDC 69 (2009), which also proves
    ``2(p-1)/p S`` least for an all-reduce. Levels and all-to-all: Thakur, Rabenseifner, Gropp, IJHPCA 19 (2005);
    DeepSpeed-MoE (Rajbhandari et al. 2022), figure 8. Adding up the vectors is not counted, nor is NVLS or SHARP.

    >>> collective_schedule("all_to_all", "hierarchical", ranks=32, nodes=4).outer.steps  # pairwise: 24
    3
    """
    check = Violations()
    whole(check, ranks=ranks, nodes=nodes)
    divides(check, "nodes", nodes, "ranks", ranks)
    known = COLLECTIVES.get(op, {})
    if not known:
        check.add("op", op, rule=f"is not one of {', '.join(COLLECTIVES)}", fix="Use one of these")
    elif algorithm is not None and algorithm not in known:
        check.add("algorithm", algorithm, rule=f"{op} has {', '.join(known)}", fix="Use one of these")
    check.raise_if_any()
    build = known[algorithm or next(iter(known))]
    return build(int(nodes), int(ranks) // int(nodes))


@checked
def collective_bytes(
    op: str, size_bytes: Number, algorithm: str | None = None, *, ranks: int, nodes: int = 1
) -> Number:
    """Bytes that every rank sends, on both fabrics together; exact if `size_bytes` is.

    What is no such number, or cannot go together, is refused (`InstanceError`), all of it at once.

    `op` is a key of `COLLECTIVES`, `algorithm` one of its schedules, `nodes` how many servers the ranks lie in.

    Parameters and errors as in `collective_schedule`; `size_bytes` is ``S``, bytes >= 0. Every rank receives as much.

    >>> collective_bytes("all_reduce", 8_388_608, ranks=8), collective_bytes("all_gather", 10, ranks=4)
    (14680064, Fraction(15, 2))
    """
    check = Violations()
    not_negative(check, size_bytes=size_bytes)
    with check.within():
        plan = collective_schedule(op, algorithm, ranks=ranks, nodes=nodes)
    check.raise_if_any()
    return times(size_bytes, plan.inner.part + plan.outer.part)


@checked
def collective_s(
    op: str,
    size_bytes: Number,
    algorithm: str | None = None,
    *,
    ranks: int,
    link: Link,
    nodes: int = 1,
    outer: Link | None = None,
) -> float:
    """Seconds of one collective: ``steps alpha + part S / bandwidth``, summed over fabrics, or the longer of the two.

    Parameters
    ----------
    op, algorithm, ranks, nodes
        As in `collective_schedule`.
    size_bytes
        ``S``, bytes >= 0; of 0 bytes the latencies remain. One rank alone costs nothing.
    link, outer
        The fabric of a node, and the one between nodes; `outer` is needed from two nodes on.

    Raises
    ------
    InstanceError
        As in `collective_schedule`; negative bytes; two nodes or more without `outer`.

    Notes
    -----
    Strength: model, see `Link`. Ranks start together, and links carry nothing else.

    >>> nvlink = Link(alpha_s=2e-6, bytes_per_s=160e9)  # A800, eight GPUs, 1,975 tokens of 6,144 in BF16, twice a layer
    >>> round(2 * collective_s("all_reduce", 1975 * 6144 * 2, ranks=8, link=nvlink) * 1e6)
    587
    """
    lines = lines_of(op, size_bytes, algorithm, ranks=ranks, link=link, nodes=nodes, outer=outer)
    return max(fixed + slope * float(size_bytes) for fixed, slope in lines)


def lines_of(
    op: str, size_bytes: Number, algorithm: str | None, *, ranks: int, link: Link, nodes: int, outer: Link | None
) -> list[tuple[float, float]]:
    """Seconds as the largest of lines (seconds, seconds a byte) in the size; all else as in `collective_s`."""
    check = Violations()
    not_negative(check, size_bytes=size_bytes)
    with check.within():
        plan = collective_schedule(op, algorithm, ranks=ranks, nodes=nodes)
    if outer is None and is_number(nodes) and nodes > 1:
        rule = f"is needed between nodes = {nodes}"
        check.add("outer", None, rule=rule, fix="Give the Link of the network")
    check.raise_if_any()
    ways = ((plan.inner, link), (plan.outer, outer or link))
    lines = [(stage.steps * way.alpha_s, float(stage.part) / way.bytes_per_s) for stage, way in ways]
    return lines if plan.together else [(sum(line[0] for line in lines), sum(line[1] for line in lines))]
