"""Compare methods and ready-made plans: one referee for all, the best and the bound marked."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.say import Say
from moeopt.cli.verb import COMMAND, DONE, verb

EXAMPLE = """Example:

moeopt compare loads.csv --gpus 32 --slots 96 --methods eplb,search -o report.html"""


@verb
def compare(
    say: Say,
    inputs: Annotated[list[str], typer.Argument(metavar="INPUT...", help="Loads, or instance documents; - is stdin.")],
    shape: Shape,
    solving: Solving,
    output: Output,
    gate: Gate,
    methods: Annotated[
        str, typer.Option("--methods", help="Names with commas; also package.module:function.")
    ] = "contiguous,eplb,lpt,search",
) -> int:
    """Run several methods on the same loads, one block an INPUT, and judge them all by one referee.

    Gaps are measured against the best bound that any of the methods proved.
    """
    from moeopt.cli.inputs import read_instance
    from moeopt.cli.tables import comparison_table
    from moeopt.placement import PROBLEM

    limits = solving.limits()
    blocks = []
    for path in inputs:
        instance = read_instance(path, shape, say)
        with say.progress(instance.name) as listener:
            comparison = PROBLEM.compare(
                instance, methods.split(","), limits=limits, seed=solving.seed, on_progress=listener
            )
        blocks.append((instance, comparison))
        say.show(comparison_table(comparison))
    if output.output is not None:
        _report(output, blocks, solving.seed)
        say.note(f"report: {output.output}")
    return DONE


def _report(output: Output, blocks: list[tuple[Any, Any]], seed: int) -> None:
    import shlex
    from pathlib import Path

    from moeopt.report import Block, Header, write_report

    assert output.output is not None
    header = Header(command=shlex.join(["moeopt", *COMMAND.get()]), seed=seed)
    made = [Block(instance, comparison) for instance, comparison in blocks]
    write_report(Path(output.output), made, header, force=output.force)
