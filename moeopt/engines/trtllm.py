"""TensorRT-LLM: the folder of expert statistics, and the YAML file of ``moe_config.load_balancer``.

Layouts: ``tensorrt_llm/_torch/expert_statistic.py``, ``examples/wide_ep/ep_load_balancer`` and
``MoeLoadBalancerConfig`` in ``tensorrt_llm/llmapi/llm_args.py``. Layer ids are those of the LLM, dense ones left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.documents import read_bytes, read_json
from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.bounds import (
    EXPERTS_MAX,
    LAYERS_MAX,
    NUMBERS_MAX,
    RANKS_MAX,
    SLOTS_MAX,
    STEPS_MAX,
    gaps,
    numbered,
    within,
)
from moeopt.engines.counting import Steps, be, dump, expert_map, uneven
from moeopt.engines.safetensors import open_safetensors
from moeopt.engines.yaml_subset import read_yaml
from moeopt.errors import Violations
from moeopt.workload.sums import add_counts

ENGINE, STATISTICS, RAW, CONFIG = "trtllm", "expert statistics", "raw expert ids", "load balancer configuration"
META = "meta_info.json"
NUM_SLOTS, ASSIGNMENTS, UPDATES = "num_slots", "initial_global_assignments", "layer_updates_per_iter"
_RANK = re.compile(r"rank([0-9]+)(_raw)?\.safetensors")
_KEY = re.compile(r"([0-9]+)_([0-9]+)")


def is_statistics(path: str) -> bool:
    """Whether a folder, or a file in it, is a recording of statistics."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    mine = Path(path).is_dir() or Path(path).name == META or _RANK.fullmatch(Path(path).name) is not None
    return mine and (folder / META).is_file()


def read_statistics(paths: Sequence[str]) -> Dump:
    """Counts of all iterations and ranks of a folder: ``rank<r>.safetensors``, or ``rank<r>_raw.safetensors`` alone.

    Tensors are named ``<iteration>_<layer>``: counts (E), or raw ids (tokens, k), which are counted.

    Raises
    ------
    InstanceError
        ``meta_info.json`` or ranks are missing, a rank lacks what others have, or a tensor is not what its name says.
    """
    folder = Path(paths[0]) if Path(paths[0]).is_dir() else Path(paths[0]).parent
    check, notes = Violations(str(folder)), list[str]()
    experts, top_k, said_ranks = _meta(folder, check)
    files = {match[0]: (numbered(match[1]), bool(match[2])) for match in map(_match, sorted(folder.iterdir())) if match}
    raw = bool(files) and all(is_raw for _, is_raw in files.values())
    ranks: dict[int, str] = {}
    for name, (rank, is_raw) in files.items():
        if is_raw != raw or not within(rank, "rank", RANKS_MAX - 1, check, where=name):
            continue
        if rank in ranks:
            check.add("rank", rank, rule=f"has two files, also {ranks[rank]}", fix="Keep one of them", where=name)
        ranks[rank] = name
    check.raise_if_any()
    if not ranks:
        check.add(
            "input", str(folder), rule="has no rank<r>.safetensors", fix="Give the folder of EXPERT_STATISTIC_PATH"
        )
    missing = gaps(ranks, said_ranks or 0)
    if missing and ranks:
        one = missing.isdigit()
        rule = f"{'is' if one else 'are'} missing: the folder has {uneven(list(ranks), 'ranks')}"
        check.add(
            "input",
            f"{'rank' if one else 'ranks'} {missing}",
            rule=rule,
            fix="Copy the files of all ranks into the folder",
        )
    check.raise_if_any()
    found: dict[tuple[int, int], NDArray[np.int64]] = {}
    seen: dict[int, set[tuple[int, int]]] = {}
    for rank, name in sorted(ranks.items()):
        part = open_safetensors(str(folder / name))
        seen[rank] = set()
        for key, tensor in part.read():
            match = _KEY.fullmatch(key)
            if match is None:
                rule = "tensors are named <iteration>_<layer>"
                check.add(name, key, rule=rule, fix="Is it a file of weights?")
                continue
            place = numbered(match[1]), numbered(match[2])
            if not within(place[0], "iteration", NUMBERS_MAX - 1, check, where=f"{name}, {key[:40]}") or not within(
                place[1], "layer", LAYERS_MAX - 1, check, where=f"{name}, {key[:40]}"
            ):
                continue
            if place in seen[rank]:
                check.add(name, key, rule="the iteration and layer stand twice", fix="Keep one of them")
                continue
            counts = _counts(tensor, raw, experts, f"{name}, {key}", check)
            if counts is not None:
                if place in found:
                    with check.within():
                        add_counts(found[place], counts, Violations(), where=f"{name}, {key}", axes=("expert",))
                else:
                    found[place] = counts
                seen[rank].add(place)
    check.raise_if_any()
    steps, layers = sorted({step for step, _ in found}), sorted({layer for _, layer in found})
    wanted = {(step, layer) for step in steps for layer in layers}
    for rank, places in seen.items():
        for step, layer in sorted(wanted - places):
            rule = "has no tensor of an iteration and layer that others have"
            fix = "Record again: the file was written before the last iteration was over"
            check.add(f"rank {rank}", f"{step}_{layer}", rule=rule, fix=fix)
    if not found:
        check.add(
            "input", str(folder), rule="has no tensors", fix="Set EXPERT_STATISTIC_ITER_RANGE to iterations that ran"
        )
    within(len(steps), "iterations", STEPS_MAX, check)
    check.raise_if_any()
    kept = Steps((len(layers), experts), len(steps))
    for step in steps:
        kept.add(np.stack([found[step, layer] for layer in layers]), check)
    notes.append(f"{uneven(list(ranks), 'ranks')} {be(list(ranks))} summed over iterations {steps[0]} to {steps[-1]}")
    form = RAW if raw else STATISTICS
    return dump(
        ENGINE,
        form,
        kept.total,
        check,
        layers=layers,
        per_step=kept.kept(),
        top_k=top_k,
        steps=kept.count,
        notes=notes,
    )


