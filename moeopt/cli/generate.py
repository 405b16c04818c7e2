"""Generate loads by name and seed."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.ask import ask
from moeopt.cli.options import Showing
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation, Violations

EXAMPLE = """Example:

moeopt generate zipf --layers 4 --experts 64 --top-k 6 --tokens 10000 -o loads.csv

moeopt generate lognormal --shape dsv3_288_g32 --tokens 100000 --seed 1 -o loads.npz

moeopt generate shift --windows 24 --shape dsv3_288_g32 --tokens 1000000 -o history.npz"""


@verb
def generate(
    say: Say,
    showing: Showing,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="See moeopt info generators.")],
    number: Annotated[str | None, typer.Option("--layers", metavar="L", help="L, number of layers.")] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="E, experts in each layer.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Experts a token selects.")] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", help="Layers, experts and top-k of a deployment, see moeopt info shapes.")
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", help="Tokens that are routed.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal loads.")] = 0,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Exponent of zipf.")] = None,
    sigma: Annotated[
        float | None, typer.Option("--sigma", help="Spread of lognormal, topic and all that drifts.")
    ] = None,
    windows: Annotated[
        int | None, typer.Option("--windows", help="W, windows of what drifts: walk, shift, hotspot, burst.")
    ] = None,
    drift: Annotated[
        float | None, typer.Option("--drift", help="How much changes, see moeopt info generators.")
    ] = None,
    noise: Annotated[str | None, typer.Option("--noise", help="poisson: redraw every count around its value.")] = None,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv, .json, .npz or .npy file (windows: not CSV); - prints CSV."
        ),
    ] = "-",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Draw loads from a named distribution, or windows of loads that drift; equal arguments give equal files.

    What drifts is written as one array of windows x layers x experts, which place, inspect and replay read.
    """
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.workload import GENERATORS, HISTORIES, generate_history, write_loads
    from moeopt.workload import generate as draw
    from moeopt.workload.readers import ENDINGS
    from moeopt.workload.writers import WITH_WINDOWS

    check = Violations()
    layers = None if number is None else units.layers(number, check)
    check.raise_if_any()
    known = kind in (*GENERATORS, *HISTORIES)
    drifts = kind in HISTORIES
    if output != STDOUT:
        what = "a history" if drifts else "loads"
        check_target(output, WITH_WINDOWS if drifts else ENDINGS, force, what=what)
    if known:
        _refuse(kind, drifts, output, {"--windows": windows, "--drift": drift}, {"--alpha": alpha, "--noise": noise})
    unknown = [] if known else [_unknown(kind, windows is not None or drift is not None)]
    sizes = _sizes(unknown, shape, {"layers": layers, "experts": experts, "top_k": top_k})
    if drifts:
        assert windows is not None
        spread = 1.0 if sigma is None else sigma
        drawn: dict[str, Any] = {
            "windows": windows,
            **sizes,
            "tokens": tokens,
            "seed": seed,
            "sigma": spread,
            "drift": drift,
        }
        history = ask(generate_history, kind, **drawn)
        write_loads(output, history, force=force)
        say.note(f"history: {output}, {history.source}")
        return DONE
    table = ask(draw, kind, **sizes, tokens=tokens, seed=seed, alpha=alpha, sigma=sigma, noise=noise)
    if output == STDOUT:
        for row in table.loads.tolist():
            say.line(",".join(map(str, row)))
        return DONE
    for lost in write_loads(output, table, force=force):
        say.note(lost)
    say.note(f"loads: {output}, {table.source}")
    return DONE


def _unknown(kind: str, drifting: bool) -> Violation:
    """A word that is no generator, with what may be meant: what drifts, where an option is of that."""
    from difflib import get_close_matches

    from moeopt.workload import GENERATORS, HISTORIES

    known = tuple(HISTORIES) if drifting else (*GENERATORS, *HISTORIES)
    near = get_close_matches(kind.lower(), (*GENERATORS, *HISTORIES), 1, 0.7)
    meant = f"Did you mean {near[0]}? " if near else ""
    which = "Loads that drift are" if drifting else "Known are"
    return Violation("kind", "", kind or "''", "is not a generator", f"{meant}{which} {', '.join(known)}")


def _refuse(kind: str, drifts: bool, output: str, of_drifts: dict[str, object], of_others: dict[str, object]) -> None:
    """Options of the other kinds, and what a history needs."""
    strange = of_others if drifts else of_drifts
    found = [
        Violation(option, "", str(value), f"does not belong to {kind}", "Leave it out")
        for option, value in strange.items()
        if value is not None
    ]
    if drifts and of_drifts["--windows"] is None:
        found.append(Violation("--windows", "", "missing", f"must be given for {kind}", "Give the number of windows"))
    if drifts and output == "-":
        rule = "must be a file: windows have no CSV"
        found.append(Violation("--output", "", output, rule, "Give -o history.npz"))
    if found:
        raise InstanceError(found)


def _sizes(unknown: list[Violation], shape: str | None, given: dict[str, int | None]) -> dict[str, Any]:
    from moeopt.workload import SHAPES

    if shape is not None and shape not in SHAPES:
        rule = f"is not a known shape; known: {', '.join(SHAPES)}"
        fix = "Use one of these, or --layers --experts --top-k"
        raise InstanceError([*unknown, Violation("--shape", "", shape, rule, fix)])
    known = {} if shape is None else {name: getattr(SHAPES[shape], name) for name in given}
    sizes = {name: value if value is not None else known.get(name) for name, value in given.items()}
    missing = [
        Violation(f"--{name.replace('_', '-')}", "", "missing", "must be given", "Give it, or --shape")
        for name, value in sizes.items()
        if value is None
    ]
    if unknown or missing:
        raise InstanceError([*unknown, *missing])
    return {name: value for name, value in sizes.items() if value is not None}
