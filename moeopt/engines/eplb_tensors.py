"""EPLB, the public rule: its three results, or the weights it was given, saved as tensors or arrays.

``rebalance_experts`` of https://github.com/deepseek-ai/EPLB returns ``phy2log`` (L, S), ``log2phy`` (L, E, most copies)
padded with -1, and ``logcnt`` (L, E).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.counting import dump, expert_map
from moeopt.engines.torch_tensors import Tensor
from moeopt.errors import Violations

ENGINE, MAP, WEIGHT, BARE = "eplb", "placement", "weights", "one tensor"
NAMES = {
    "phy2log": "phy2log",
    "physical_to_logical_map": "phy2log",
    "log2phy": "log2phy",
    "logical_to_physical_map": "log2phy",
    "logcnt": "logcnt",
    "expert_count": "logcnt",
    "logical_replica_count": "logcnt",
    "weight": "weight",
}
"""Names under which the tensors are saved, and what each is."""


def parts_of(value: Any) -> dict[str, Any] | None:
    """The tensors by what they are, or ``None`` where the value is nothing of EPLB.

    >>> sorted(parts_of({"phy2log": np.ones((1, 2)), "logcnt": np.ones((1, 1))}))
    ['logcnt', 'phy2log']
    """
    if isinstance(value, Tensor | np.ndarray):
        return {"bare": value} if len(value.shape) == 2 else None
    if isinstance(value, tuple | list) and len(value) == 3 and all(isinstance(part, Tensor) for part in value):
        shapes = [len(part.shape) for part in value]
        return dict(zip(("phy2log", "log2phy", "logcnt"), value, strict=True)) if shapes == [2, 3, 2] else None
    if isinstance(value, Mapping):
        named = [(key, part) for key, part in value.items() if key in NAMES]
        if any(len(getattr(part, "shape", ())) < 2 for _, part in named):
            return None
        found = agreed(named)
        if ("phy2log" in found or "weight" in found) and all(len(getattr(p, "shape", ())) > 1 for p in found.values()):
            return found
    return None


def agreed(named: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The tensors by what they are; the same one under two names has to be the same.

    >>> agreed([("phy2log", np.array([[0]])), ("physical_to_logical_map", np.array([[0]]))])
    {'phy2log': array([[0]])}
    """
    found: dict[str, Any] = {}
    home: dict[str, str] = {}
    check = Violations()
    for name, part in named:
        what = NAMES[name]
        if what in found and not np.array_equal(_array(found[what]), _array(part)):
            rule = f"is another tensor than {home[what]}, and both are names of {what}"
            check.add(name, f"shape {tuple(part.shape)}", rule=rule, fix="Keep one of them")
        found.setdefault(what, part)
        home.setdefault(what, name)
    check.raise_if_any()
    return found


def form_of(parts: Mapping[str, Any]) -> str:
    """Which of the forms the tensors are; one without a name is a map where its content can be nothing else.

    >>> form_of({"phy2log": 0, "weight": 1}), form_of({"weight": 1})
    ('placement', 'weights')
    >>> form_of({"bare": np.array([[0, 1, 1]])}), form_of({"bare": np.array([[10, 11, 11]])})
    ('placement', 'one tensor')
    """
    if "phy2log" in parts or "weight" in parts:
        return MAP if "phy2log" in parts else WEIGHT
    array = _array(parts["bare"])
    return MAP if array.dtype.kind in "iu" and array.size and _is_map(array) else BARE


def read_weights(path: str, parts: Mapping[str, Any]) -> Dump:
    """(L, E) loads that the rule was given; a bare tensor is taken as such, unless it can only be a map."""
    check = Violations(path)
    name = "weight" if "weight" in parts else "bare"
    array = _array(parts[name])
    if name == "bare" and array.dtype.kind in "iu" and _is_map(array):
        rule = "has every id from 0 on in each row, as a map of experts in slots has"
        check.add("input", f"shape {array.shape}", rule=rule, fix="Give it as --current; loads need another file")
    check.raise_if_any()
    notes = ["a tensor without a name is taken as loads, layers x experts"] if name == "bare" else []
    return dump(ENGINE, WEIGHT, array, check, notes=notes)