def _match(path: Path) -> re.Match[str] | None:
    return _RANK.fullmatch(path.name)


def _meta(folder: Path, check: Violations) -> tuple[int, int | None, int | None]:
    meta: Any = {}
    with check.within():
        meta = read_json(read_bytes(folder / META), str(folder / META))
    check.raise_if_any()
    numbers = {}
    for key in ("num_experts", "num_experts_per_token", "ep_size"):
        value = meta.get(key) if isinstance(meta, dict) else None
        if value is None and key != "num_experts":
            continue
        if type(value) is not int or value < 1:
            check.refuse(f"{META}: {key}", value, rule="must be a whole number >= 1", fix="Record again")
        elif within(value, f"{META}: {key}", RANKS_MAX if key == "ep_size" else EXPERTS_MAX, check, least=1):
            numbers[key] = value
    check.raise_if_any()
    return numbers["num_experts"], numbers.get("num_experts_per_token"), numbers.get("ep_size")


def _counts(tensor: NDArray[Any], raw: bool, experts: int, where: str, check: Violations) -> NDArray[np.int64] | None:
    if tensor.dtype.kind not in "iu":
        check.add("tensor", str(tensor.dtype), rule="must be whole numbers", fix="Record again", where=where)
        return None
    if tensor.dtype.kind == "u" and int(tensor.max(initial=0)) >= 2**63:
        rule = "must be below 2**63"
        check.add("tensor", int(tensor.max()), rule=rule, fix="Did a counter wrap?", where=where)
        return None
    tensor = tensor.astype(np.int64)
    if not raw:
        if tensor.shape != (experts,):
            rule = f"must be one count for each of {experts} experts"
            check.add("tensor", f"shape {tensor.shape}", rule=rule, fix="Is meta_info.json of this run?", where=where)
            return None
        if tensor.min(initial=0) < 0:
            check.add("tensor", int(tensor.min()), rule="counts must be >= 0", fix="Did a counter wrap?", where=where)
            return None
        return tensor
    ids = tensor[tensor >= 0]
    if ids.size and int(ids.max()) >= experts:
        rule = f"ids of experts run from 0 to {experts - 1}"
        check.add("tensor", int(ids.max()), rule=rule, fix="Is meta_info.json of this run?", where=where)
        return None
    return np.bincount(ids.reshape(-1), minlength=experts).astype(np.int64)


def is_config(text: str) -> bool:
    """Whether the first part of a text is a balancer's configuration."""
    return re.search(rf"(?m)^\s*[\"']?({ASSIGNMENTS}|{NUM_SLOTS}|{UPDATES})[\"']?\s*:", text) is not None


def read_config(path: str) -> ExpertMap:
    """The map of a balancer's YAML file, alone or under ``moe_config`` and ``load_balancer`` of a larger one.

    Raises
    ------
    InstanceError
        No assignments (the engine then balances by itself), keys the engine does not take, or rows that are not
        ``num_slots`` ids long.
    """
    check, notes = Violations(path), list[str]()
    document = read_yaml(read_bytes(path), path)
    known = (NUM_SLOTS, ASSIGNMENTS, UPDATES)
    for key in ("moe_config", "load_balancer"):
        inner = document.get(key) if isinstance(document, dict) else None
        if isinstance(inner, dict):
            for twice in set(known) & set(document):
                rule = f"stands beside {key}, where the engine does not look"
                check.add(twice, "present", rule=rule, fix="Put it under load_balancer")
            document = inner
            notes.append(f"read under {key}")
    for key in document:
        if key not in known:
            check.add(
                str(key), document[key], rule="is a key that TensorRT-LLM refuses", fix=f"It has {', '.join(known)}"
            )
    slots, rows = document.get(NUM_SLOTS), document.get(ASSIGNMENTS)
    within(slots, NUM_SLOTS, SLOTS_MAX, check, least=1, fix="Give the slots of all GPUs")
    if document.get(UPDATES) is not None:
        within(document[UPDATES], UPDATES, RANKS_MAX, check, fix="0 keeps the map")
    if not isinstance(rows, dict) or not rows:
        rule = "must give the experts of each layer" + (
            "; without them the engine deals them itself" if not rows else ""
        )
        check.add(ASSIGNMENTS, rows, rule=rule, fix="moeopt convert PLAN --to trtllm writes them")
    check.raise_if_any()
    assert isinstance(rows, dict)
    layers: dict[int, Any] = {}
    for key, row in rows.items():
        layer = numbered(key) if isinstance(key, str) and key.isascii() and key.isdigit() else key
        if type(layer) is not int or layer < 0 or layer in layers:
            check.add(ASSIGNMENTS, repr(key), rule="layers are different whole numbers", fix="Use the LLM's own ids")
            continue
        if isinstance(key, str) and "layer ids in quotes are taken as numbers" not in notes:
            notes.append("layer ids in quotes are taken as numbers")
        layers[layer] = row
        if isinstance(row, list) and len(row) != slots:
            rule = f"must have {NUM_SLOTS} = {slots} ids"
            check.add(ASSIGNMENTS, f"{len(row)} ids", rule=rule, fix="Repair the row", where=f"layer {layer}")
    check.raise_if_any()
    ids = sorted(layers)
    return expert_map(ENGINE, [layers[i] for i in ids], check, layers=ids, field=ASSIGNMENTS, notes=notes)
