"""Lower bounds of a layer, each with a certificate that `recheck` goes through again."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.collocation import hull, own_hull, spectrum, weights
from moeopt.collocation.instance import CollocationInstance
from moeopt.collocation.rows import Rows, loads_of, rows_of
from moeopt.limits import Deadline

Ints = NDArray[np.int64]
Diagonal = NDArray[np.float64] | None

MOST_PLACES = 1_200
"""Beyond so many slots eigenvalues take too long, and the trivial bound stands."""


@dataclass(frozen=True)
class LayerBound:
    """A floor under the objective of one layer, the floor under its lambda it rests on, and what proves them.

    Parameters
    ----------
    value
        Of the objective.
    touched
        Of the units touched, summed over tokens; ``None`` where nothing is merged.
    """

    value: Fraction
    touched: Fraction | None
    certificate: Mapping[str, Any]


def trivial(instance: CollocationInstance, rows: Rows) -> Fraction:
    """Every token touches a unit, and as many as hold its experts."""
    room = int(instance.unit_slots.max())
    return Fraction(sum(-(-size // room) * count for size, count in sizes(rows)))


def sizes(rows: Rows) -> list[tuple[int, int]]:
    """(experts, tokens with so many)."""
    found: Counter[int] = Counter()
    for size, weight in zip((rows.sets >= 0).sum(axis=1).tolist(), rows.weight.tolist(), strict=True):
        found[size] += weight
    return sorted(found.items())


def spectral_hull(instance: CollocationInstance, rows: Rows, diagonal: NDArray[np.float64]) -> Fraction:
    """Units touched by all tokens, from the pairs that can lie together: see `hull` and `spectrum`.

    Experts are brought up to the slots of N units as large as the largest by experts that nobody selects. Holds with
    replicas too: seen from one source GPU each expert is in one unit, and no unit has more than its slots.
    """
    units, room = instance.num_units, int(instance.unit_slots.max())
    pairs = _padded(instance, rows)
    together = spectrum.most_pairs(pairs, np.asarray(diagonal, dtype=np.float64), units)
    if math.isinf(together):
        return Fraction(0)
    return hull.fewest_touched(sizes(rows), units, room, Fraction(together))


def _by_pairs(instance: CollocationInstance, rows: Rows, certificate: Mapping[str, Any]) -> Fraction:
    """Units touched by all tokens: the better of all pairs alike and of pairs chosen token by token."""
    places, units = instance.num_units * int(instance.unit_slots.max()), instance.num_units
    plain = spectral_hull(instance, rows, np.array(certificate["diagonal"], dtype=np.float64))
    tables = [weights.unpacked(entries, places) for entries in certificate["tables"]]
    diagonal = np.array(certificate["weighted_diagonal"], dtype=np.float64)
    return max(plain, Fraction(weights.floor(rows, places, units, tables, diagonal)))


def _padded(instance: CollocationInstance, rows: Rows) -> NDArray[np.float64]:
    places = instance.num_units * int(instance.unit_slots.max())
    pairs = np.zeros((places, places))
    pairs[: instance.num_experts, : instance.num_experts] = rows.pairs(instance.num_experts)
    return pairs


def bound(instance: CollocationInstance, row: int, deadline: Deadline | None = None) -> LayerBound:
    """The best bound of a layer; a deadline leaves fewer steps for it, or the trivial one.

    `row` is the place of the layer in `instance`.

    >>> from moeopt import collocation
    >>> instance = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
    >>> float(bound(instance, 0).value)
    8.0
    """
    if not instance.transport.merges:
        return _unmerged(instance, row)
    rows = rows_of(instance, row)
    kind: dict[str, Any] = {"kind": "trivial"}
    touched, diagonal = trivial(instance, rows), None
    places = instance.num_units * int(instance.unit_slots.max())
    alone = int(instance.unit_slots.max()) >= instance.num_experts  # one unit can hold all: pairs say nothing
    paired = instance.num_units > 1 and not alone and places <= MOST_PLACES and rows.sets.shape[1] > 1
    if paired and (deadline is None or deadline.remaining_s() > _least_s(instance, rows, places)):
        pairs = _padded(instance, rows)
        first = deadline and deadline.share(3)  # tables say more
        diagonal = np.round(spectrum.best_diagonal(pairs, instance.num_units, deadline=first), 3)
        tables, other = weights.best_tables(rows, pairs, diagonal, instance.num_units, deadline)
        kind = {
            "kind": "weighted_pairs",
            "diagonal": diagonal.tolist(),
            "weighted_diagonal": np.round(other, 3).tolist(),
            "tables": [weights.packed(table) for table in tables],
        }
        if not _own_partitions(instance):
            touched = max(touched, _by_pairs(instance, rows, kind))
    late = deadline is not None and not deadline.allows_import("scipy.optimize")
    touched, copies = floors(instance, rows, touched, diagonal, late)
    value = objective_floor(instance, rows, copies, touched)
    certificate = {"layer": instance.layers[row], **kind, "touched": str(touched), "copies": str(copies)}
    return LayerBound(value, touched, certificate | {"value": str(value)} | cut_of(instance))


def _least_s(instance: CollocationInstance, rows: Rows, places: int) -> float:
    """Seconds, about, that the bound by pairs takes at least: eigenvalues, and choices of pairs for each token."""
    classes = instance.num_gpus if instance.num_slots > instance.num_experts else instance.num_units
    cells = int(rows.sets.size) * int(rows.sets.shape[1])
    return (10 + classes) * (5e-3 + 5e-10 * float(places**3)) + 6 * (2e-2 + 3e-7 * cells)


def floors(
    instance: CollocationInstance, rows: Rows, touched: Fraction, diagonal: Diagonal, late: bool = False
) -> tuple[Fraction, Fraction]:
    """Units touched and copies that travel, each brought up to the next number that can be; `late`: without programmes.

    Both are whole numbers, summed over the sources that are told apart and divided by how many there are.
    """
    spare = instance.source is None and instance.pairs is None and instance.num_slots > instance.num_experts
    sources = instance.num_gpus if spare else 1
    touched = Fraction(ceil(touched * sources), sources)
    copies = max(copies_floor(instance, rows, touched, diagonal, late), touched - rows.tokens)
    if instance.source is not None or spare or instance.pairs is not None:
        copies = Fraction(ceil(copies * sources), sources)
    return touched, copies


def copies_floor(
    instance: CollocationInstance, rows: Rows, touched: Fraction, diagonal: Diagonal, late: bool = False
) -> Fraction:
    """Copies that travel: what is touched, less the touches that can be of the token's own unit."""
    if instance.pairs is not None:
        return touched - rows.tokens
    alone = instance.num_slots <= instance.num_experts or instance.num_units == 1
    if instance.source is None and alone:
        share = Fraction(int(instance.unit_gpus.max()), instance.num_gpus)
        return touched * (1 - share)  # without replicas a unit is touched or not, whatever the source
    if instance.source is not None and alone:
        home = sum(
            (_at_home(instance, part, unit) for unit, part in _classes(instance, rows, instance.unit)), Fraction(0)
        )
        return _away(instance, rows, diagonal, home, late)
    if instance.source is not None:  # each class may have replicas of its own
        return sum((_away(instance, part, diagonal, _at_home(instance, part, unit), late)
                    for unit, part in _classes(instance, rows, np.arange(instance.num_gpus))), Fraction(0))  # fmt: skip
    homes = [_at_home(instance, rows, unit) for unit in range(instance.num_units)]
    shares = [Fraction(int(gpus), instance.num_gpus) for gpus in instance.unit_gpus]
    known = {home: _away(instance, rows, diagonal, home, late) for home in dict.fromkeys(homes)}
    apart = sum((known[home] * share for home, share in zip(homes, shares, strict=True)), Fraction(0))
    most, more = max(shares), _more_replicas(instance, rows)
    home = most * (int(rows.loads(instance.num_experts).sum()) + more)  # on average, as replicas have to be shared out
    even = _away(instance, rows, diagonal, home, late) if home < max(homes) else Fraction(0)
    return max(apart, even, touched * (1 - most) - most * more)


