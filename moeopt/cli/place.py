"""Place experts on GPUs: how many copies of each, and the GPU of each, with a proven bound."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import After
from moeopt.cli.deciding import Deciding, decided, move_lines, not_worth_it, show_frontier
from moeopt.cli.failures import repair_lines, show_repair
from moeopt.cli.options import Gate, Output, Shape, Solving
from moeopt.cli.say import Say, complain
from moeopt.cli.slots_curve import Curve
from moeopt.cli.slots_curve import check as check_curve
from moeopt.cli.slots_curve import run as run_curve
from moeopt.cli.spread import Spread
from moeopt.cli.verb import DONE, GATE, INFEASIBLE, NO_PLAN, verb

if TYPE_CHECKING:
    from moeopt.placement import PlacementInstance
    from moeopt.result import Result

EXAMPLE = """Example:

moeopt place loads.csv --gpus 16 --slots 80 -o plan.json

moeopt place loads.csv --gpus 16 --slots 80 --method eplb --json

moeopt place loads.csv --gpus 16 --slots 80 --current plan.json --lost 5,9 -o repaired.json

moeopt place loads.csv --gpus 32 --slots-curve --expert-bytes 42MiB -o curve.svg

moeopt place monday.csv tuesday.csv --gpus 16 --slots 80 --combine worst

