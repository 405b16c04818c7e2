"""Export one layer as a mixed-integer programme for another solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from moeopt.cli.options import Shape
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation

EXAMPLE = """Example:

moeopt export loads.csv --gpus 2 --slots 66 --layer 0 --format lp -o layer0.lp

moeopt export mesh-plan.json --format mps"""

FORMATS = ("lp", "mps")
ENDINGS = (".lp", ".mps")


@verb
def export(
    say: Say,
    input: Annotated[
        str, typer.Argument(metavar="INSTANCE", help="An instance document, a mesh plan, or loads and a shape.")
    ],
    shape: Shape,
    form: Annotated[
        str | None, typer.Option("--format", help="lp or mps; the ending of -o says it too, else lp.")
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", help="Layer id; may be left out where there is one.")] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write; standard output without, or with -."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Write the exact model of one layer, in the names of models/placement.md, as an LP or MPS file.

    Of a micro-batch instance the programme over its candidates, in the names of models/microbatch.md; of a routing
    instance that of one layer, in those of models/routing.md; of a mesh instance, or a mesh plan, the purchase over
    its configurations, in those of models/mesh.md.
    """
    from moeopt.cli.inputs import read_instance
    from moeopt.cli.mesh_files import instance_of as mesh_of
    from moeopt.cli.microbatch_files import read_instance as read_microbatch
    from moeopt.cli.rooms import refuse_options
    from moeopt.cli.route_files import INSTANCE_SAID, document_of
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.placement.exact import build

    output = None if output == STDOUT else output
    if output is not None:
        check_target(output, ENDINGS, force, what="a model")
    ending = "lp" if output is None else output.rpartition(".")[2].lower()
    if form is not None and form not in FORMATS:
        fix = f"Use {' or '.join(FORMATS)}"
        raise InstanceError([Violation("--format", "", form, "is not a form models are written in", fix)])
    if form is not None and output is not None and form != ending:
        fix = f"Leave out --format, or name the file .{form}"
        raise InstanceError([Violation("--format", "", form, f"contradicts the ending of {output}", fix)])
    form = form or ending
    own = document_of(input)
    if own is not None and own[0] == INSTANCE_SAID:
        refuse_options(input, INSTANCE_SAID, shape.given())
        from moeopt.routing.document import read_instance as read_routing
        from moeopt.routing.exact import build as split

        routing = read_routing(own[1], input)
        return _write(split(routing, layer=_row(input, layer, routing.layers)).problem, form, output, force, say)
    given = [*shape.given(), *(["--layer"] if layer is not None else [])]
    mesh = mesh_of(input, given)
    if mesh is not None:
        from moeopt.mesh.exact import build as purchase

        return _write(purchase(mesh).to_pulp()[0], form, output, force, say)
    steps = read_microbatch(input, given, "export")
    if steps is not None:
        from moeopt.microbatch import exact

        return _write(exact.build(steps).to_pulp()[0], form, output, force, say)
    instance = read_instance(input, shape, say)
    model = build(instance, layer=_row(input, layer, instance.layers)).to_pulp()
    problem = model[0] if isinstance(model, tuple) else model
    return _write(problem, form, output, force, say)


def _row(path: str, layer: int | None, layers: Sequence[int]) -> int:
    """The place of the layer that the model is of: the one that is asked for, or the only one."""
    if layer is None and len(layers) > 1:
        rule = f"is needed, {path} has {len(layers):,} layers and a model is of one"
        raise InstanceError([Violation("--layer", "", "missing", rule, f"Give --layer {layers[0]}")])
    wanted = layers[0] if layer is None else layer
    if wanted not in layers:
        known = f"It has {layers[0]} to {layers[-1]}"
        raise InstanceError([Violation("--layer", "", str(wanted), f"is not a layer of {path}", known)])
    return layers.index(wanted)


def _write(problem: Any, form: str, output: str | None, force: bool, say: Say) -> int:
    """The programme as a file, or on standard output."""
    from moeopt.backends import write_lp, write_mps

    text = (write_lp if form == "lp" else write_mps)(problem, output, force=force)
    if output is None:
        say.line(text.rstrip("\n"))
    else:
        say.note(f"model: {output}")
    return DONE