def read_map(path: str, parts: Mapping[str, Any]) -> ExpertMap:
    """(L, S) experts in slots; ``log2phy`` and ``logcnt`` beside it must say the same.

    A bare tensor is taken as ``phy2log``.
    """
    check = Violations(path)
    rows = _array(parts["phy2log"] if "phy2log" in parts else parts["bare"])
    counts = _array(parts["logcnt"]) if "logcnt" in parts else None
    if counts is not None and (counts.ndim != 2 or 0 in counts.shape or counts.dtype.kind not in "iu"):
        rule = "must be whole numbers, layers x experts"
        check.add("logcnt", f"{counts.dtype} of shape {counts.shape}", rule=rule, fix="Save the results of one call")
    check.raise_if_any()
    experts = None if counts is None else counts.shape[1]
    notes = () if "phy2log" in parts else ("a tensor without a name is taken as experts in slots",)
    made = expert_map(ENGINE, rows, check, num_experts=experts, field="phy2log", notes=notes)
    if counts is not None:
        _hold_counts(made, counts, check)
    if "log2phy" in parts:
        _hold_places(made, _array(parts["log2phy"]), experts, check)
    check.raise_if_any()
    return made


def _array(value: Any) -> NDArray[Any]:
    found: NDArray[Any] = value.read() if isinstance(value, Tensor) else np.asarray(value)
    return found


def _is_map(array: NDArray[Any]) -> bool:
    most = int(array.max(initial=0))
    return bool(most < array.shape[1] and all(len(np.unique(row)) == most + 1 and row.min() == 0 for row in array))


def _hold_counts(made: ExpertMap, counts: NDArray[Any], check: Violations) -> None:
    found = np.stack([np.bincount(row, minlength=counts.shape[1]) for row in made.slot_expert])
    if counts.shape != found.shape:
        rule = f"must have {len(found)} layers, as phy2log has"
        check.add("logcnt", f"shape {counts.shape}", rule=rule, fix="Save the results of one call")
        return
    for layer, expert in np.argwhere(counts != found):
        copies = int(found[layer, expert])
        rule = f"phy2log has {copies} {'copy' if copies == 1 else 'copies'} of the expert"
        where = f"layer {layer}, expert {expert}"
        check.add("logcnt", counts[layer, expert].item(), rule=rule, fix="Save the results of one call", where=where)


def _hold_places(made: ExpertMap, places: NDArray[Any], experts: int | None, check: Violations) -> None:
    """Every slot stands exactly once, in the row of its expert."""
    layers, slots = made.slot_expert.shape
    if places.ndim != 3 or len(places) != layers or places.dtype.kind not in "iu":
        rule = f"must be whole numbers, {layers} layers x experts x most copies"
        check.add("log2phy", f"{places.dtype} of shape {places.shape}", rule=rule, fix="Save the results of one call")
        return
    if experts is not None and places.shape[1] != experts:
        rule = f"must have {experts} experts, as logcnt has"
        check.add("log2phy", f"shape {places.shape}", rule=rule, fix="Save the results of one call")
        return
    for layer, expert, copy in np.argwhere((places < -1) | (places >= slots)):
        rule = f"slots run from 0 to {slots - 1}, and -1 is none"
        where = f"layer {layer}, expert {expert}"
        check.add("log2phy", places[layer, expert, copy].item(), rule=rule, fix="Save it again", where=where)
    if check.found:
        return
    for layer, expert, copy in np.argwhere(places >= 0):
        slot = int(places[layer, expert, copy])
        if made.slot_expert[layer, slot] != expert:
            rule = f"phy2log has expert {made.slot_expert[layer, slot]} there"
            where = f"layer {layer}, expert {expert}"
            check.add("log2phy", slot, rule=rule, fix="Save the results of one call", where=where)
    if check.found:
        return
    held = np.argwhere(places >= 0)
    times = np.zeros(made.slot_expert.shape, dtype=np.int64)
    np.add.at(times, (held[:, 0], places[places >= 0]), 1)
    for layer, slot in np.argwhere(times != 1):
        seen = "absent" if not times[layer, slot] else f"{times[layer, slot]} times"
        rule = f"must have slot {slot} once, where phy2log has expert {made.slot_expert[layer, slot]}"
        where = f"layer {layer}, expert {made.slot_expert[layer, slot]}"
        check.add("log2phy", seen, rule=rule, fix="Save the results of one call", where=where)
