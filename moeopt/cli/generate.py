"""Generate loads by name and seed."""

from __future__ import annotations

from typing import Annotated

import typer

from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import InstanceError, Violation

EXAMPLE = """Example:

moeopt generate zipf --layers 4 --experts 64 --top-k 6 --tokens 10000 -o loads.csv

moeopt generate lognormal --shape dsv3_288_g32 --tokens 100000 --seed 1 -o loads.npz"""


@verb
def generate(
    say: Say,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="See moeopt info generators.")],
    layers: Annotated[int | None, typer.Option("--layers", help="L, number of layers.")] = None,
    experts: Annotated[int | None, typer.Option("--experts", help="E, experts in each layer.")] = None,
    top_k: Annotated[int | None, typer.Option("--top-k", help="Experts a token selects.")] = None,
    shape: Annotated[
        str | None, typer.Option("--shape", help="Layers, experts and top-k of a deployment, see moeopt info shapes.")
    ] = None,
    tokens: Annotated[int, typer.Option("--tokens", help="Tokens that are routed.")] = 100_000,
    seed: Annotated[int, typer.Option("--seed", help="Equal seeds give equal loads.")] = 0,
    alpha: Annotated[float | None, typer.Option("--alpha", help="Exponent of zipf.")] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Spread of lognormal and topic.")] = None,
    noise: Annotated[str | None, typer.Option("--noise", help="poisson: redraw every count around its value.")] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="A .csv, .json, .npz or .npy file; - prints CSV.")
    ] = "-",
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Draw loads from a named distribution; equal arguments give equal files."""
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.workload import generate as draw
    from moeopt.workload import write_loads
    from moeopt.workload.readers import ENDINGS

    if output != STDOUT:
        check_target(output, ENDINGS, force, what="loads")
    sizes = _sizes(kind, shape, {"layers": layers, "experts": experts, "top_k": top_k})
    table = draw(kind, **sizes, tokens=tokens, seed=seed, alpha=alpha, sigma=sigma, noise=noise)
    if output == STDOUT:
        for row in table.loads.tolist():
            say.line(",".join(map(str, row)))
        return DONE
    for lost in write_loads(output, table, force=force):
        say.note(lost)
    say.note(f"loads: {output}, {table.source}")
    return DONE


def _sizes(kind: str, shape: str | None, given: dict[str, int | None]) -> dict[str, int]:
    from moeopt.workload import GENERATORS, SHAPES

    if shape is not None and shape not in SHAPES:
        rule = f"is not a known shape; known: {', '.join(SHAPES)}"
        raise InstanceError([Violation("--shape", "", shape, rule, "Use one of these, or --layers --experts --top-k")])
    known = {} if shape is None else {name: getattr(SHAPES[shape], name) for name in given}
    sizes = {name: value if value is not None else known.get(name) for name, value in given.items()}
    unknown = []
    if kind not in GENERATORS:
        unknown = [Violation("kind", "", kind, "is not a generator", f"Known are {', '.join(GENERATORS)}")]
    missing = [
        Violation(f"--{name.replace('_', '-')}", "", "missing", "must be given", "Give it, or --shape")
        for name, value in sizes.items()
        if value is None
    ]
    if unknown or missing:
        raise InstanceError([*unknown, *missing])
    return {name: value for name, value in sizes.items() if value is not None}
