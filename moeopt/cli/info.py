"""Info: methods, back ends, shapes, generators, LLMs, GPUs, versions, and the JSON Schemas of the documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from moeopt.cli.options import Json
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation

EXAMPLE = """Example:

moeopt info methods

moeopt info llms

moeopt info schema"""


@verb
def info(
    say: Say,
    topic: Annotated[
        str,
        typer.Argument(
            metavar="TOPIC", help="schema, methods, backends, shapes, generators, llms, gpus, clusters or versions."
        ),
    ],
    json: Json,
) -> int:
    """Say what there is to choose from; schema prints JSON Schemas."""
    if topic not in TOPICS:
        rule = f"is not a topic; known: {', '.join(TOPICS)}"
        raise InstanceError([Violation("topic", "", topic, rule, "Use one of these")])
    rows = TOPICS[topic]()
    if json.json or topic == "schema":
        say.document(rows)
        return DONE
    from moeopt.cli.tables import table

    rows = SHORT[topic](rows) if topic in SHORT else rows
    columns = list(next(iter(rows.values())))
    made = table(
        "",
        {"versions": "package", "llms": "LLM", "gpus": "GPU", "clusters": "machine"}.get(
            topic, topic.removesuffix("s")
        ),
        *(column.replace("_", " ") for column in columns),
    )
    for name, row in rows.items():
        made.add_row(name, *("-" if row[column] is None else str(row[column]) for column in columns))
    for column in made.columns[1:]:
        words = ("family", "attention", "scale up", "GPU", "fast links")
        right = topic in ("shapes", "llms", "gpus", "clusters") and column.header not in words
        column.justify = "right" if right else "left"
    say.show(made)
    return DONE


def _schema() -> dict[str, Any]:
    from moeopt.calibrate import Calibration
    from moeopt.cluster.document import ClusterDocument
    from moeopt.collocation.document import InstanceDocument as CollocationDocument
    from moeopt.collocation.result_document import ResultDocument as CollocationResult
    from moeopt.engines.own import MapDocument
    from moeopt.mesh.document import InstanceDocument as MeshDocument
    from moeopt.mesh.plan_document import ResultDocument as MeshResult
    from moeopt.microbatch.document import InstanceDocument as MicrobatchDocument
    from moeopt.placement.document import InstanceDocument
    from moeopt.placement.load_plan import ResultDocument
    from moeopt.replay.document import ReplayDocument
    from moeopt.routing.document import InstanceDocument as RoutingInstance
    from moeopt.routing.result_document import ResultDocument as RoutingResult

    return {
        "moeopt/placement-instance/1": InstanceDocument.model_json_schema(),
        "moeopt/placement-result/1": ResultDocument.model_json_schema(),
        "moeopt/expert-map/1": MapDocument.model_json_schema(),
        "moeopt/cluster/1": ClusterDocument.model_json_schema(),
        "moeopt/microbatch-instance/1": MicrobatchDocument.model_json_schema(),
        "moeopt/routing-instance/1": RoutingInstance.model_json_schema(),
        "moeopt/routing-result/1": RoutingResult.model_json_schema(),
        "moeopt/collocation-instance/1": CollocationDocument.model_json_schema(),
        "moeopt/collocation-result/1": CollocationResult.model_json_schema(),
        "moeopt/mesh-instance/1": MeshDocument.model_json_schema(),
        "moeopt/mesh-result/1": MeshResult.model_json_schema(),
        "moeopt/replay-result/1": ReplayDocument.model_json_schema(),
        "moeopt/calibration/1": Calibration.model_json_schema(),
    }


def _methods() -> dict[str, Any]:
    from moeopt.registry import PROBLEMS, problem

    return {
        name if room == "placement" else f"{room} {name}": {"claim": method.claim, "how": method.summary}
        for room in PROBLEMS
        for name, method in problem(room).methods.items()
    }


def _backends() -> dict[str, Any]:
    from moeopt.backends import BACKENDS

    return {
        name: {
            "version": backend.version(),
            "licence": backend.licence,
            "available": "yes" if backend.available() else f"no: {backend.why_not()}. {backend.install}",
        }
        for name, backend in BACKENDS.items()
    }


def _shapes() -> dict[str, Any]:
    from dataclasses import asdict

    from moeopt.workload import SHAPES

    return {name: asdict(shape) for name, shape in SHAPES.items()}


def _generators() -> dict[str, Any]:
    from moeopt.workload import GENERATORS, HISTORIES

    return {name: {"what": text} for name, text in {**GENERATORS, **HISTORIES}.items()}


def _versions() -> dict[str, Any]:
    from moeopt.versions import versions

    packages = ("numpy", "scipy", "networkx", "pulp", "highspy", "pydantic", "typer", "rich", "matplotlib", "numba")
    return {name: {"installed": version} for name, version in versions(*packages).items()}


def _llms() -> dict[str, Any]:
    from moeopt.cli.llms import facts_document
    from moeopt.llm import catalogue

    return {name: {**facts.to_dict(), **facts_document(facts, [])} for name, facts in catalogue().items()}


def _short_llms(rows: dict[str, Any]) -> dict[str, Any]:
    """Counts in 1e9; where only routed experts can be counted, those, marked."""
    return {
        name: {
            "family": row["family"],
            "layers": row["layers"],
            "MoE": len(row["moe_layers"]),
            "experts": row["experts"],
            "top_k": row["top_k"],
            "shared": row["shared_experts"],
            "MTP": row["mtp_layers"],
            "total_B": _said(row["total_params_b"]) or _said(row["routed_params_b"], " routed"),
            "active_B": _said(row["active_params_b"]),
            "expert_MB": None if row["expert_bytes"] is None else f"{row['expert_bytes'] / 1e6:.1f}",
            "format": row["expert_format"],
            "cache_B_a_token": _said(row["kv_bytes_per_token_bf16"], digits=0),
            "attention": row["attention"],
        }
        for name, row in rows.items()
    }


def _said(value: float | None, word: str = "", digits: int = 2) -> str | None:
    return None if value is None else f"{value:,.{digits}f}{word}"


def _gpus() -> dict[str, Any]:
    from dataclasses import asdict

    from moeopt.llm import gpus

    return {name: asdict(row) for name, row in gpus().items()}


def _short_gpus(rows: dict[str, Any]) -> dict[str, Any]:
    def giga(value: float | None, unit: float = 1e9) -> str | None:
        return None if value is None else f"{value / unit:,.6g}"

    return {
        name: {
            **{f"{dtype}_TFLOPS": giga(row["dense_tflops"][dtype], 1.0) for dtype in ("bf16", "fp8", "fp4", "int8")},
            "memory_GB": giga(row["memory_bytes"]),
            "memory_GB/s": giga(row["bytes_per_s"]),
            "scale_up": row["scale_up"],
            "GPUs": row["domain"],
            "GB/s_one_way": giga(row["scale_up_bytes_per_s"]),
            "network_GB/s": giga(row["nic_bytes_per_s"]),
            "watts": giga(row["power_w"], 1.0),
        }
        for name, row in rows.items()
    }


def _clusters() -> dict[str, Any]:
    from dataclasses import asdict

    from moeopt.cluster import machines

    return {name: asdict(row) for name, row in machines().items()}


def _short_clusters(rows: dict[str, Any]) -> dict[str, Any]:
    def giga(value: float | None) -> str | None:
        return None if value is None else f"{value / 1e9:,.6g}"

    return {
        name: {
            "GPU": row["gpu"],
            "GPUs_a_node": row["gpus"],
            "nodes": row["servers"],
            "fast_links": row["scale_up"],
            "GB/s_one_way": giga(row["scale_up_bytes_per_s"]),
            "PCIe_GB/s": giga(row["pcie_bytes_per_s"]),
            "ports": row["nics"],
            "GB/s_a_port": giga(row["nic_bytes_per_s"]),
        }
        for name, row in rows.items()
    }


SHORT: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "llms": _short_llms,
    "gpus": _short_gpus,
    "clusters": _short_clusters,
}
"""Topics whose table shows less than their JSON."""
TOPICS: dict[str, Callable[[], dict[str, Any]]] = {
    "schema": _schema,
    "methods": _methods,
    "backends": _backends,
    "shapes": _shapes,
    "generators": _generators,
    "llms": _llms,
    "gpus": _gpus,
    "clusters": _clusters,
    "versions": _versions,
}