def _more_replicas(instance: CollocationInstance, rows: Rows) -> int:
    """(Token, expert) pairs, at most, of the replicas beyond the first: the largest loads, one a unit."""
    left, total = instance.num_slots - instance.num_experts, 0
    for load in np.sort(rows.loads(instance.num_experts))[::-1].tolist():
        used = min(left, instance.num_units - 1)
        total, left = total + used * load, left - used
    return total


def _own_partitions(instance: CollocationInstance) -> bool:
    """Whether tokens of different sources may find an expert in different units, so that no one partition is theirs."""
    return instance.source is not None and instance.num_slots > instance.num_experts


def _classes(instance: CollocationInstance, rows: Rows, alike: Ints) -> list[tuple[int, Rows]]:
    """The tokens of GPUs that are `alike` (G,), with the unit they lie in."""
    found = []
    for one in np.unique(alike[rows.source]):
        mine = alike[rows.source] == one
        unit = int(instance.unit[np.flatnonzero(alike == one)[0]])
        found.append((unit, Rows(rows.sets[mine], rows.weight[mine], rows.source[mine])))
    return found


def _at_home(instance: CollocationInstance, rows: Rows, unit: int) -> Fraction:
    """(Token, expert) pairs, at most, in the unit the tokens lie in: as many experts as it has slots."""
    loads = np.sort(rows.loads(instance.num_experts))[::-1]
    return Fraction(int(loads[: instance.unit_slots[unit]].sum()))


