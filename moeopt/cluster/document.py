"""The document of a cluster, schema ``moeopt/cluster/1``: nodes, and a row of each link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moeopt.cluster.graph import Cluster
from moeopt.errors import Violations

SCHEMA = "moeopt/cluster/1"

LINK_FIELDS = ("src", "dst", "kind", "bytes_per_s", "alpha_s", "port", "healthy")

LinkRow = tuple[str, str, str, float, float, str | None, bool]


class NodeDocument(BaseModel):
    """A GPU, switch, socket or port."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str
    kind: str
    index: int | None = None
    node: int | None = None
    domain: int | None = None
    label: str | None = None
    bytes_per_s: float | None = None


class ClusterDocument(BaseModel):
    """What `Cluster.to_dict` gives."""

    model_config = ConfigDict(extra="forbid", strict=True)

    schema_: Annotated[Literal["moeopt/cluster/1"], Field(alias="schema")]
    name: str
    notes: list[str] = []
    nodes: list[NodeDocument]
    link_fields: list[str]
    links: list[LinkRow]


def to_dict(cluster: Cluster) -> dict[str, Any]:
    """See `Cluster.to_dict`.

    >>> document = to_dict(Cluster.from_links(2, [(0, 1, 50e9)], both_ways=False))
    >>> document["links"]
    [['gpu0', 'gpu1', 'link', 50000000000.0, 2e-06, None, True]]
    >>> Cluster.from_dict(document).to_dict() == document
    True
    """
    graph = cluster.graph
    rows = [
        [src, dst, data["kind"], float(data["bytes_per_s"]), float(data["alpha_s"]), data["port"], data["healthy"]]
        for src, dst, data in graph.edges(data=True)
    ]
    nodes = []
    for name, data in graph.nodes(data=True):
        row = {"id": name, "kind": data["kind"]}
        nodes.append(
            row | {key: data[key] for key in ("index", "node", "domain", "label", "bytes_per_s") if key in data}
        )
    return {
        "schema": SCHEMA,
        "name": cluster.name,
        "notes": list(cluster.notes),
        "nodes": nodes,
        "link_fields": list(LINK_FIELDS),
        "links": sorted(rows, key=lambda row: (row[0], row[1])),
    }


def from_dict(document: Mapping[str, Any], source: str = "") -> Cluster:
    """See `Cluster.from_dict`."""
    check = Violations(source)
    given = document.get("schema") if isinstance(document, Mapping) else None
    if given != SCHEMA:
        check.add("schema", given, rule=f"must be {SCHEMA}", fix="Is it another document, or of a newer version?")
        check.raise_if_any()
    if list(document.get("link_fields", LINK_FIELDS)) != list(LINK_FIELDS):
        rule = f"must be {', '.join(LINK_FIELDS)}"
        check.add("link_fields", document["link_fields"], rule=rule, fix="Write rows in that order")
    links = document.get("links")
    rows = [tuple(row) if isinstance(row, list) else row for row in links] if isinstance(links, list) else links
    try:
        found = ClusterDocument.model_validate({**document, "links": rows, "link_fields": list(LINK_FIELDS)})
    except ValidationError as error:
        for one in error.errors():
            where = ".".join(map(str, one["loc"]))
            check.add(where or "cluster", one.get("input"), rule=one["msg"], fix="See moeopt info schema")
        check.raise_if_any()
        raise
    graph = nx.DiGraph()
    for node in found.nodes:
        if node.id in graph:
            check.add("nodes", node.id, rule="stands twice", fix="Keep one of them")
        graph.add_node(node.id, **node.model_dump(exclude={"id"}, exclude_none=True))
    for src, dst, kind, bytes_per_s, alpha_s, port, healthy in found.links:
        for end in (src, dst):
            if end not in graph:
                check.add("links", end, rule="is no node of the document", fix="Add it to nodes")
        if graph.has_edge(src, dst):
            check.add("links", f"{src} to {dst}", rule="stands twice", fix="Sum parallel cables")
        data = {"kind": kind, "bytes_per_s": bytes_per_s, "alpha_s": alpha_s, "port": port, "healthy": healthy}
        graph.add_edge(src, dst, **data)
    check.raise_if_any()
    with check.within():
        return Cluster(found.name, graph, tuple(found.notes))
    check.raise_if_any()
    raise AssertionError
