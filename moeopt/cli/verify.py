"""Verify a plan: list every fault, and recompute every number from the loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.failures import show_lost
from moeopt.cli.options import Json
from moeopt.cli.say import Say, few
from moeopt.cli.verb import DONE, GATE, verb

if TYPE_CHECKING:
    from moeopt.placement.load_plan import ResultDocument

EXAMPLE = """Example:

moeopt verify plan.json loads.csv

moeopt verify plan.json --experts 64 --slots 80 --gpus 16

moeopt verify plan.json --failures"""

DIGEST = "instance.sha256 says"
"""How the fault begins that names other loads or other rules than the plan's."""


@verb
def verify(
    say: Say,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A plan that place wrote; - is stdin.")],
    json: Json,
    loads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[LOADS_OR_INSTANCE...]", help="What the plan was made for; several loads are windows."),
    ] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="E it has to have.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="S it has to have.")] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="G it has to have.")] = None,
    nodes: Annotated[int | None, typer.Option("--nodes", help="N it has to have.")] = None,
    failures: Annotated[
        bool, typer.Option("--failures", help="Also say which experts would be lost with each GPU and node.")
    ] = False,
) -> int:
    """Check a plan against itself, and with its loads, every number and every bound; exit 5 on any fault.

    Without loads the structure is checked: lengths, ids, every expert present, doubles, groups, and that the numbers
    in the document agree with each other.
    """
    from moeopt.documents import read_bytes, read_json
    from moeopt.placement.load_plan import claimed_layers, document_faults, read_result, unchecked

    document = read_result(read_json(read_bytes(plan), plan), plan)
    wanted = {"experts": experts, "slots": slots, "gpus": gpus, "nodes": nodes}
    faults = _size_faults(document, wanted)
    if not loads:
        faults += document_faults(document)
    else:
        table, layers, digest = _table(loads, say)
        if digest is not None and digest != document.instance.sha256:
            faults.append(
                f"{DIGEST} {document.instance.sha256}, the instance {loads[0]} is {digest}: the plan was made for "
                "another instance, or by other rules"
            )
        faults += document_faults(document, table, layers)
    faults = list(dict.fromkeys(faults))
    faults.sort(key=lambda fault: not fault.startswith(DIGEST))  # other loads explain all that follows
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
        cut = len(faults) > 1 and faults[0].startswith(DIGEST) and not say.verbose
        for fault in faults[:1] if cut else few(faults, say.verbose):
            say.line(fault)
        if cut:
            say.line(f"... {len(faults) - 1:,} more, which may follow from that; -v shows them")
        if not faults and not say.quiet:
            say.line(f"{plan}: ok ({checked})")
        for what in aside:
            say.note(f"not re-checked: {what}")
        if lost is not None:
            show_lost(lost, *_size(document), say)
        elif failures:
            say.note("what failures would lose was not looked at: the plan has faults")
    return GATE if faults else DONE


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


def _table(paths: list[str], say: Say) -> tuple[Any, tuple[int, ...], str | None]:
    """Loads, their layer ids, and the digest where the file is an instance with rules of its own."""
    from moeopt.cli.inputs import read_any
    from moeopt.errors import InstanceError, Violation

    if len(paths) > 1:
        from moeopt.cli.windows import joined

        table = joined(paths, say)
        return table.windows, table.layers, None
    path = paths[0]
    what, found = read_any(path)
    if what == "plan":
        rule = "is a plan, not loads or an instance"
        raise InstanceError([Violation("input", "", path, rule, "Give the plan first, then the loads")])
    if what == "loads":
        for note in found.notes:
            say.note(f"{path}: {note}")
        return (found.loads if found.windows is None else found.windows), found.layers, None
    return found.given_loads, found.layers, found.sha256


def _size_faults(document: ResultDocument, wanted: dict[str, int | None]) -> list[str]:
    if document.solution is None:
        return []
    layer = document.solution.layers[0]
    nodes = document.instance.document.model_dump().get("nodes")
    sizes = {
        "experts": len(layer.replicas),
        "slots": len(layer.slot_expert),
        "gpus": document.solution.ep_size,
        "nodes": len(set(map(repr, nodes))) if isinstance(nodes, list) else None,
    }
    return [
        f"{name}: the plan has {sizes[name]}, --{name} says {number}"
        for name, number in wanted.items()
        if number is not None and sizes[name] != number
    ]
