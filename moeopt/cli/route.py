"""Split tokens over the replicas of a plan or map as well as can be, and say what a better dispatch rule could win."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import ask
from moeopt.cli.options import Output
from moeopt.cli.pace import Seed, Threads, TimeLimit, time_s
from moeopt.cli.route_input import Hosts, read_given
from moeopt.cli.say import Say, complain
from moeopt.cli.verb import DONE, INFEASIBLE, NO_PLAN, verb
from moeopt.errors import InstanceError, Violation
from moeopt.limits import Limits

if TYPE_CHECKING:
    from moeopt.result import Result
    from moeopt.routing import RoutingInstance

EXAMPLE = """Example:

moeopt route plan.json tomorrow.csv

moeopt route map.json loads.csv --gpus 32 --nodes 4 --local

moeopt route plan.json loads.csv --integer -o routing.json

moeopt route plan.json loads.csv --method sglang_static --json"""

FEW_LAYERS = 8


@dataclass(frozen=True)
class Pace:
    """Limits of a solve."""

    time_limit: TimeLimit = None
    seed: Seed = 0
    threads: Threads = 1

    def limits(self) -> Limits:
        """Check and build the limits."""
        return Limits(time_s(self.time_limit), threads=self.threads)


@verb
def route(
    say: Say,
    plan: Annotated[
        str,
        typer.Argument(
            metavar="PLAN", help="A plan of place or collocate, an engine's own map, or a routing instance."
        ),
    ],
    hosts: Hosts,
    pace: Pace,
    output: Output,
    loads: Annotated[
        list[str] | None, typer.Argument(metavar="[LOADS]...", help="Loads to be routed; several are added up.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", help="auto (default), or one of those that moeopt info methods shows of routing."),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="At equal balance, keep tokens on their node; needs --nodes.")
    ] = False,
) -> int:
    """Split the tokens of every expert over its replicas so that the busiest GPU has as little to do as possible.

    The answer is exact and certified: no dispatch rule does better on these replicas. Only some engines split at run
    time; for the others it says what they could win over even parts, and over their own rule where the plan names it.
    """
    from moeopt.cli.solving import find_plugins, guarded_output, named
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.documents import write_file
    from moeopt.routing import PROBLEM

    limits = pace.limits()
    to_file = output.output if output.output != STDOUT else None
    if to_file is not None:
        check_target(to_file, (".json",), output.force, what="a routing")
    if local and method is not None:
        rule = "is a method of its own"
        raise InstanceError([Violation("--local", "", "given", rule, "Leave out --method, or --local")])
    given = read_given(plan, loads or [], hosts, say)
    instance = given.instance
    if local and len(set(instance.node)) == 1:
        rule = "needs several nodes"
        raise InstanceError([Violation("--local", "", "given", rule, "Give --nodes N, or the node of each GPU")])
    chosen = method or ("local_first" if local else "integer" if instance.whole else "newton")
    find_plugins([chosen])
    ours = named(PROBLEM, chosen, say.verbose)
    with say.progress(instance.name or "layers") as listener, guarded_output([chosen]), ours:
        result = ask(PROBLEM.solve, instance, method=chosen, limits=limits, seed=pace.seed, on_progress=listener)
    if to_file is not None:
        write_file(to_file, result.to_json() + "\n", force=output.force)
    if output.json or output.output == STDOUT:
        say.document(result.to_dict())
    elif result.solution is not None:
        _show(instance, result, given.rule, say)
    for note in result.notes:
        say.note(note)
    if result.stop == "INTERRUPTED":
        say.note("interrupted: this is the best so far")
    if to_file is not None:
        say.note(f"written: {to_file}")
    for conflict in result.conflicts:
        complain(f"{instance.name or plan}: infeasible: {conflict['message']}")
    if result.status == "INFEASIBLE":
        return INFEASIBLE
    return NO_PLAN if result.status == "UNKNOWN" else DONE


def _show(instance: RoutingInstance, result: Result, rule: str | None, say: Say) -> None:
    """Layers where they are few, the figures, and the busiest cut in words."""
    from moeopt.cli.tables import duration, percent, table
    from moeopt.percent import tokens

    assert result.solution is not None and result.objective is not None and result.lower_bound is not None
    solution = result.solution
    layers = solution["layers"]
    if say.verbose or len(layers) <= FEW_LAYERS:
        rows = table("", "layer", "max load", "imbalance", "lower bound", "even split", "above", "cut")
        for layer in layers:
            above = layer["even_max_load"] / layer["lower_bound"] - 1 if layer["lower_bound"] else 0.0
            rows.add_row(
                str(layer["layer"]),
                tokens(layer["max_load"]),
                f"{layer['imbalance']:.4f}",
                tokens(layer["lower_bound"]),
                tokens(layer["even_max_load"]),
                percent(max(above, 0.0)),
                _some(layer["cut"]["gpus"]),
            )
        say.show(rows)
    worst = max(layers, key=lambda layer: layer["imbalance"])
    lines = [
        ("method", result.method),
        ("objective", f"{tokens(result.objective)} tokens, sum over layers of the busiest GPU"),
        (
            "imbalance",
            f"mean {solution['imbalance_mean']:.4f}, worst {worst['imbalance']:.4f} (layer {worst['layer']})",
        ),
        ("lower bound", f"{tokens(result.lower_bound)} tokens, {result.bound_kind}: no dispatch rule gets below it"),
        ("even split", _against(solution["even_objective"], result.lower_bound)),
        *_own_rule(instance, rule, result.lower_bound),
        ("busiest cut", _cut(instance, worst)),
        *_locality(instance, result),
        ("status", f"{result.status}, stopped by {result.stop}"),
        ("time", duration(result.runtime_s)),
    ]
    say.show("\n".join(f"{name:<12} {text}" for name, text in lines))


def _against(value: float, bound: float) -> str:
    """A rule's cost, and what the best of all could win over it."""
    from moeopt.cli.tables import percent
    from moeopt.percent import tokens

    if value <= bound * (1 + 1e-9):
        return f"{tokens(value)} tokens: no dispatch rule is better"
    return f"{tokens(value)} tokens; a better dispatch rule could win {percent(1 - bound / value)} of it, none more"


