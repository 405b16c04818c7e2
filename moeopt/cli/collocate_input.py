"""What collocations are made for: a routing trace with its sources, counts of pairs, or an instance document."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.collocate_options import Travel
from moeopt.cli.collocation_files import INSTANCE_SAID, document_of
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.collocation import CollocationInstance

HELD_OUT = 0.5
PAIRS = ("pairs", "pair_counts", "coactivation")
"""Arrays and keys that counts of pairs go by."""


def has_pairs(path: str) -> bool:
    """Whether a file can only be counts of pairs: an `.npz` with such an array and without a trace."""
    if not path.lower().endswith(".npz"):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except Exception:  # bytes from anywhere: to read it says why
        return False
    return "topk_ids" not in names and bool(names & set(PAIRS))


def read_instance(
    path: str, travel: Travel, arguments: dict[str, Any], *, experts: int | None, current: str | None, given: list[str]
) -> CollocationInstance:
    """From a trace or pairs with `arguments` of rules, or from an instance document without any option `given`."""
    from moeopt.collocation import CollocationInstance

    own = document_of(path)
    if own is not None and own[0] == INSTANCE_SAID:
        if given:
            rule = "is an instance, which says it itself"
            raise InstanceError([Violation(given[0], "", "given", f"{path} {rule}", f"Leave out {', '.join(given)}")])
        return CollocationInstance.from_dict(own[1], path)
    check = Violations()
    arguments = dict(arguments)
    with check.within():
        arguments |= travel.arguments()
    found: dict[str, Any] = {}
    with check.within():
        pairs = travel.pairs or has_pairs(path)
        found = _pairs(path, travel, experts) if pairs else _tokens(path, travel, experts)
    check.raise_if_any()
    if current is not None:
        arguments["current"] = running(current, found["layers"])
    return CollocationInstance(**found, name=path, **arguments)


def _tokens(path: str, travel: Travel, experts: int | None) -> dict[str, Any]:
    """Arguments out of a trace."""
    from moeopt.workload.token_ids import read_token_ids
    from moeopt.workload.token_sources import read_sources, sources_within

    found = read_token_ids(path, experts=experts)
    told = sources_within(path, found) if travel.source is None else read_sources(travel.source, path, found)
    notes = list(found.notes)
    if told is not None:
        notes.append(f"sources of tokens are those of {told[1]}")
    return {
        "ids": found.ids,
        "experts": found.num_experts,
        "layers": found.layers,
        "source": None if told is None else told[0],
        "held_out": HELD_OUT if travel.held_out is None else travel.held_out,
        "notes": notes,
    }


def _pairs(path: str, travel: Travel, experts: int | None) -> dict[str, Any]:
    """Arguments out of counts of pairs."""
    check = Violations(path)
    for option, value in (("--source", travel.source), ("--held-out", travel.held_out)):
        if value is not None:
            check.add(option, value, rule="is of tokens, and pairs have none", fix="Leave it out, or give the trace")
    check.raise_if_any()
    table, layers = read_pairs(path)
    return {"pairs": table, "experts": experts, "layers": layers}


def read_pairs(path: str) -> tuple[Any, tuple[int, ...]]:
    """(L, E, E) counts of pairs in a file, and their layer ids."""
    from moeopt.workload.arrays import read_array
    from moeopt.workload.readers import split_key

    table = read_array(path, "pairs", PAIRS)
    if table.ndim == 2:
        table = table[None]
    layers: Sequence[int] = range(len(table)) if table.ndim == 3 else ()
    file, _ = split_key(path)
    if file.lower().endswith(".npz"):
        with zipfile.ZipFile(file) as archive:
            if "layers.npy" in archive.namelist():
                layers = read_array(f"{file}:layers", "layers", ("layers",)).reshape(-1).tolist()
    return table, tuple(layers)


def running(path: str, layers: Sequence[int]) -> Any:
    """Experts in slots of a running plan, layer by layer: a plan of collocate too."""
    from moeopt.cli.running import read_current
    from moeopt.engines.base import ExpertMap
    from moeopt.engines.matching import match_rows
    from moeopt.engines.source import own_document

    own = own_document(path)
    if isinstance(own, ExpertMap):
        rows, _ = match_rows(own, layers, field="--current")
        return own.slot_expert[rows]
    return read_current(path, layers).fields["current"]
