"""What the result documents of all rooms have in common: their form, and what a status cannot claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from moeopt.errors import Violations
from moeopt.result import Contradiction, Result, Status, Stop

Pair = Annotated[list[float], Field(min_length=2, max_length=2)]


class InstanceReference(BaseModel):
    """Which instance was solved; the document has a model of its own."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    sha256: str = Field(description="digest of the canonical instance document, without the name")
    document: dict[str, Any]


class ResultFrame(BaseModel):
    """A result, which is the plan as well; a room adds schema, problem, instance, unit, certificate and solution."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    method: str
    status: Literal["OPTIMAL", "FEASIBLE", "INFEASIBLE", "UNKNOWN"]
    stop: Literal["FINISHED", "GAP", "TIME", "NODES", "ITERATIONS", "INTERRUPTED"]
    objective: float | None
    lower_bound: float | None
    gap: float | None = Field(description="(objective - lower_bound) / objective")
    gap_worst_layer: float | None
    bound_kind: Literal["certified", "solver"] | None
    notes: list[str]
    seed: int
    iterations: int
    incumbents: list[Pair] = Field(description="[seconds, objective] of every improvement")
    runtime_s: float
    versions: dict[str, str]


class CountedFrame(ResultFrame):
    """The same for rooms that do not ask `frame_faults`: their form alone refuses what is below 0."""

    seed: int = Field(ge=0)
    iterations: int = Field(ge=0)
    runtime_s: float = Field(ge=0)


def document_within(document: Any, schema: str, source: str) -> Any:
    """The document of the instance that a written plan has within.

    Raises
    ------
    InstanceError
        It calls itself otherwise than `schema`, or has no instance.

    >>> document_within({"schema": "plan/1", "instance": {"document": {"gpus": 2}}}, "plan/1", "plan.json")
    {'gpus': 2}
    """
    check = Violations(source)
    if document.get("schema") != schema:
        rule = "is not a plan this version knows"
        check.add("schema", document.get("schema"), rule=rule, fix=f"This version reads {schema}")
    told = document.get("instance")
    if not isinstance(told, dict) or "document" not in told:
        seen = "missing" if told is None else "..."
        check.add("instance", seen, rule="must have the document of the instance", fix="Give the file that -o wrote")
    check.raise_if_any()
    return told["document"]


def check_schema(document: Any, schema: str, what: str, source: str) -> None:
    """Refuse what is no object, or calls itself otherwise than `schema`.

    Raises
    ------
    InstanceError
        With `what` in words, as "a placement plan".

    >>> check_schema({"schema": "moeopt/routing-result/9"}, "moeopt/routing-result/1", "a routing", "r.json")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: r.json: schema = moeopt/routing-result/9: is not a routing this version knows. This version reads moeopt/routing-result/1.
    """  # noqa: E501
    check = Violations(source)
    if not isinstance(document, dict):
        given = type(document).__name__
        check.add("document", given, rule="must be a JSON object", fix=f'Begin with "schema": "{schema}"')
    elif document.get("schema") != schema:
        rule = f"is not {what} this version knows"
        check.add("schema", document.get("schema"), rule=rule, fix=f"This version reads {schema}")
    check.raise_if_any()


def frame_faults(document: Any) -> Iterator[str]:
    """What a `Result` itself would refuse: a status that its gap does not bear, and the like."""
    try:
        Result(
            problem=document.problem,
            instance={},
            method=document.method,
            status=Status(document.status),
            stop=Stop(document.stop),
            objective=document.objective,
            lower_bound=document.lower_bound,
            bound_kind=document.bound_kind,
            solution={},
            gap_worst_layer=document.gap_worst_layer,
            unit=document.unit,
            runtime_s=document.runtime_s,
            iterations=document.iterations,
            conflicts=tuple(document.conflicts),
        )
    except Contradiction as error:
        yield str(error)