moeopt place new.csv --gpus 16 --slots 80 --current plan.json --max-moves 64 -o next.json"""

FEW_LAYERS = 8


@verb
def place(
    say: Say,
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT...", help="Loads, FILE.npz:KEY, or an instance; - is stdin. Several loads are windows."
        ),
    ],
    shape: Shape,
    solving: Solving,
    output: Output,
    gate: Gate,
    curve: Curve,
    deciding: Deciding,
    spread: Spread,
    method: Annotated[
        str, typer.Option("--method", help="See moeopt info methods; or package.module:function.")
    ] = "auto",
    per_step: Annotated[
        str | None,
        typer.Option(
            "--per-step", metavar="FILE", help="Single passes (passes x layers x experts) to measure the plan on."
        ),
    ] = None,
) -> int:
    """Place the experts of every layer so that the busiest GPU has as little to do as possible.

    Ctrl-C ends the search and keeps the best plan so far. auto and search stop a layer at a proven gap of 0.1 % (--gap)
    or after 2000 rounds or 3 million slots looked at (--iterations), whichever comes first.

    With --executor layers are planned beside each other, with the same answer; --time-limit is of each layer then.
    """
    from moeopt.cli.costs import cost_lines
    from moeopt.cli.inputs import name_of, sources
    from moeopt.cli.solving import solve, worse_than_rival
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.cli.windows import read_inputs, read_passes
    from moeopt.documents import write_file
    from moeopt.placement.per_step import measured

    check_curve(curve, shape, output)
    deciding.arguments()
    solving.limits()  # a slip in an option is said before any work
    executor = spread.made()
    inputs = sources(inputs, say)
    if curve.slots_curve:
        return run_curve(inputs, shape, curve, method, solving, output, say)
    to_stdout = output.json or output.output == STDOUT
    to_file = output.output if output.output != STDOUT else None
    if to_file is not None:
        check_target(to_file, (".json",), output.force, what="a plan", advice="moeopt compare writes reports")
    instance = read_inputs(inputs, shape, say)
    kept = say.kept()
    deciding.check(instance)
    if instance.current is None and (instance.lost or instance.retire):
        gone = ", ".join(map(str, sorted({*instance.lost, *instance.retire})))
        say.note(f"out, with nothing placed there: GPUs {gone}; with --current a running plan is repaired")
    passes = None if per_step is None else (read_passes(per_step, instance), name_of(per_step))
    after = After(kept, decide=deciding.arguments(), passes=passes)
    result = decided(solve(instance, method, solving, say, after, executor), deciding)
    if kept:
        result = replace(result, notes=(*kept, *result.notes))
    if passes is not None:
        result = measured(instance, result, *passes)
    if to_file is not None:
        write_file(to_file, result.to_json() + "\n", force=output.force)
    if to_stdout:
        say.document(result.to_dict())
    elif result.solution is not None:
        _show(instance, result, say)
        for line in cost_lines(instance, result):
            say.show(line)
        if "repair" in result.solution:
            where = "-v shows them, -o FILE and --json keep them" if to_file is None else f"all are in {to_file}"
            show_repair(result.solution["repair"], say, where)
    for note in result.notes:
        say.note(note)
    if result.stop == "INTERRUPTED":
        say.note("interrupted: this is the best plan so far")
    if to_file is not None:
        say.note(f"plan: {to_file}")
    elif not to_stdout and result.solution is not None:
        say.note("the plan was not written: -o plan.json writes it to a file, --json prints it")
    who = instance.name or ("the instance" if inputs == ["-"] else ", ".join(inputs))
    for conflict in result.conflicts:
        complain(f"{who}: infeasible: {conflict['message']}")
    if result.status == "INFEASIBLE":
        return INFEASIBLE
    if result.status == "UNKNOWN":
        complain(f"{who}: the {result.stop} limit was hit before there was a plan")
        return NO_PLAN
    if not gate.fail_if_worse:
        return DONE
    if not_worth_it(result):
        say.note("not worth it: keep the running plan")
        return GATE
    return GATE if worse_than_rival(instance, result, say) else DONE


def _show(instance: PlacementInstance, result: Result, say: Say) -> None:
    from moeopt.cli.tables import amount, duration, figures, percent, table, tokens
    from moeopt.result import CERTIFIED_TOLERANCE, SOLVER_TOLERANCE

    assert result.solution is not None and result.lower_bound is not None
    layers = result.solution["layers"]
    if say.verbose or len(layers) <= FEW_LAYERS:
        windows = result.unit != "tokens"  # the load is a ratio then, and shown once
        heads = ("layer", "imbalance", *(() if windows else ("max load",)), "lower bound", "gap", "replicas max")
        rows = table("", *heads)
        for layer in layers:
            rows.add_row(
                str(layer["layer"]),
                f"{layer['imbalance']:.4f}",
                *(() if windows else (tokens(layer["max_load"]),)),
                f"{layer['lower_bound']:.4f}" if windows else tokens(layer["lower_bound"]),
                percent(layer["gap"]),
                str(max(layer["replicas"])),
            )
        say.show(rows)
    if say.verbose:
        show_frontier(result, say)
    found = figures(result)
    tolerance = CERTIFIED_TOLERANCE if result.bound_kind == "certified" else SOLVER_TOLERANCE
    proved = sum(layer["gap"] <= tolerance for layer in layers)
    near = sum(layer["gap"] <= 0.001 for layer in layers)
    lines = (
        ("method", result.method),
        *(repair_lines(result.solution["repair"]) if "repair" in result.solution else ()),
        ("objective", amount(result, found["objective"], ", sum over layers of the busiest GPU")),
        (
            "imbalance",
            f"mean {found['imbalance_mean']:.4f}, worst {found['imbalance_worst']:.4f} (layer {found['worst_layer']})",
        ),
        *move_lines(instance, result),
        ("lower bound", f"{amount(result, result.lower_bound)}, {result.bound_kind}"),
        (
            "gap",
            f"of the sum {percent(result.gap)}; of layers: mean {percent(found['gap_mean'])}, "
            f"worst {percent(found['gap_worst'])}",
        ),
        ("status", f"{result.status}, stopped by {result.stop}"),
        ("layers", f"{len(layers):,}: {proved} proved optimal, {near} within 0.1 % of the bound"),
        ("time", f"{duration(result.runtime_s)}"),
    )
    place = [name for name, _ in lines].index("imbalance") + 1
    shown = [*lines[:place], *_beside_even(result.solution), *lines[place:]]
    say.show("\n".join(f"{name:<12} {text}" for name, text in shown))


def _beside_even(solution: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """One line where an engine's rule shares the tokens: the value of even parts beside it, and where it costs most."""
    even = solution.get("imbalance_even_mean")
    if even is None:
        return ()
    from moeopt.percent import percent

    layers = solution["layers"]
    if solution["split"] == "random":
        sigma = max(layer["draw_deviation"] / layer["max_load"] if layer["max_load"] else 0.0 for layer in layers)
        return (
            (
                "rule",
                f"random: expected as with even parts; one sigma of a draw is at most {percent(sigma)} of a layer",
            ),
        )
    ratios = [layer["max_load"] / layer["max_load_even"] if layer["max_load_even"] else 1.0 for layer in layers]
    dearer = sum(ratio > 1.01 for ratio in ratios)
    worst = max(range(len(layers)), key=ratios.__getitem__)
    where = f"; {dearer} of {len(layers)} layers lose more than 1 %" if dearer else ""
    if dearer:
        where += f", layer {layers[worst]['layer']} most: {percent(ratios[worst] - 1)}"
    text = f"{solution['split']} mean {solution['imbalance_mean']:.4f}, with even parts {even:.4f}{where}"
    return (("rule", text),)
