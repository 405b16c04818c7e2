"""Info: methods, back ends, shapes, generators, versions, and the JSON Schemas of the documents."""

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

moeopt info schema"""


@verb
def info(
    say: Say,
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="schema, methods, backends, shapes, generators or versions.")
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

    columns = list(next(iter(rows.values())))
    made = table(
        "",
        "package" if topic == "versions" else topic.removesuffix("s"),
        *(column.replace("_", " ") for column in columns),
    )
    for name, row in rows.items():
        made.add_row(name, *("-" if row[column] is None else str(row[column]) for column in columns))
    for column in made.columns[1:]:
        column.justify = "right" if topic == "shapes" else "left"
    say.show(made)
    return DONE


def _schema() -> dict[str, Any]:
    from moeopt.placement.document import InstanceDocument
    from moeopt.placement.load_plan import ResultDocument

    return {
        "moeopt/placement-instance/1": InstanceDocument.model_json_schema(),
        "moeopt/placement-result/1": ResultDocument.model_json_schema(),
    }


def _methods() -> dict[str, Any]:
    from moeopt.placement import METHODS

    return {name: {"claim": method.claim, "how": method.summary} for name, method in METHODS.items()}


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
    from moeopt.workload import GENERATORS

    return {name: {"what": text} for name, text in GENERATORS.items()}


def _versions() -> dict[str, Any]:
    from moeopt.versions import versions

    packages = ("numpy", "scipy", "networkx", "pulp", "highspy", "pydantic", "typer", "rich", "matplotlib", "numba")
    return {name: {"installed": version} for name, version in versions(*packages).items()}


TOPICS: dict[str, Callable[[], dict[str, Any]]] = {
    "schema": _schema,
    "methods": _methods,
    "backends": _backends,
    "shapes": _shapes,
    "generators": _generators,
    "versions": _versions,
}
