"""SGLang: dumps of its expert distribution recorder, and the files of ``--init-expert-location``.

Layouts: ``python/sglang/srt/eplb/expert_distribution.py`` and ``expert_location.py`` of SGLang 0.5. Rows are all layers
of the LLM, dense ones too, so the row is the layer id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.counting import Steps, dump, expert_map, whole_numbers
from moeopt.engines.torch_tensors import Tensor
from moeopt.errors import Violations

ENGINE = "sglang"
MAP, COUNTS, RECORDS, LAST_MAP = (
    "physical_to_logical_map",
    "logical_count",
    "records",
    "last_physical_to_logical_map",
)
PASS_COUNTS, PASS_IDS = "global_physical_count", "topk_ids_of_layer"
STAT, PER_PASS, PER_TOKEN, INIT_COUNTS, INIT_MAP = (
    "recorder stat",
    "recorder per_pass",
    "recorder per_token",
    "init-expert-location loads",
    "init-expert-location map",
)


def form_of(value: Any) -> str | None:
    """Which file of SGLang a value of torch or JSON is, or ``None``.

    >>> form_of({"rank": 0, "logical_count": []}), form_of({"physical_to_logical_map": []}), form_of({"a": 1})
    ('recorder stat', 'init-expert-location map', None)
    """
    if not isinstance(value, Mapping):
        return None
    if RECORDS in value and LAST_MAP in value:
        records = value[RECORDS]
        first = records[0] if isinstance(records, list) and records else {}
        return PER_TOKEN if isinstance(first, Mapping) and PASS_IDS in first else PER_PASS
    if MAP in value:
        return INIT_MAP
    if COUNTS in value:
        return STAT if "rank" in value else INIT_COUNTS
    return None


def read_counts(path: str, counts: Any, form: str) -> Dump:
    """Loads of mode `stat` or `stat_approx`, or of `logical_count`: (L, E), or (steps, L, E) of buffered steps.

    Steps without a count are places of the ring buffer that no pass has filled, and are left aside with a note.
    """
    check, notes = Violations(path), list[str]()
    if isinstance(counts, Tensor):
        if len(counts.shape) == 3 and counts.whole_numbers and 0 not in counts.shape:
            return _buffered(_steps(counts), counts.shape, form, check, notes)
        array: Any = counts.read()
    else:
        array = _lists(counts, check)
    check.raise_if_any()
    found = whole_numbers(np.asarray(array), COUNTS, check, notes)
    check.raise_if_any()
    assert found is not None
    if found.ndim == 3 and 0 not in found.shape:
        return _buffered(found, found.shape, form, check, notes)
    return dump(ENGINE, form, found, check, notes=notes)


def _lists(counts: Any, check: Violations) -> Any:
    """Nested lists as an array where they are even; a table of two axes is left to the check of loads."""
    flat = isinstance(counts, list) and counts and not isinstance(counts[0], list)
    if _has_truth(counts):
        check.add(COUNTS, "true or false", rule="must be whole numbers", fix="Record counts as integers")
        return np.array(None)
    try:
        array = np.array([counts] if flat else counts)
    except (ValueError, OverflowError, RecursionError):
        array = np.array(None)
    if array.dtype.kind in "iuf" and array.ndim in (2, 3):
        return array
    if isinstance(counts, list) and counts and isinstance(counts[0], list) and not isinstance(counts[0][:1], list):
        return np.array(None)
    from moeopt.workload.table import as_loads

    as_loads(counts, check)
    if not check.found:
        check.add(COUNTS, f"shape {array.shape}", rule="must be layers x experts, or steps before", fix="Record again")
    return array


def _has_truth(value: Any, depth: int = 0) -> bool:
    """Whether true or false stands among the numbers, down to three axes."""
    if isinstance(value, list) and depth < 3:
        return any(_has_truth(item, depth + 1) for item in value)
    return isinstance(value, bool)


def _steps(counts: Tensor) -> Iterable[NDArray[np.int64]]:
    """One (L, E) table a step."""
    parts: list[NDArray[Any]] = []
    at = 0
    for step, part in counts.pieces():
        if step != at:
            yield np.concatenate(parts).astype(np.int64)
            parts, at = [], step
        parts.append(part)
    yield np.concatenate(parts).astype(np.int64)


def _buffered(
    tables: Iterable[NDArray[Any]], shape: tuple[int, ...], form: str, check: Violations, notes: list[str]
) -> Dump:
    steps = Steps((shape[1], shape[2]), shape[0])
    for index, table in enumerate(tables):
        for layer, expert in np.argwhere(table < 0) if table.min(initial=0) < 0 else ():
            rule, where = "counts must be >= 0", f"step {index}, layer {layer}, expert {expert}"
            check.add(COUNTS, table[layer, expert].item(), rule=rule, fix="Did a counter wrap?", where=where)
        if not check.found and table.any():  # to the end in any case: the storage is open
            with check.within():
                steps.add(table, Violations())
    check.raise_if_any()
    if steps.count < shape[0]:
        notes.append(f"{steps.count} of {shape[0]} buffered steps have counts; the others are left aside")
    return dump(ENGINE, form, steps.total, check, per_step=steps.kept(), steps=steps.count or None, notes=notes)


def read_init_map(path: str, value: Mapping[str, Any]) -> ExpertMap:
    """``physical_to_logical_map``: (L, S) experts in slots, GPU-major; how many GPUs there are is not said."""
    check = Violations(path)
    for key in value:
        if key != MAP:
            rule = f"SGLang takes no other key beside {MAP}"
            check.add(str(key), "present", rule=rule, fix="Leave it out")
    rows = value[MAP]
    array = rows.read() if isinstance(rows, Tensor) else rows
    return expert_map(ENGINE, array, check, field=MAP)
