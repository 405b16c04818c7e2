"""What `moeopt route` is given: a plan, an engine's map or a routing instance, and loads, as a routing instance."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.inputs import name_of
from moeopt.cli.not_plans import is_loads, no_plan
from moeopt.cli.piped import file_of
from moeopt.cli.say import Say, count, ranges
from moeopt.documents import read_bytes, read_json
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.routing import RoutingInstance

GPUS = "GPUs and tokens"
INSTANCE, PLACEMENT, RESULT = "moeopt/routing-instance/", "moeopt/placement-result/", "moeopt/routing-result/"
COLLOCATED = "moeopt/collocation-result/"


@dataclass(frozen=True)
class Hosts:
    """What a plan or map does not say, or what is to be other than it says."""

    gpus: Annotated[
        int | None, typer.Option("--gpus", help="G, where an engine's map does not say it.", rich_help_panel=GPUS)
    ] = None
    nodes: Annotated[
        str | None, typer.Option("--nodes", help="N equal nodes; or the node of each GPU.", rich_help_panel=GPUS)
    ] = None
    speed: Annotated[
        str | None, typer.Option("--speed", help="G relative speeds, as 1,1,0.5.", rich_help_panel=GPUS)
    ] = None
    base: Annotated[
        str | None,
        typer.Option("--base", help="Tokens each GPU has anyway, one number or G.", rich_help_panel=GPUS),
    ] = None
    floor_tokens: Annotated[
        float | None,
        typer.Option("--floor-tokens", help="Tokens a pass that each replica costs at least.", rich_help_panel=GPUS),
    ] = None
    steps: Annotated[int | None, typer.Option("--steps", help="Forward passes in the loads.", rich_help_panel=GPUS)] = (
        None
    )
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            metavar="NAME",
            help="Leave out of the loads what a finding is about: dummy-rows.",
            rich_help_panel=GPUS,
        ),
    ] = None
    integer: Annotated[bool, typer.Option("--integer", help="Tokens cannot be cut.", rich_help_panel=GPUS)] = False

    def given(self) -> list[str]:
        """The options that were given."""
        return [f"--{one.name.replace('_', '-')}" for one in fields(self) if getattr(self, one.name) != one.default]

    def changes(self, check: Violations) -> dict[str, Any]:
        """Arguments of `RoutingInstance`."""
        found: dict[str, Any] = {}
        if self.nodes is not None:
            found["nodes"] = units.count("--nodes", self.nodes, check)
        for name in ("speed", "base"):
            text = getattr(self, name)
            if text is not None:
                found[name] = units.numbers(f"--{name}", text, check)
        if self.floor_tokens is not None:
            found |= {"floor_tokens": self.floor_tokens, "floor_rule": "per_replica"}
        if self.steps is not None:
            found["steps"] = self.steps
        return found


@dataclass(frozen=True)
class Given:
    """The instance, and the rule by which its engine splits, where a plan says it."""

    instance: RoutingInstance
    rule: str | None = None


def read_given(path: str, loads: list[str], hosts: Hosts, say: Say) -> Given:
    """Read everything.

    Raises
    ------
    InstanceError
        The file is none of the three, loads are missing or too many, or anything in them is malformed.
    """
    from moeopt.cli.verify_map import map_of

    document = _document(path)
    schema = _schema(document)
    if schema.startswith((INSTANCE, RESULT)):
        return Given(_own(path, document, schema, loads, hosts, say))
    if not loads:
        rule = "needs loads to be routed"
        raise InstanceError([Violation("LOADS", "", "missing", rule, "Give a file of loads after the plan")])
    if schema.startswith(PLACEMENT):
        return _from_plan(path, document, loads, hosts, say)
    if schema.startswith(COLLOCATED):
        from moeopt.engines.collocated import read_collocated

        return Given(_from_map(path, read_collocated(document, path), loads, hosts, say))
    found = map_of(path)
    if found is None and is_loads(path):
        raise no_plan("PLAN", path, "Give the plan or map first, then the loads to be routed")
    if found is None:
        rule = "is no plan, no map of an engine and no routing instance"
        fix = "Give what moeopt place -o or collocate -o wrote, or an engine's own map"
        raise InstanceError([Violation("input", "", path, rule, fix)])
    expert_map, faults = found
    if expert_map is None:
        raise InstanceError([Violation("input", "", path, fault, "Repair the map") for fault in faults])
    return Given(_from_map(path, expert_map, loads, hosts, say))


def schema_of(path: str) -> str:
    """What a file calls itself; empty for what is no document."""
    return _schema(_document(path))


def _schema(document: Any) -> str:
    return str(document.get("schema")) if isinstance(document, dict) else ""


def _document(path: str) -> Any:
    with file_of(path) as file:
        if not file.lower().endswith(".json"):
            return None
        data = read_bytes(file)
    if b'"schema"' not in data:
        return None
    return read_json(data, path, allow_nan=True)


def _own(path: str, document: Any, schema: str, loads: list[str], hosts: Hosts, say: Say) -> RoutingInstance:
    """From an instance document, or from a routing that was written, with loads put in."""
    from moeopt.routing.document import read_instance

    if schema.startswith(RESULT):
        embedded = document.get("instance")
        document = dict(embedded.get("document") or {}) if isinstance(embedded, dict) else {}
        if not loads:
            rule = "is a routing, which is written without its loads"
            raise InstanceError([Violation("input", "", path, rule, "Give the loads after it")])
        table, layers = _table(loads, hosts, say)
        place = {layer: row for row, layer in enumerate(layers)}
        absent = [layer for layer in document.get("layers", []) if layer not in place]
        if absent:
            raise _no_rows(loads[0], absent)
        document["loads"] = table[[place[layer] for layer in document.get("layers", [])]].tolist()
    elif loads:
        rule = "is an instance, which has its loads within"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(loads)}")])
    elif hosts.given() not in ([], ["--integer"]):
        rule = "is an instance, which says this itself"
        raise InstanceError([Violation("input", "", path, rule, f"Leave out {', '.join(hosts.given())}")])
    check = Violations()
    changes = hosts.changes(check)
    check.raise_if_any()
    return read_instance({**document, **changes, **({"whole": True} if hosts.integer else {})}, path)


def _from_plan(path: str, document: Any, loads: list[str], hosts: Hosts, say: Say) -> Given:
    from moeopt.placement.document import read_instance
    from moeopt.placement.load_plan import read_result
    from moeopt.placement.plan_document import as_plan
    from moeopt.placement.plan_shape import plan_shape

    parsed = read_result(document, path)
    if parsed.solution is None:
        raise InstanceError([Violation("input", "", path, f"has no plan, its status is {parsed.status}", "Plan anew")])
    if hosts.gpus is not None and hosts.gpus != parsed.solution.ep_size:
        rule = f"the plan has {parsed.solution.ep_size}"
        raise InstanceError([Violation("--gpus", "", str(hosts.gpus), rule, "Leave it out")])
    table, layers = _table(loads, hosts, say)
    planned = [layer.layer for layer in parsed.solution.layers]
    rows = _rows(loads[0], layers, planned, say)
    kept = [layers[row] for row in rows]
    if table.shape[1] != (experts := len(parsed.solution.layers[0].replicas)):
        rule, fix = f"the plan has {experts}", "Give loads of the LLM that the plan is for"
        raise InstanceError([Violation("loads", "", f"{table.shape[1]} experts", rule, fix, loads[0])])
    embedded = parsed.instance.document.model_dump(by_alias=True)
    rules = plan_shape(parsed) | {key: embedded.get(key, []) for key in ("lost", "retire")}
    rules |= {key: embedded[key] for key in RULES if key in embedded}
    steps = embedded.get("steps", 1)
    rules["steps"] = sum(steps) if isinstance(steps, list) else steps
    given = read_instance({"schema": embedded["schema"], **rules, "loads": table[rows].tolist(), "layers": kept}, path)
    plan = as_plan(parsed, kept)
    check = Violations()
    fields_: dict[str, Any] = {
        "gpus": given.num_gpus,
        "gpu_of_slot": given.gpu_of_slot.tolist(),
        "speed": list(given.speed),
        "base": None if given.base is None else given.base.tolist(),
        "nodes": list(given.node),
        "steps": given.steps,
        "floor_tokens": given.floor_tokens,
        "floor_rule": given.floor_rule,
        "layers": kept,
        "name": name_of(loads[0]),
        "whole": hosts.integer,
    }
    fields_ |= _filled(hosts.changes(check), given.num_gpus)
    check.raise_if_any()
    return Given(_instance(given.loads, plan.slot_expert, fields_), given.split if given.split != "even" else None)


RULES = (
    *("uneven_slots", "floor_tokens", "floor_rule", "distinct", "fill", "split", "shared", "num_shared", "top_k"),
    *("c_slot", "c_tok", "token_bytes", "recv_bytes_per_s"),
)
"""Fields of a placement that say what routing needs, beside its shape and the GPUs that are out."""


def _from_map(path: str, found: Any, loads: list[str], hosts: Hosts, say: Say) -> RoutingInstance:
    import numpy as np

    from moeopt.engines.matching import match_rows

    table, layers = _table(loads, hosts, say)
    rows, notes = match_rows(found, layers)
    for note in (*found.notes, *notes):
        say.note(f"{path}: {note}")
    slots = found.slots
    if slots is None and hosts.gpus is None:
        rule = "is needed: the map does not say how many GPUs there are"
        raise InstanceError([Violation("--gpus", "", "missing", rule, "Give their number")])
    if slots is not None and hosts.gpus is not None and hosts.gpus != len(slots):
        raise InstanceError([Violation("--gpus", "", str(hosts.gpus), f"the map has {len(slots)}", "Leave it out")])
    count_ = hosts.gpus if slots is None else len(slots)
    check = Violations()
    fields_: dict[str, Any] = {
        "gpus": count_,
        "gpu_of_slot": None if slots is None else np.repeat(np.arange(len(slots)), slots).tolist(),
        "layers": layers,
        "name": name_of(loads[0]),
        "whole": hosts.integer,
    }
    fields_ |= _filled(hosts.changes(check), int(count_ or 1))
    check.raise_if_any()
    return _instance(table, found.slot_expert[rows], fields_)


def _instance(loads: Any, slot_expert: Any, given: dict[str, Any]) -> RoutingInstance:
    import numpy as np

    from moeopt.routing import RoutingInstance

    if given["whole"] and loads.dtype.kind == "f" and (loads == np.floor(loads)).all() and loads.max() < 2**53:
        loads = loads.astype(np.int64)
    return RoutingInstance(loads, slot_expert, **given)


def _filled(changes: dict[str, Any], gpus: int) -> dict[str, Any]:
    """One base load is that of every GPU."""
    if len(changes.get("base", ())) == 1:
        changes["base"] = changes["base"] * gpus
    return changes


def _table(loads: list[str], hosts: Hosts, say: Say) -> tuple[Any, list[int]]:
    """(L, E) loads, windows added up, and their layer ids."""
    import numpy as np

    from moeopt.cli.verify import table_of

    table, layers, _ = table_of(loads, say, hosts.drop)
    if table.ndim == 3:
        say.note(f"{count(len(table), 'window')} of loads are added up: routing is for what comes, not for a plan")
        table = table.sum(axis=0)
    return np.asarray(table), list(layers)


def _rows(path: str, layers: list[int], planned: list[int], say: Say) -> list[int]:
    """Rows of the loads that the plan has layers for, in the plan's order."""
    place = {layer: row for row, layer in enumerate(layers)}
    absent = [layer for layer in planned if layer not in place]
    if len(absent) == len(planned):
        raise _no_rows(path, absent)
    if absent:
        say.note(f"{path}: has no layers {ranges(absent)}, which the plan has: they are left out")
    over = sorted(set(layers) - set(planned))
    if over:
        say.note(f"{path}: layers {ranges(over)} are not in the plan and left out")
    return [place[layer] for layer in planned if layer in place]


def _no_rows(path: str, absent: list[int]) -> InstanceError:
    rule = f"has no layer {ranges(absent)}"
    return InstanceError([Violation("loads", "", path, rule, "Give loads of the layers that are placed")])
