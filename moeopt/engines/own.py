"""moeopt's own map: a table of experts in slots with its layer ids and GPUs, as strict JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from moeopt.documents import to_json
from moeopt.engines.base import ENGINES, ExpertMap
from moeopt.engines.bounds import EXPERTS_MAX, LAYERS_MAX, RANKS_MAX, SLOTS_MAX, check_layers, within
from moeopt.engines.job import Piece
from moeopt.errors import Violations
from moeopt.forms import plain_form

if TYPE_CHECKING:
    from moeopt.placement.plan_document import ResultDocument

SCHEMA = "moeopt/expert-map/1"


class MapDocument(BaseModel):
    """A map of an engine in moeopt's form. Lengths: L layers, S slots, G GPUs."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)
    schema_: str = Field(alias="schema")
    engine: str = Field(description="the engine whose map it was")
    layers: list[int] = Field(min_length=1, description="L layer ids")
    slots: list[int] | None = Field(description="slots of each GPU; null: not known")
    num_experts: int | None = Field(description="E; null: not known")
    slot_expert: list[list[int]] = Field(min_length=1, description="L rows of S experts, GPU-major, -1 empty")


def write_own(plan: ResultDocument | ExpertMap, path: str, *, gpus: int | None = None) -> Piece:
    """A plan as it is; a map as a table with its layer ids, which ``--current`` reads."""
    if not isinstance(plan, ExpertMap):
        text = to_json(plan.model_dump(mode="json", by_alias=True, exclude_unset=True))
        return Piece((text + "\n").encode())
    from moeopt.engines.prepare import job_of

    job, _ = job_of(plan, "moeopt", path, None, gpus)
    found = replace(plan, slots=job.slots)
    document = {
        "schema": SCHEMA,
        "engine": found.engine,
        "layers": list(found.layers),
        "slots": None if found.slots is None else list(found.slots),
        "num_experts": found.num_experts,
        "slot_expert": found.slot_expert.tolist(),
    }
    option = f"# the running plan: moeopt place LOADS ... --current {path}"
    return Piece((to_json(document) + "\n").encode(), (option,), tuple(found.notes))


def read_own(document: Any, source: str = "") -> ExpertMap:
    """A map from a parsed document of this schema.

    Raises
    ------
    InstanceError
        A missing or unknown field, a wrong type, rows or slots that do not fit together; all of them at once.

    >>> read_own({"schema": SCHEMA, "engine": "sglang", "layers": [3], "slots": [1, 1], "num_experts": 2,
    ...     "slot_expert": [[1, 0]]}).slot_expert.tolist()
    [[1, 0]]
    """
    check = Violations(source)
    said = document.get("schema") if isinstance(document, dict) else None
    if isinstance(said, str) and said != SCHEMA:
        rule = f"is not a form that this version of moeopt reads, which is {SCHEMA}"
        check.add("schema", said, rule=rule, fix="Write the map again, or install the newest moeopt")
        check.raise_if_any()
    found = plain_form(MapDocument, document, check)
    width = len(found.slot_expert[0])
    _check_sizes(found, width, check)
    most = EXPERTS_MAX if found.num_experts is None else found.num_experts
    if len(found.layers) != len(found.slot_expert) or len(set(found.layers)) < len(found.layers):
        rule = f"must be different ids, one for each of the {len(found.slot_expert)} rows"
        check.add("layers", found.layers, rule=rule, fix="Repair the file")
    for layer, row in zip(found.layers, found.slot_expert, strict=False):
        if len(row) != width:
            rule = f"every layer must have as many slots as the first, {width}"
            check.add("slot_expert", f"{len(row)} slots", rule=rule, fix="Repair the file", where=f"layer {layer}")
            continue
        for slot, expert in enumerate(row):
            where = f"layer {layer}, slot {slot}"
            within(expert, "slot_expert", most - 1, check, least=-1, where=where)
    if found.slots is not None and (sum(found.slots) != width or min(found.slots, default=-1) < 0):
        check.add("slots", found.slots, rule=f"must sum to the {width} slots of a row", fix="Repair the file")
    check.raise_if_any()
    return ExpertMap(
        found.engine,
        np.array(found.slot_expert, dtype=np.int32),
        tuple(found.layers),
        None if found.slots is None else tuple(found.slots),
        found.num_experts,
    )


def _check_sizes(found: MapDocument, width: int, check: Violations) -> None:
    """Names and sizes, before anything is made of them."""
    if found.engine not in ENGINES:
        check.add("engine", ascii(found.engine), rule=f"known are {', '.join(ENGINES)}", fix="Repair the file")
    check_layers(found.layers, check)
    within(len(found.slot_expert), "layers", LAYERS_MAX, check, least=1)
    within(width, "slots", SLOTS_MAX, check, least=1)
    if found.num_experts is not None:
        within(found.num_experts, "num_experts", EXPERTS_MAX, check, least=1)
    if found.slots is not None:
        within(len(found.slots), "gpus", RANKS_MAX, check, least=1)
