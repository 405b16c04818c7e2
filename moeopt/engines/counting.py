"""What the readers of all engines share: slots folded to experts, counts and maps checked and made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import PER_STEP_BYTES, Dump, ExpertMap
from moeopt.engines.bounds import EXPERTS_MAX, LAYERS_MAX, SLOTS_MAX, check_layers, within
from moeopt.errors import Violations
from moeopt.workload.assemble import Content, assemble
from moeopt.workload.sums import COUNT_MAX, add_counts
from moeopt.workload.table import id_ranges

INT32_MAX = 2**31 - 1
BELOW = "counts must be below 2**63"


class Folding:
    """Slots to experts: (L, S) counts to (L, E), the replicas of an expert summed; empty slots, -1, are left out.

    >>> Folding(np.array([[1, 0, 1, -1]]), 3)(np.array([[3, 4, 5, 6]])).tolist()
    [[4, 8, 0]]
    """

    def __init__(self, slot_expert: NDArray[Any], num_experts: int) -> None:
        self._copies = max((int(np.bincount(row[row >= 0]).max(initial=0)) for row in slot_expert), default=0)
        self.shape = len(slot_expert), num_experts
        place = slot_expert.astype(np.int64) + np.arange(len(slot_expert))[:, None] * num_experts
        filled = np.flatnonzero(slot_expert.reshape(-1) >= 0)
        place = place.reshape(-1)[filled]
        self._order = filled[np.argsort(place, kind="stable")]
        self._places, self._starts = np.unique(np.sort(place), return_index=True)

    def __call__(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        """Counts of experts from those of slots; refused where the replicas of one have too many."""
        large = int(counts.max(initial=0)) * self._copies > COUNT_MAX
        folded = np.zeros(self.shape[0] * self.shape[1], dtype=np.int64)
        if len(self._starts):
            parts = counts.reshape(-1)[self._order]
            if large:
                exact = np.add.reduceat(parts.astype(object), self._starts)
                self._refuse_above(exact)
            folded[self._places] = np.add.reduceat(parts, self._starts, dtype=np.int64)
        return folded.reshape(self.shape)

    def _refuse_above(self, sums: NDArray[Any]) -> None:
        check = Violations()
        for place, count in zip(self._places.tolist(), sums.tolist(), strict=True):
            if count > COUNT_MAX:
                where = f"row {place // self.shape[1]}, expert {place % self.shape[1]}"
                check.add("counts", count, rule="the sum must be below 2**63", fix="Did a counter wrap?", where=where)
        check.raise_if_any()


class Steps:
    """Counts step by step and their sum; the steps are kept if all of them fit `PER_STEP_BYTES`.

    Parameters
    ----------
    shape
        (L, E).
    most
        How many steps there are at most.

    >>> steps = Steps((1, 2), 3); steps.add(np.array([[1, 2]])); steps.add(np.array([[0, 5]]))
    >>> steps.total.tolist(), steps.kept().tolist(), steps.count
    ([[1, 7]], [[[1, 2]], [[0, 5]]], 2)
    """

    def __init__(self, shape: tuple[int, int], most: int) -> None:
        self.total = np.zeros(shape, dtype=np.int64)
        self.count = 0
        fits = most * shape[0] * shape[1] * 4 <= PER_STEP_BYTES
        self._kept = np.zeros((most, *shape), dtype=np.int32) if fits else None

    def add(self, counts: NDArray[Any], check: Violations | None = None) -> None:
        """One more step, (L, E); a sum that does not fit is refused."""
        add_counts(self.total, counts, check or Violations(), where=f"step {self.count}")
        if self._kept is not None and int(counts.max(initial=0)) > INT32_MAX:
            self._kept = None
        if self._kept is not None:
            self._kept[self.count] = counts
        self.count += 1

    def kept(self) -> NDArray[np.int32] | None:
        """(T, L, E) int32, or ``None`` where they do not fit."""
        if self._kept is None or not self.count:
            return None
        return self._kept[: self.count]


def whole_numbers(array: NDArray[Any], field: str, check: Violations, notes: list[str]) -> NDArray[Any] | None:
    """The array as integers; floats that are whole are taken with a note, anything else is named."""
    if array.dtype.kind in "iu":
        large = array > np.uint64(COUNT_MAX) if array.dtype.kind == "u" else np.zeros(array.shape, dtype=bool)
        return None if _refused(array, large, field, BELOW, "Did a counter wrap?", check) else array
    if array.dtype.kind == "f":
        broken = ~np.isfinite(array)
        rule, fix = "must be counts, whole numbers", "Record counts, not shares"
        if _refused(array, broken if broken.any() else array != np.floor(array), field, rule, fix, check):
            return None
        if _refused(array, np.abs(array) >= 2.0**63, field, BELOW, "Did a counter wrap?", check):
            return None
        notes.append(f"{field} is {array.dtype.name}, which holds whole numbers only up to {_exact(array.dtype)}")
        return array.astype(np.int64)
    check.add(field, f"dtype {array.dtype}", rule="must be whole numbers", fix="Record counts as integers")
    return None


def _refused(array: NDArray[Any], bad: NDArray[np.bool_], field: str, rule: str, fix: str, check: Violations) -> bool:
    """Name the first of the bad entries."""
    if not bad.any():
        return False
    place = tuple(np.argwhere(bad)[0].tolist())
    check.add(field, array[place].item(), rule=rule, fix=fix, where=", ".join(map(str, place)))
    return True


def _exact(kind: np.dtype[Any]) -> str:
    return f"{2 ** (np.finfo(kind).nmant + 1):,}"


def dump(
    engine: str,
    form: str,
    counts: Any,
    check: Violations,
    *,
    layers: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
    per_step: NDArray[Any] | None = None,
    top_k: int | None = None,
    physical: ExpertMap | None = None,
    steps: int | None = None,
    notes: Sequence[str] = (),
) -> Dump:
    """Check (L, E) counts as any table of loads is checked, and make the dump."""
    ids = None if layers is None else list(layers)
    shape: tuple[int, ...] = getattr(counts, "shape", ())
    if len(shape) > 1:
        within(int(shape[-1]), "experts", EXPERTS_MAX, check)
        within(int(shape[-2]), "layers", LAYERS_MAX, check)
    check_layers(ids or (), check)
    within(0 if top_k is None else top_k, "top_k", EXPERTS_MAX, check)
    check.raise_if_any()
    said = tuple(dict.fromkeys(notes))
    table = assemble(Content(counts, ids, steps or None, names, said), check)
    table = replace(table, top_k=top_k, per_step=per_step)
    return Dump(engine, form, table, per_step, top_k, physical, steps, said)


def expert_map(
    engine: str,
    rows: Any,
    check: Violations,
    *,
    layers: Sequence[int] | None = None,
    slots: Sequence[int] | None = None,
    num_experts: int | None = None,
    empty: bool = False,
    field: str = "slot_expert",
    notes: Sequence[str] = (),
) -> ExpertMap:
    """Check (L, S) experts in slots and make the map, or raise everything that was found.

    `empty` says whether -1, an empty slot, may stand in the file. That every expert has a slot is not asked here: the
    referee lists it among the faults of a plan.
    """
    if num_experts is not None:
        within(num_experts, "num_experts", EXPERTS_MAX, check, least=1)
    check_layers(layers or (), check)
    check.raise_if_any()
    array: NDArray[Any] | None = rows if isinstance(rows, np.ndarray) else _table(rows, field, layers, check)
    if array is not None and array.dtype.kind not in "iu":
        check.add(field, f"dtype {array.dtype}", rule="must be ids of experts, whole numbers", fix="Save integers")
        array = None
    if array is not None and (array.ndim != 2 or 0 in array.shape):
        rule = "must have two axes, layers x slots, none empty"
        check.add(field, f"shape {array.shape}", rule=rule, fix="Give one row a layer")
        array = None
    if array is not None:
        within(array.shape[0], "layers", LAYERS_MAX, check)
        within(array.shape[1], "slots", SLOTS_MAX, check)
    check.raise_if_any()
    assert array is not None
    ids = list(range(len(array))) if layers is None else list(layers)
    least, most = (-1 if empty else 0), (num_experts or EXPERTS_MAX)
    for row, slot in np.argwhere((array < least) | (array >= most)):
        known = (
            f"ids of experts run from {least} to {most - 1}"
            if num_experts
            else f"ids of experts must be >= {least} and at most {most - 1}"
        )
        where = f"layer {ids[row]}, slot {slot}"
        check.add(field, array[row, slot].item(), rule=known, fix="Is it the map of another LLM?", where=where)
    check.raise_if_any()
    made = array.astype(np.int32)
    made.flags.writeable = False
    return ExpertMap(engine, made, tuple(ids), None if slots is None else tuple(slots), num_experts, tuple(notes))


def _table(rows: Any, field: str, layers: Sequence[int] | None, check: Violations) -> NDArray[Any] | None:
    """Lists of a document as an array; text, fractions and ragged rows are named by their place."""
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows) or not rows:
        check.add(field, rows, rule="must be rows of ids, one a layer", fix="Give a list of lists")
        return None
    before = len(check.found)
    ids = list(range(len(rows))) if layers is None else list(layers)
    for layer, row in zip(ids, rows, strict=True):
        for slot, item in enumerate(row):
            if type(item) is not int or not -(2**31) <= item < 2**31:
                quoted = isinstance(item, str)
                rule = "ids of experts are whole numbers" + (", not text in quotes" if quoted else "")
                fix = "Take the quotes away" if quoted else "Repair the file"
                check.add(field, repr(item), rule=rule, fix=fix, where=f"layer {layer}, slot {slot}")
        if len(row) != len(rows[0]):
            rule = f"every layer must have as many slots as the first one, {len(rows[0])} in layer {ids[0]}"
            check.add(field, f"{len(row)} slots", rule=rule, fix="Is the file whole?", where=f"layer {layer}")
    return np.array(rows, dtype=np.int64) if len(check.found) == before else None


def uneven(counts: Sequence[int], what: str) -> str:
    """``ranks 0-2`` or ``rank 2``, for notes.

    >>> uneven([0, 1, 2], "ranks"), uneven([2], "ranks")
    ('ranks 0-2', 'rank 2')
    """
    return f"{what.removesuffix('s') if len(counts) == 1 else what} {id_ranges(sorted(counts))}"


def be(counts: Sequence[int]) -> str:
    """The verb that goes with `uneven`.

    >>> be([0]), be([0, 1])
    ('is', 'are')
    """
    return "is" if len(counts) == 1 else "are"
