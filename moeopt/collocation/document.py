"""The collocation instance as a strict JSON document; pydantic checks types, `CollocationInstance` the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.collocation.instance import SCHEMA, CollocationInstance
from moeopt.collocation.transports import TRANSPORTS, Transport
from moeopt.errors import Violations
from moeopt.forms import plain_form

if TYPE_CHECKING:
    from moeopt.cluster.graph import Cluster

_STRICT = ConfigDict(extra="forbid", strict=True)


class TransportDocument(BaseModel):
    """A transport that is not one of the named ones."""

    model_config = _STRICT
    name: str
    merge: Literal["node", "gpu", "rail", "none"]
    returns_home: bool = True
    dispatch_bytes: float = 1.0
    combine_bytes: float = 2.0


class InstanceDocument(BaseModel):
    """One collocation instance. Lengths: L layers, T tokens, E experts, G GPUs, S slots."""

    model_config = ConfigDict(extra="forbid", strict=True, title=SCHEMA)

    schema_: Literal["moeopt/collocation-instance/1"] = Field(alias="schema")
    name: str = ""
    ids: list[list[list[int]]] | None = Field(None, description="L x T rows of expert ids, -1 is padding")
    pairs: list[list[list[int]]] | None = Field(None, description="L x E x E counts, loads on the diagonal")
    experts: int
    layers: list[int] | None = None
    cluster: str | dict[str, Any] | None = Field(None, description="a reference cluster's name, or its document")
    nodes: int | list[int] | None = Field(None, description="number of equal nodes, or the node of each GPU")
    gpus: int | None = None
    slots: int | list[int] | None = Field(None, description="slots of all GPUs, or of each")
    fill: Literal["all", "at_most"] = "all"
    transport: str | TransportDocument = "deepep-normal"
    replica_rule: Literal["nearest", "home_node", "even"] = "nearest"
    source: list[int] | None = Field(None, description="T GPUs")
    objective: Literal["auto", "time", "copies", "tokens"] = "auto"
    max_imbalance: float | None = None
    groups: int | None = None
    top_groups: int | None = None
    held_out: float = 0.0
    hidden: int | None = None
    batch_tokens: float | None = None
    step_s: float | None = None
    current: list[list[int]] | None = Field(None, description="L rows of S experts")
    notes: list[str] = Field(default_factory=list)


def to_dict(instance: CollocationInstance, *, bulk: bool = True) -> dict[str, Any]:
    """See `CollocationInstance.to_dict`; without `bulk` the trace is named by its digest and shape."""
    way = instance.transport
    named = TRANSPORTS.get(way.name) == way
    found: dict[str, Any] = {"schema": SCHEMA, "name": instance.name}
    if bulk:
        key, table = ("ids", instance.ids) if instance.pairs is None else ("pairs", instance.pairs)
        found[key] = table.tolist()
    else:
        key, table = ("ids", instance.ids) if instance.pairs is None else ("pairs", instance.pairs)
        found["trace"] = {"of": key, "sha256": instance.trace_sha256, "shape": list(table.shape)}
    fields = ("name", "merge", "returns_home", "dispatch_bytes", "combine_bytes")
    found |= {
        "experts": instance.num_experts,
        "layers": list(instance.layers),
        "cluster": None if instance.cluster is None else instance.cluster.to_dict(),
        "nodes": None if instance.cluster is not None else instance.node.tolist(),
        "gpus": None if instance.cluster is not None else instance.num_gpus,
        "slots": instance.slots.tolist(),
        "fill": instance.fill,
        "transport": way.name if named else {key: getattr(way, key) for key in fields},
        "replica_rule": instance.replica_rule,
        "source": None if instance.source is None else instance.source.tolist(),
        "objective": instance.objective,
        "max_imbalance": instance.max_imbalance,
        "groups": None if instance.limited is None else instance.limited[0],
        "top_groups": None if instance.limited is None else instance.limited[1],
        "held_out": instance.held_out,
        "hidden": instance.hidden,
        "batch_tokens": instance.batch_tokens,
        "step_s": instance.step_s,
        "current": None if instance.current is None else instance.current.tolist(),
        "notes": list(instance.notes),
    }
    return found


def from_dict(document: Mapping[str, Any], source: str = "") -> CollocationInstance:
    """See `CollocationInstance.from_dict`."""
    return _built(document, source, {})


def _built(document: Mapping[str, Any], source: str, bulk: dict[str, Any]) -> CollocationInstance:
    check = Violations(source)
    given = document.get("schema") if isinstance(document, Mapping) else None
    if given != SCHEMA:
        check.add("schema", given, rule=f"must be {SCHEMA}", fix="Is it another document, or of a newer version?")
        check.raise_if_any()
    found = plain_form(InstanceDocument, document, check)
    values = found.model_dump(exclude={"schema_", "cluster", "transport"})
    way = found.transport if isinstance(found.transport, str) else Transport(**found.transport.model_dump())
    return CollocationInstance(**(values | bulk), cluster=_cluster(found.cluster, source), transport=way)


def with_trace(document: Mapping[str, Any], table: Any, source: str = "") -> CollocationInstance:
    """The instance of a document that names its trace by digest, with `table` (ids, or pairs) for the trace.

    Raises
    ------
    InstanceError
        The document is malformed, or the table does not fit it; every violation at once.
    """
    rest = {key: value for key, value in document.items() if key not in ("trace", "ids", "pairs")}
    trace = document.get("trace")
    key = "pairs" if isinstance(trace, Mapping) and trace.get("of") == "pairs" else "ids"
    return _built(rest, source, {key: table})


def _cluster(given: str | dict[str, Any] | None, source: str) -> Cluster | None:
    if given is None:
        return None
    from moeopt.cluster import Cluster, reference

    return reference(given) if isinstance(given, str) else Cluster.from_dict(given, source)
