"""Inspect files: what they are, their shape, the hottest experts, and what any plan could reach."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import inspect_cluster as topologies
from moeopt.cli import rooms
from moeopt.cli.inspect_cluster import Topology
from moeopt.cli.inspect_facts import load_facts, map_facts, plan_facts, reach
from moeopt.cli.inspect_show import show, show_reach
from moeopt.cli.options import OF_FINDINGS, Json, Shape
from moeopt.cli.piped import file_of
from moeopt.cli.say import Common, Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.workload import LoadTable

EXAMPLE = """Example:

moeopt inspect loads.csv

moeopt inspect loads.csv --gpus 16 --slots 80

moeopt inspect loads.csv --gpus 16 --slots 80 --current plan.json

moeopt inspect monday.csv tuesday.csv --gpus 16 --slots 80 --combine worst

moeopt inspect trace.npz --drop dummy-rows --gpus 4 --slots 64

moeopt inspect topo.txt -o topo.svg

moeopt inspect node0.xml node1.xml -o cluster.json

moeopt inspect topology.conf --machine h100

moeopt inspect 4x8-h100"""


@verb
def inspect(
    say: Say,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Loads, dumps or maps of an engine, instances, plans, topologies, constants; - is stdin.",
        ),
    ],
    shape: Shape,
    json: Json,
    topology: Topology,
) -> int:
    """Say what each file is and what is wrong with it; with a shape, the imbalance now and the best of any plan.

    Loads are held against named laws. A finding that matters is refused by place and compare until it is accepted there
    with --accept NAME; --drop dummy-rows leaves out what an engine ran on made-up tokens.

    Several loads with a shape are also looked at together, as the windows that place makes one plan for. Now is the
    running plan with --current, else experts in order.

    Topologies are nvidia-smi topo -m, NCCL and hwloc XML, Slurm's topology.conf and topology.yaml, ibnetdiscover, node
    labels of Kubernetes, rank-cost matrices, documents, and names of reference clusters: GPUs, NVLink domains, ports,
    tiers and faults are shown, -o draws the graph. Several of NCCL, or of nvidia-smi, are also looked at together, as
    the servers of one cluster.

    Constants that calibrate wrote are shown with their residuals, ranges and sources, a replay with its policies. There
    is no --show-python, as no one call of the library says all this: in Python, read_loads and findings of
    moeopt.workload read loads and hold them against the laws.
    """
    from moeopt.cli.accepting import check_names
    from moeopt.cli.inputs import experts_of, sources
    from moeopt.cli.windows import refuse_window_options

    if shape.accept:
        rule, fix = "is for plans, and here every finding is shown", "Leave it out"
        raise InstanceError([Violation("--accept", "", ", ".join(shape.accept), rule, fix)])
    check_names(shape.accept, shape.drop)
    files = sources(files, say)
    experts = experts_of(shape)
    read = [(path, *_told(path, shape, experts)) for path in files]
    servers = topologies.together(files, [what for _, what, _ in read])
    topologies.check_options(topology, [what for _, what, _ in read], servers)
    loads = [(path, content) for path, what, content in read if what == "loads"]
    if shape.given() and not loads:
        room = rooms.room_of(read[0][1])
        known = {"plan": "a plan", "map": "a map of an engine", **dict.fromkeys(topologies.SAID, "a topology")}
        is_one = (known if room is None else room.SAID).get(read[0][1], "an instance document")
        rule = f"is {is_one}, and options are for loads"
        fix = f"Leave out {', '.join(shape.given())}, or give the loads"
        raise InstanceError([Violation("input", "", files[0], rule, fix)])
    if len(loads) == 1 and loads[0][1].windows is None:
        refuse_window_options(shape)
    found = []
    for path, what, content in read:
        if what in topologies.SAID:
            what, content = topologies.on_machine(content, topology)
        facts: dict[str, Any] = {"file": path, "what": what}
        if what in topologies.SAID:
            facts |= topologies.facts(what, content)
            if topology.output is not None and servers is None:
                topologies.write(content, topology)
        elif (room := rooms.room_of(what)) is not None:
            facts |= room.facts(path, what, content)
        elif what == "plan":
            facts |= plan_facts(path, content)
        elif what == "map":
            facts |= map_facts(*content)
        elif what == "instance":
            facts |= load_facts(content) | reach(content)
        else:
            facts |= _loads(path, content, shape, say)
        found.append(facts)
        if not json.json:
            show(facts, say)
    together = None
    if servers is not None:
        together = {"file": f"together, {servers.name}", "what": topologies.CLUSTER_SAID}
        together |= topologies.facts(topologies.CLUSTER_SAID, servers)
        if topology.output is not None:
            topologies.write(servers, topology)
        if not json.json:
            topologies.show(together, say)
    if len(loads) > 1 and _wants_instance(shape):
        together = _together([path for path, _ in loads], [table for _, table in loads], shape)
        if not json.json:
            show_reach(together, say)
    if json.json:
        say.document({"files": found} if together is None else {"files": found, "together": together})
    if topology.output is not None:
        say.note(f"written: {topology.output}")
    return DONE


def _told(path: str, shape: Shape, experts: int | None) -> tuple[str, Any]:
    """What a file is, and its content: asked of the rooms that know files of their own, then of all others."""
    from moeopt.cli.inputs import read_any

    found = rooms.document_of(path) or topologies.read_file(path) or _map(path)
    return found or read_any(path, shape.layers, experts)


def _map(path: str) -> tuple[str, Any] | None:
    """A map that an engine loads with its form, or ``None`` for anything else."""
    from moeopt.engines.kinds import MAPS, what_is
    from moeopt.engines.reading import read_map

    with file_of(path) as file:
        kind = what_is(file)
        return ("map", (read_map(file), kind[1])) if kind in MAPS else None


def _wants_instance(shape: Shape) -> bool:
    """Whether more was given than which layers to look at."""
    return any(option not in ("--layers", *OF_FINDINGS) for option in shape.given())


def _loads(path: str, table: LoadTable, shape: Shape, say: Say) -> dict[str, Any]:
    """One file of loads by itself."""
    from moeopt.cli.accepting import dropped, findings_of
    from moeopt.cli.inputs import from_loads, layer_ids, refuse_experts

    check = Violations(path)
    refuse_experts(table, shape, check)
    check.raise_if_any()
    table = dropped(table, shape.drop)
    rows = None
    if shape.layers is not None:
        check = Violations(path)
        wanted = layer_ids(shape.layers, table, check)
        check.raise_if_any()
        rows = [table.layers.index(layer) for layer in wanted]
    facts = load_facts(table, rows)
    facts["findings"] = [asdict(finding) for finding in findings_of(table, shape)]
    if _wants_instance(shape):
        # how windows count is said for all files together, and one file need not have several
        alone = shape if table.windows is not None else replace(shape, combine=None, alpha=None)
        facts |= reach(from_loads(replace(table, notes=()), path, alone, say))  # its notes are shown already
    return facts


def _together(files: list[str], tables: list[LoadTable], shape: Shape) -> dict[str, Any]:
    """What any plan could reach for all files as windows, or why they are none."""
    from moeopt.cli.accepting import dropped
    from moeopt.cli.inputs import from_loads
    from moeopt.cli.windows import joined, name_of_windows

    said_before = Say(Common(quiet=True))
    try:
        table = joined(files, said_before, shape.steps, [dropped(table, shape.drop) for table in tables])
    except InstanceError as error:
        return {"why_not": [str(violation) for violation in error.violations]}
    instance = from_loads(table, ", ".join(files), shape, said_before, name_of_windows(files))
    return {"windows": len(instance.windows), "combine": instance.combine, **reach(instance)}
