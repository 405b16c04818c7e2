"""The list of verbs; the file of a verb is imported when the verb is called."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import HAS_RICH, TyperGroup

from moeopt.cli.once import OnceCommand
from moeopt.cli.plain import read_plainly

VERBS = {
    "place": "Place experts on GPUs: how many copies of each, and the GPU of each, with a proven bound.",
    "route": "Split tokens over the replicas of a plan or map as well as can be, "
    "and say what a better dispatch rule could win.",
    "collocate": "Collocate experts: which share a GPU or a node, from a routing trace and a link graph, "
    "with a proven bound.",
    "mesh": "Choose a parallel mesh: degrees, pools, GPU types and how many, with a bound, the runners-up "
    "and the command.",
    "microbatch": "Choose how many micro-batches a step is cut into, with the exact time of each, a bound "
    "and a timeline.",
    "compare": "Compare methods and ready-made plans of any problem: one referee for all, the best "
    "and the bound marked.",
    "convert": "Convert a plan, or an engine's map, into the map that an engine loads.",
    "verify": "Verify a plan or an engine's map: list every fault, and recompute every number from the loads.",
    "inspect": "Inspect files: what they are, their shape, the hottest experts, and what any plan could reach.",
    "check": "Check a shape: which slot totals work near by, what a slot costs in memory, what engines take; "
    "solves nothing.",
    "generate": "Generate loads by name and seed.",
    "replay": "Replay policies of re-planning over a history of loads, each scored on windows it has not seen.",
    "bench": "Run a grid of policies, shapes, loads and seeds, and compare them in one table.",
    "calibrate": "Fit the constants of kernels, collectives and steps to measurements, or replay whole runs.",
    "export": "Export one layer as a mixed-integer programme for another solver.",
    "info": "Info: methods, back ends, shapes, generators, LLMs, GPUs, versions, and the JSON Schemas "
    "of the documents.",
    "warmup": "Warm up: compile the kernels once, so that the first search runs at full speed.",
}
"""Name of each verb, which is also that of its file and function, and its line in ``moeopt --help``."""

PARSING: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": "rich",
    "context_settings": {"help_option_names": ["-h", "--help"]},
}


MARKUP = re.compile(r"(\[[a-zA-Z/@#])")
"""How markup begins."""


class Verbs(TyperGroup):
    """Verbs by name and line; the one that is called is imported, options and all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As `moeopt.cli.once.OnceCommand` does."""
        read_plainly(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        try:
            return name, command and command_of(str(command.name)), rest
        except KeyboardInterrupt:  # which some versions of the parser turn into an exit without a word
            raise typer.Abort from None


@cache
def command_of(name: str) -> Any:
    """The command of a verb, with its options put together once a process."""
    module = import_module(f"moeopt.cli.{name}")
    alone = typer.Typer(**PARSING)
    alone.command(name, cls=OnceCommand, epilog=module.EXAMPLE)(getattr(module, name))
    made = typer.main.get_command(alone)
    for text in (made, *made.params):
        text.help = _literal(text.help)  # type: ignore[attr-defined]
    made.epilog = _literal(made.epilog)
    return made


def _literal(text: str | None) -> str | None:
    """Help in which a list in brackets stays one, where it would be read as markup and left out.

    >>> _literal("policies: [eplb, lpt], seeds: [0, 1]")
    'policies: \\\\[eplb, lpt], seeds: [0, 1]'
    """
    return MARKUP.sub(r"\\\1", text) if text and HAS_RICH else text


app = typer.Typer(cls=Verbs, **PARSING)


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


def _listed() -> None:
    """What stands in the list of verbs for a verb that is not imported."""


for _name, _line in VERBS.items():
    app.command(_name, short_help=_line)(_listed)


@cache
def command() -> Any:
    """The list of all verbs, put together once a process."""
    return typer.main.get_command(app)
