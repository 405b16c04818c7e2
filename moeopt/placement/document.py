"""The placement instance as a strict JSON document; pydantic checks types, `PlacementInstance` the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violations
from moeopt.forms import did_you_mean
from moeopt.placement.instance import SCHEMA, PlacementInstance


class InstanceDocument(BaseModel):
    """One placement instance. Lengths: L layers, E experts, G GPUs."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)

    schema_: Literal["moeopt/placement-instance/1"] = Field(alias="schema")
    name: str = ""
    loads: list[list[int | float]] | list[list[list[int | float]]] | str = Field(
        description="L rows of E tokens, or W windows of them; or the name of a loads file beside the document, "
        "FILE or FILE.npz:KEY"
    )
    layers: list[int] | None = Field(None, description="L layer ids")
    steps: int | list[int] = Field(1, description="forward passes the loads were summed over, of each window")
    combine: Literal["worst", "mean", "cvar"] = Field("worst", description="how windows become one figure")
    alpha: float = Field(0.9, description="cvar: the mean of the worst 1 - alpha of the windows")
    floor_tokens: float = Field(0.0, description="tokens per pass below which an expert gets no faster")
    floor_rule: Literal["per_expert", "per_replica"] = "per_expert"
    split: Literal["even", "free", "sglang-static", "sglang-static-node", "random"] = "even"
    fill: Literal["all", "at_most"] = "all"
    distinct: bool = True
    gpus: int | None = Field(None, description="G; may be left out where a field has one entry a GPU")
    slots: int | list[int] | None = Field(None, description="slots of all GPUs, or of each")
    uneven_slots: bool = False
    speed: list[float] | None = Field(None, description="G relative speeds")
    nodes: int | list[int] = Field(1, description="number of equal nodes, or the node of each GPU")
    groups: int | list[int] | None = Field(None, description="number of equal groups, or the group of each expert")
    group_rule: Literal["auto", "hierarchical"] = "auto"
    pin: list[tuple[int, int]] = Field(default_factory=list, description="[expert, gpu] that must be")
    forbid: list[tuple[int | None, int]] = Field(
        default_factory=list, description="[expert or null, gpu] that must not"
    )
    expert_bytes: float | None = None
    memory_bytes: float | list[float] | None = None
    names: list[str] | None = Field(None, description="E unique expert names")
    current: list[list[int]] | None = Field(None, description="L rows of S0 experts: the running plan, -1 is empty")
    current_gpu: list[int] | None = Field(None, description="S0 GPU ids of the slots of the running plan")
    max_moves: int | None = Field(None, description="most (expert, GPU) pairs that may be new, in all")
    max_moves_per_layer: int | None = None
    move_cost: float = Field(0.0, description="tokens that a moved replica is worth")
    lost: list[int] = Field(default_factory=list, description="GPUs that died with all they held")
    retire: list[int] = Field(default_factory=list, description="GPUs to be emptied")
    min_replicas: int | list[int] = Field(1, description="least replicas of every expert, or of each")
    survive_nodes: int = Field(0, description="every expert lies on at least one node more than this")
    c_slot: float | None = Field(None, description="seconds per slot touched in a pass")
    c_tok: float | None = Field(None, description="seconds per token")
    token_bytes: float | None = None
    recv_bytes_per_s: float | list[float] | None = Field(None, description="what a GPU receives, one rate or G")
    shared: Literal["replicated", "fused", "hosted"] | None = Field(None, description="where shared experts lie")
    num_shared: int = 1
    top_k: int | None = Field(None, description="experts a token selects")
    batch_tokens: int | None = Field(None, description="tokens a GPU has in one step")
    llm: dict[str, Any] | None = None
    phase: str | None = None
    engine: str | None = None


def read_instance(document: Any, source: str = "", folder: Path | None = None) -> PlacementInstance:
    """Build an instance from a parsed document; every violation at once, unknown fields and versions by name.

    Parameters
    ----------
    folder
        Where a loads file named in the document lies; the current folder by default.
    """
    check = Violations(source)
    if not isinstance(document, dict):
        check.add(
            "document", type(document).__name__, rule="must be a JSON object", fix=f'Begin with "schema": "{SCHEMA}"'
        )
        check.raise_if_any()
    if document.get("schema") != SCHEMA:
        fix = f"This version reads {SCHEMA}"
        check.add("schema", document.get("schema"), rule="is not a placement instance this version knows", fix=fix)
        check.raise_if_any()
    lists = {key: value for key, value in document.items() if key not in ("loads",)}
    try:
        parsed = InstanceDocument.model_validate({**_tuples(lists), "loads": document.get("loads", "")}, strict=True)
    except ValidationError as error:
        for fault, place in _deepest(error.errors()):
            rule, fix = fault["msg"][0].lower() + fault["msg"][1:], ""
            if fault["type"] == "extra_forbidden":
                rule, fix = "is not a field of this document", did_you_mean(InstanceDocument, place[0])
            value = "..." if isinstance(fault["input"], dict | list) else repr(fault["input"])
            check.add(place[0], value, rule=rule, fix=fix, where=", ".join(place[1:]))
        check.raise_if_any()
    fields = parsed.model_dump(by_alias=True)
    del fields["schema"]
    loads = fields.pop("loads")
    if isinstance(loads, str):
        from moeopt.workload import read_loads

        if not loads:
            check.add("loads", "missing", rule="is needed", fix="Give rows of tokens or the name of a loads file")
            check.raise_if_any()
        table = read_loads(str((folder or Path()) / loads))
        loads = table.loads if table.windows is None else table.windows
        if fields["layers"] is None:
            fields["layers"] = table.layers
    elif "loads" in document:
        loads = document["loads"]  # as parsed: whole numbers stay whole
    try:
        return PlacementInstance(loads, **fields)
    except InstanceError as error:
        raise InstanceError(error.violations, source) from error


def load_instance(path: str | Path) -> PlacementInstance:
    """Read an instance document from a file (``-``: standard input)."""
    document = read_json(read_bytes(path), str(path), allow_nan=True)
    folder = Path() if str(path) == "-" else Path(path).parent
    return read_instance(document, str(path), folder)


def _deepest(faults: list[Any]) -> list[tuple[Any, list[str]]]:
    """Faults with their places. Where a field may have several types, only the type that fits furthest speaks."""
    found: dict[tuple[str, ...], Any] = {}
    for fault in faults:
        first, *rest = fault["loc"]
        found.setdefault((str(first), *(str(part) for part in rest if isinstance(part, int))), fault)
    deepest = {place[0]: max(len(other) for other in found if other[0] == place[0]) for place in found}
    return [(fault, list(place)) for place, fault in found.items() if len(place) == deepest[place[0]]]


def _tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """JSON has no tuples; strict pydantic wants them for pairs."""
    return {
        key: [tuple(item) if isinstance(item, list) else item for item in value]
        if key in ("pin", "forbid") and isinstance(value, list)
        else value
        for key, value in fields.items()
    }