def _away(instance: CollocationInstance, rows: Rows, diagonal: Diagonal, home: Fraction, late: bool) -> Fraction:
    """Copies to other units, at least."""
    units, room = instance.num_units, int(instance.unit_slots.max())
    pairs = _padded(instance, rows)
    together = Fraction(sum(size * (size - 1) // 2 * count for size, count in sizes(rows)))
    if diagonal is not None:
        share = rows.tokens / instance.num_tokens  # of a class its part of the diagonal, which is as valid as any
        together = min(together, Fraction(spectrum.most_pairs(pairs, diagonal * share, units)))
    return own_hull.fewest_away(sizes(rows), units, room, together, home, late)[0]


def objective_floor(
    instance: CollocationInstance, rows: Rows, copies: Fraction, touched: Fraction | None = None
) -> Fraction:
    """The objective, if so many copies travel: in seconds, over all that units can receive at once, or nodes."""
    if instance.objective != "time":
        return copies
    each = Fraction(instance.batch_tokens) * instance.num_gpus / rows.tokens
    size = sum((Fraction(one) for one in instance.transport.copy_bytes(instance.hidden)), Fraction(0))
    ways = [(copies, cuts(instance))]
    if touched is not None and _crossed(instance):
        ways.append((_crossing(instance, rows, touched), cuts(instance, "node")))
    into = [(sent, sum((Fraction(one) for one in found), Fraction(0))) for sent, found in ways]
    return max((sent * each * size / most for sent, most in into if most), default=Fraction(0))


def _crossed(instance: CollocationInstance) -> bool:
    """Whether the network between nodes may bind where the ways into units do not: units are parts of nodes."""
    return instance.transport.merge == "gpu" and instance.source is None and bool(instance.node.max() > 0)


def _crossing(instance: CollocationInstance, rows: Rows, touched: Fraction) -> Fraction:
    """Copies from node to node, at least: units touched, less those of the node that the token lies in."""
    most = Fraction(int(np.bincount(instance.node).max()), instance.num_gpus)
    return max(touched * (1 - most) - most * _more_replicas(instance, rows), Fraction(0))


def cuts(instance: CollocationInstance, of: str = "unit") -> list[float]:
    """(U,) or (N,) bytes/s a unit or node can receive from outside, or send, the larger: cuts of the link graph."""
    known = instance.__dict__.setdefault("_cuts", {})
    if of not in known:
        from moeopt.collocation.cuts import least_cuts

        known[of] = least_cuts(instance, instance.unit if of == "unit" else instance.node)
    found: list[float] = known[of]
    return found


def cut_of(instance: CollocationInstance) -> dict[str, Any]:
    """What the certificate says of cuts."""
    if instance.objective != "time":
        return {}
    more = {"node_cuts_bytes_per_s": cuts(instance, "node")} if _crossed(instance) else {}
    return {"cuts_bytes_per_s": cuts(instance), **more}


def _unmerged(instance: CollocationInstance, row: int) -> LayerBound:
    """Tokens of the busiest GPU: the mean, or one expert over all its replicas. Copies: all pairs but the nearest."""
    loads = loads_of(instance, row)
    name = {"layer": instance.layers[row]}
    if instance.objective == "tokens":
        mean = Fraction(int(loads.sum()), instance.num_gpus)
        most = min(instance.num_slots - instance.num_experts + 1, instance.num_gpus)
        alone = Fraction(int(loads.max()), most)
        kind = "mean" if mean >= alone else "expert"
        value = max(mean, alone)
        return LayerBound(value, None, {**name, "kind": kind, "value": str(value)})
    rows = rows_of(instance, row)
    groups = instance.node
    value = Fraction(0)
    if instance.num_slots <= instance.num_experts:
        single = rows.singles()
        near = np.zeros((instance.num_experts, int(groups.max()) + 1), dtype=np.int64)
        np.add.at(near, (single.sets[:, -1], groups[single.source]), single.weight)
        value = Fraction(int(loads.sum() - near.max(axis=1).sum()))
    if instance.objective == "time":
        value = objective_floor(instance, rows, value)
    return LayerBound(value, None, {**name, "kind": "nearest", "value": str(value)} | cut_of(instance))


def recheck(instance: CollocationInstance, row: int, certificate: Mapping[str, Any]) -> list[str]:
    """What is wrong with the certificate of a layer; nothing where its value follows from it.

    `row` is the place of the layer in `instance`.

    A diagonal is checked with eigenvalues computed again, everything else in whole numbers.

    >>> from moeopt import collocation
    >>> instance = collocation.CollocationInstance([[0, 2], [1, 3]] * 8, experts=4, nodes=2, gpus=2)
    >>> recheck(instance, 0, bound(instance, 0).certificate)
    []
    """
    layer, rows = instance.layers[row], rows_of(instance, row)
    said = Fraction(certificate["value"])
    if certificate["kind"] in ("mean", "expert", "nearest"):
        true = _unmerged(instance, row).value
    else:
        touched, diagonal = trivial(instance, rows), None
        if certificate["kind"] == "weighted_pairs":
            diagonal = np.array(certificate["diagonal"])
            if not _own_partitions(instance):
                touched = max(touched, _by_pairs(instance, rows, certificate))
        touched, copies = floors(instance, rows, touched, diagonal)
        true = objective_floor(instance, rows, copies, touched)
        if Fraction(certificate["touched"]) > touched * (1 + Fraction(1, 10**9)):
            text = f"touched = {certificate['touched']} does not follow from its certificate, which gives {touched}"
            return [f"layer {layer}: {text}"]
    if said > true * (1 + Fraction(1, 10**9)):
        text = f"the bound {float(said):g} does not follow from its certificate, which gives {float(true):g}"
        return [f"layer {layer}: {text}"]
    return []