def _own_rule(instance: RoutingInstance, rule: str | None, bound: float) -> list[tuple[str, str]]:
    """The same for the rule that the plan names."""
    from moeopt.errors import NotApplicable
    from moeopt.routing import METHODS, PROBLEM

    name = (rule or "").replace("-", "_")
    if name == "random":
        return [("rule", "random: as even parts in expectation")]
    if name not in METHODS:
        return []
    try:
        value = PROBLEM.solve(instance, method=name).objective
    except NotApplicable:
        return []
    return [("rule", f"{rule}: {_against(value or 0.0, bound)}")]


def _cut(instance: RoutingInstance, layer: dict[str, Any]) -> str:
    """Why the busiest layer cannot be better, in words."""
    from moeopt.percent import tokens
    from moeopt.routing.bounds import confined

    gpus, row = layer["cut"]["gpus"], instance.layers.index(layer["layer"])
    amount, experts = confined(instance, row, gpus)
    if len(gpus) == 1:
        who = f"GPU {gpus[0]} has"
    elif len(gpus) == instance.num_gpus:
        who = f"all {len(gpus)} GPUs have"
    else:
        who = f"GPUs {_some(gpus)} have"
    each = "" if len(gpus) == 1 else ", which is balanced among them"
    what = "1 expert that lies" if experts == 1 else f"{experts} experts that lie"
    return f"layer {layer['layer']}: {who} {tokens(float(amount))} tokens of {what} nowhere else{each}"


def _some(gpus: list[int]) -> str:
    """GPU ids, shortened where they are many."""
    from moeopt.cli.say import ranges

    text = ranges(gpus)
    return text if len(text) <= 40 else f"{text[:40].rpartition(',')[0]}, ... ({len(gpus)})"


def _locality(instance: RoutingInstance, result: Result) -> list[tuple[str, str]]:
    """How many tokens stay on their node."""
    from moeopt.cli.tables import percent
    from moeopt.percent import tokens

    assert result.solution is not None
    if "local_share" not in result.solution:
        return []
    crossing = sum(layer["crossing_tokens"] for layer in result.solution["layers"])
    where = "" if instance.sources is not None else " (tokens that come evenly from all GPUs)"
    share = percent(result.solution["local_share"])
    return [("locality", f"{share} of tokens can stay on their node, {tokens(crossing)} leave it{where}")]
