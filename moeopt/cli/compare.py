"""Compare methods and ready-made plans of any problem: one referee for all, the best and the bound marked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.collocate_options import Sharing, Travel
from moeopt.cli.compare_options import MeshOptions, RouteOptions
from moeopt.cli.compare_placement import METHODS
from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.say import Say
from moeopt.cli.spread import Spread
from moeopt.cli.verb import verb

if TYPE_CHECKING:
    from moeopt.cli.compare_room import Asked, Room

EXAMPLE = """Example:

moeopt compare loads.csv --gpus 32 --slots 96 --methods eplb,search -o report.html

moeopt compare loads.csv --gpus 32 --slots 96 --plans ours.json,theirs.json

moeopt compare --fit 'week_1_*.csv' --score 'week_2_*.csv' --gpus 32 --slots 96

moeopt compare plan.json tomorrow.csv -o routings.html

moeopt compare trace.npz --cluster 4x8-h100 -o collocations.html

moeopt compare step.json -o micro_batches.html

moeopt compare --llm deepseek-v3 --gpu h200 --gpus 64 --tpot 50ms -o meshes.html"""


@verb
def compare(
    say: Say,
    shape: Shape,
    solving: Solving,
    output: Output,
    gate: Gate,
    travel: Travel,
    sharing: Sharing,
    routing: RouteOptions,
    mesh: MeshOptions,
    spread: Spread,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[INPUT...]",
            help="Loads, FILE.npz:KEY, or an instance; - is stdin. Several loads are windows, as in place; after a "
            "plan or map they are routed, as in route.",
        ),
    ] = None,
    apart: Annotated[
        bool, typer.Option("--apart", help="Compare several INPUTs one by one, a block each, instead of as windows.")
    ] = False,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            help=f"Names with commas; also package.module:function. Of a placement {','.join(METHODS)}, of the others "
            "all.",
        ),
    ] = None,
    plans: Annotated[
        list[str] | None,
        typer.Option(
            "--plans", metavar="FILE,...", help="Ready-made plans or maps of an engine; may be given repeatedly."
        ),
    ] = None,
    fit: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="GLOB", help="Plan on these loads, as windows; may be given repeatedly."),
    ] = None,
    score: Annotated[
        list[str] | None,
        typer.Option("--score", metavar="GLOB", help="Score the plans on these loads, which they have not seen."),
    ] = None,
) -> int:
    """Run several methods on the same input and judge them all by one referee.

    What is compared is what the input is: loads are a placement; a plan or an engine's map and loads after it a
    routing; a trace with --cluster or --transport a collocation; the options of moeopt mesh a mesh; an instance
    document its own problem.

    Gaps are measured against the best bound that any of them proved. With -o the report is HTML, Markdown, LaTeX, CSV
    or JSON, as the ending says, or several of them (-o a.html,a.md). --fail-if-worse looks at the plans, and without
    plans at the best method: neither may be worse than what runs (--current), nor, where nothing runs, than eplb, even
    parts, loads alone (load_only), first come first served (simulate) or the recipe, as the problem is.

    Several INPUTs are windows that one plan is made for; with --apart each is a comparison of its own, of any problem.
    With --fit and --score instead of INPUT, plans are made for the first and scored on the others too. With --current
    the running plan is a row, and a column has the moves that each plan costs.
    """
    from moeopt.cli.compare_options import hosts_of
    from moeopt.cli.compare_room import Asked
    from moeopt.cli.comparing import check_output, run

    check_output(output)
    asked = Asked(
        inputs=list(inputs or []),
        methods=None if methods is None else [name.strip() for name in methods.split(",") if name.strip()],
        plans=list(plans or []),
        shape=shape,
        travel=travel,
        sharing=sharing,
        mesh=mesh,
        routing=routing,
        hosts=hosts_of(shape, routing),
        solving=solving,
        gate=gate,
        executor=spread.made(),
        fit=list(fit or []),
        score=list(score or []),
        apart=apart,
    )
    return run(_parts(asked, say), output, say)


def _parts(asked: Asked, say: Say) -> list[tuple[Room, Asked]]:
    """Every comparison that is asked for, with its problem."""
    from moeopt.cli.compare_placement import PlacementRoom, held_out_files
    from moeopt.cli.inputs import names_of, sources

    if not asked.apart or len(asked.inputs) < 2:
        room = _room(asked)
        if not isinstance(room, PlacementRoom):
            return [(room, asked)]
        fitted, scored = held_out_files(asked.inputs, asked.fit, asked.score, asked.apart)
        inputs = sources(asked.inputs, say) or sources(fitted, say)
        return [(room, replace(asked, inputs=inputs, fit=fitted, score=sources(scored, say)))]
    held_out_files(asked.inputs, asked.fit, asked.score, asked.apart)
    inputs = sources(asked.inputs, say)
    parts = [
        replace(asked, inputs=[path], label=name, apart=False)
        for path, name in zip(inputs, names_of(inputs), strict=True)
    ]
    return [(_room(part), part) for part in parts]


def _room(asked: Asked) -> Room:
    """The problem that an option or the first input says."""
    from moeopt.cli import collocation_files, mesh_files, microbatch_files
    from moeopt.cli.compare_collocation import CollocationRoom
    from moeopt.cli.compare_mesh import MeshRoom
    from moeopt.cli.compare_microbatch import MicrobatchRoom
    from moeopt.cli.compare_placement import PlacementRoom
    from moeopt.cli.compare_routing import RoutingRoom, is_routing
    from moeopt.cli.room_files import room_document

    if len(asked.inputs) == 1 and not (asked.fit or asked.score):
        (path,) = asked.inputs
        found = room_document(path, (*mesh_files.KINDS, *collocation_files.KINDS, *microbatch_files.KINDS))
        what = None if found is None else found[0]
        if what in mesh_files.SAID:
            return MeshRoom()
        if what == collocation_files.INSTANCE_SAID:
            return CollocationRoom()
        if what in microbatch_files.SAID:
            return MicrobatchRoom()
    if asked.mesh.given():
        return MeshRoom()
    if asked.travel.given() or asked.sharing.given():
        return CollocationRoom()
    return RoutingRoom() if is_routing(asked) else PlacementRoom()
