"""Verify a plan or an engine's map: list every fault, and recompute every number from the loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import After, ask
from moeopt.cli.failures import show_lost
from moeopt.cli.llm_options import Llm
from moeopt.cli.options import Json, Showing
from moeopt.cli.piped import file_of
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, GATE, verb
from moeopt.cli.verdict import show_faults
from moeopt.cli.verify_map import MapOptions, map_of, verify_map
from moeopt.errors import InstanceError, Violation

if TYPE_CHECKING:
    from moeopt.placement.load_plan import ResultDocument

EXAMPLE = """Example:

moeopt verify plan.json loads.csv

moeopt verify plan.json --experts 64 --slots 80 --gpus 16

moeopt verify plan.json --hf-config config.json

moeopt verify plan.json --failures

moeopt verify collocation.json trace.npz

moeopt verify mesh-plan.json

moeopt verify replay.json history.npz

moeopt verify h200.json moe_perf.parquet nccl_perf.parquet

moeopt verify expert-map.json --experts 256 --slots 288 --gpus 32 --hf-config config.json"""


@verb
def verify(
    say: Say,
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN_OR_MAP",
            help="A plan, constants that calibrate wrote, or an engine's map; - is stdin.",
        ),
    ],
    json: Json,
    which: Llm,
    options: MapOptions,
    showing: Showing,
    loads: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[LOADS_OR_INSTANCE...]",
            help="What it was made for or from: loads (several are windows), a trace, tables.",
        ),
    ] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="E it has to have.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="S it has to have.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="G it has to have.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="N it has to have.")] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option("--drop", metavar="NAME", help="Leave out of the loads what the plan did: dummy-rows."),
    ] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Also say which experts would be lost with each GPU and node.")
    ] = False,
) -> int:
    """Check a plan against itself, and with its loads, every number and every bound; exit 5 on any fault.

    Without loads the structure is checked: lengths, ids, every expert present, doubles, groups, and that the numbers
    in the document agree with each other. With an LLM (--hf-config or --llm) its layers, their numbers, experts and
    top-k must be those of the plan. The map of an engine has no numbers: its ids, cover, doubles and layers are
    checked, and with loads its imbalance is computed. Plans of micro-batches and meshes have their instance within; a
    routing is checked against the loads that it splits, a collocation against its routing trace, a replay against its
    history. Constants are fitted anew to the tables that they are from.
    """
    from moeopt.cli.rooms import document_of, refuse_options, room_of
    from moeopt.documents import read_bytes, read_json
    from moeopt.engines.plan_check import DIGEST, check_plan
    from moeopt.placement.load_plan import claimed_layers, read_result, unchecked

    wanted = {"experts": experts, "slots": slots, "gpus": gpus, "nodes": nodes}
    said = [*_named(wanted), *options.given(), *(["--drop"] if drop else []), *(["--failures"] if failures else [])]
    own = document_of(plan)
    room = None if own is None else room_of(own[0])
    if own is not None and room is not None and own[0] == room.JUDGED:
        refuse_options(plan, own[0], said)
        code: int = room.verify(plan, own[1], loads or [], json.json, say)
        return code
    with file_of(plan) as file:
        map_found = map_of(file)
        content = None if map_found is not None else read_json(read_bytes(file), plan)
    if map_found is not None and failures:
        rule = "is for plans: a map does not say on which nodes its GPUs are"
        raise InstanceError([Violation("--failures", "", "given", rule, "Leave it out")])
    if map_found is not None:
        return verify_map(plan, *map_found, wanted, which, options, loads or [], json.json, say, drop)
    _is_placement(content, plan)
    document = read_result(content, plan)
    if options.given():
        rule = "is for maps of engines: a plan says it itself"
        raise InstanceError([Violation(options.given()[0], "", "given", rule, "Leave it out")])
    kept: dict[str, Any] = {**wanted, "llm": which.facts(), "facts": None}
    if which.named() is None:
        kept["facts"] = which.layer_facts()
    given: tuple[Any, ...] = ()
    if loads:
        facts = which.layer_facts(experts=experts)
        table, layers, digest = table_of(loads, say, drop, None if facts is None else facts.experts)
        given = (table, layers)
        kept["made_for"] = None if digest is None else (loads[0], digest)
    faults = ask(check_plan, document, *given, **kept, after=After(lost=failures))
    checked = "structure" if not loads else "structure, numbers and bounds"
    claims = claimed_layers(document)
    if claims and loads:
        checked = f"structure and numbers; the bounds of {len(claims)} layers are a solver's claim, not re-checked"
    aside = unchecked(document)
    lost = _lost(document) if failures and not faults else None
    if json.json:
        known = {"ok": not faults, "checked": checked, "claimed_layers": claims, "unchecked": aside, "faults": faults}
        say.document(known if lost is None else {**known, "lost_if": lost})
    else:
        show_faults(plan, faults, checked, say, DIGEST)
        for what in aside:
            say.note(f"not re-checked: {what}")
        if lost is not None:
            show_lost(lost, *_size(document), say)
        elif failures:
            say.note("what failures would lose was not looked at: the plan has faults")
    return GATE if faults else DONE


def _is_placement(content: Any, path: str) -> None:
    """Refuse what is no plan of any room, and say what there is."""
    from moeopt.cli import mesh_files as meshes
    from moeopt.cli.microbatch_files import INSTANCE, PLAN
    from moeopt.placement.plan_document import SCHEMA

    schema = content.get("schema") if isinstance(content, dict) else None
    if isinstance(schema, str) and schema.startswith(SCHEMA.rpartition("/")[0]):
        return  # its version is looked at where it is read
    known = f"{SCHEMA}, {PLAN}1, {meshes.RESULT}1, or the map of an engine"
    if isinstance(schema, str) and schema.startswith(INSTANCE):
        rule, fix = "is a micro-batch instance, not a plan", f"Solve it with moeopt microbatch {path} -o plan.json"
    elif isinstance(schema, str) and schema.startswith(meshes.INSTANCE):
        rule, fix = "is a mesh instance, not a plan", f"Solve it with moeopt mesh {path} -o plan.json"
    else:
        rule, fix = "is no placement plan, micro-batch plan, mesh plan or map of an engine", f"Give {known}"
    shown = "missing" if schema is None else schema if isinstance(schema, str) else repr(schema)
    raise InstanceError([Violation("schema", "", shown, rule, fix)], path)


def _named(wanted: dict[str, int | None]) -> list[str]:
    return [f"--{name}" for name, number in wanted.items() if number is not None]


def _lost(document: ResultDocument) -> dict[str, Any]:
    """Which experts every GPU and node would take with it."""
    from moeopt.cli.failures import lost_document
    from moeopt.placement.load_plan import as_plan, instance_of

    instance = instance_of(document)
    return lost_document(instance, as_plan(document, instance.layers))


def _size(document: ResultDocument) -> tuple[int, int]:
    """Experts of a layer, and layers."""
    assert document.solution is not None
    return len(document.solution.layers[0].replicas), len(document.solution.layers)


def table_of(
    paths: list[str], say: Say, drop: list[str] | None = None, experts: int | None = None
) -> tuple[Any, tuple[int, ...], str | None]:
    """Loads, their layer ids, and the digest where the file is an instance with rules of its own.

    `experts` are those of a layer, for traces that do not say it.
    """
    from moeopt.cli.accepting import check_names, dropped, said_of
    from moeopt.cli.inputs import read_any, sources

    check_names(None, drop)
    paths = sources(paths, say)
    if len(paths) > 1:
        from moeopt.cli.windows import joined

        read = [read_any(path, experts=experts) for path in paths]
        tables = [dropped(found, drop) for what, found in read if what == "loads"]
        table = joined(paths, say, read=tables if len(tables) == len(paths) else None, experts=experts)
        for path, one in zip(paths, tables, strict=False):
            said_of(one, path, say)
        return table.windows, table.layers, None
    path = paths[0]
    what, found = read_any(path, experts=experts)
    if what == "plan":
        rule = "is a plan, not loads or an instance"
        raise InstanceError([Violation("input", "", path, rule, "Give the plan first, then the loads")])
    if what == "loads":
        found = dropped(found, drop)
        for note in found.notes:
            say.note(f"{path}: {note}")
        said_of(found, path, say)
        return (found.loads if found.windows is None else found.windows), found.layers, None
    return found.given_loads, found.layers, found.sha256
