"""The list of verbs."""

from __future__ import annotations

from typing import Annotated

import typer

from moeopt.cli import (
    bench,
    calibrate,
    check,
    collocate,
    compare,
    convert,
    export,
    generate,
    info,
    inspect,
    mesh,
    microbatch,
    place,
    replay,
    route,
    verify,
    warmup,
)
from moeopt.cli.once import OnceCommand

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from moeopt._version import __version__

        typer.echo(f"moeopt {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Place Mixture-of-Experts models on GPUs and cut their steps up, with a proven bound on every answer.

    Exit codes: 0 done, 1 our fault, 2 bad usage or input, 3 infeasible, 4 a limit was hit before any plan,
    5 a gate said no (verify found a fault, --fail-if-worse), 130 interrupted without an answer. Ctrl-C and SIGTERM keep
    the best plan so far where there is one.
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _module in (
    place,
    route,
    collocate,
    mesh,
    microbatch,
    compare,
    convert,
    verify,
    inspect,
    check,
    generate,
    replay,
    bench,
    calibrate,
    export,
    info,
    warmup,
):
    _name = _module.__name__.rpartition(".")[2]
    app.command(_name, cls=OnceCommand, epilog=_module.EXAMPLE, short_help=_module.__doc__)(getattr(_module, _name))
