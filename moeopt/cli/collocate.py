"""Collocate experts: which share a GPU or a node, from a routing trace and a link graph, with a proven bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.ask import ask
from moeopt.cli.collocate_options import Pace, PlanRules, Where
from moeopt.cli.options import Output
from moeopt.cli.say import Say, complain, few
from moeopt.cli.verb import DONE, INFEASIBLE, NO_PLAN, verb
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.result import Result

EXAMPLE = """Example:

moeopt collocate trace.npz --cluster 4x8-h100 --transport deepep-normal -o plan.json

moeopt collocate trace.jsonl --nodes 2 --gpus 16 --max-imbalance 1.1 --json

moeopt collocate trace.npz --cluster topo.txt --transport nvl-domain --step 80ms

moeopt collocate trace.npz --cluster node0.xml,node1.xml --source ranks.csv

moeopt collocate pairs.npy --pairs --nodes 4 --gpus 32

moeopt convert plan.json --to sglang --hf-config config.json -o map.json"""

FEW_LAYERS = 8
PAIRS_APART = "pairs apart"
ENDINGS = (".json", ".svg", ".png")


@verb
def collocate(
    say: Say,
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE",
            help="A routing trace: .npz with topk_ids (layers, tokens, k) and layers, the id of each, or .jsonl; "
            "pairs, or an instance.",
        ),
    ],
    where: Where,
    rules: PlanRules,
    pace: Pace,
    output: Output,
    experts: Annotated[int | None, typer.Option("--experts", min=1, help="E, where the trace does not say it.")] = None,
    current: Annotated[
        str | None, typer.Option("--current", metavar="FILE", help="The plan or map that runs, to compare with.")
    ] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Also every cut, every link's load, and what free routes would make of it."),
    ] = False,
    method: Annotated[
        str, typer.Option("--method", help="See moeopt info methods; or package.module:function.")
    ] = "auto",
) -> int:
    """Which experts share a GPU or a node, so that least travels: counted token by token, copies merged as sent.

    The plan is made for the first tokens of the trace and scored on the others (--held-out). -o writes the plan (.json,
    which convert reads) or draws link loads and the traffic between nodes before and after (.svg, .png).
    """
    from moeopt.cli.collocate_input import read_instance
    from moeopt.cli.interrupts import stopping
    from moeopt.cli.solving import find_plugins, guarded_output, named
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.collocation import PROBLEM
    from moeopt.documents import write_file

    check = Violations()
    limits, instance = None, None
    with check.within():
        limits = pace.limits()
    to_file = output.output if output.output != STDOUT else None
    if to_file is not None:
        with check.within():
            check_target(to_file, ENDINGS, output.force, what="a plan or a picture")
    with check.within():
        given = [
            *where.given(),
            *rules.given(),
            *(["--experts"] if experts else []),
            *(["--current"] if current else []),
        ]
        instance = read_instance(trace, where, rules.arguments(), experts=experts, current=current, given=given)
    check.raise_if_any()
    assert instance is not None and limits is not None
    find_plugins([method])
    _say_if_compiling(method, limits.time_s is not None, say)
    ours = named(PROBLEM, method, say.verbose)
    with (
        say.progress(f"{instance.name}: {method}") as listener,
        guarded_output([method]),
        ours,
        stopping(limits) as until,
    ):
        result = ask(PROBLEM.solve, instance, method=method, limits=until, seed=pace.seed, on_progress=listener)
    if result.stop == "INTERRUPTED":
        say.note("interrupted: this is the best plan so far")
    if to_file is not None and to_file.lower().endswith(".json"):
        write_file(to_file, result.to_json() + "\n", force=output.force)
    elif to_file is not None and result.plan is not None:
        from moeopt.report.plots.collocation import draw

        draw(instance, result, to_file)
    if output.json or output.output == STDOUT:
        document = result.to_dict()
        if explain and result.plan is not None:
            from moeopt.collocation import explain as explained

            document["explain"] = explained(instance, result.plan)
        say.document(document)
    elif result.solution is not None:
        _show(result, say)
        if explain:
            from moeopt.cli.collocate_explain import show_explained

            show_explained(instance, result.plan, say)
    from moeopt.cli.spoken import spoken

    advised = (result.solution or {}).get("advice", {})
    for note in (*result.notes, *([advised["balance"]] if "balance" in advised else [])):
        say.note(spoken(note))
    if to_file is not None and (result.plan is not None or to_file.lower().endswith(".json")):
        say.note(f"written: {to_file}")
    for conflict in result.conflicts:
        complain(f"{trace}: infeasible: {conflict['message']}")
    if result.status == "INFEASIBLE":
        return INFEASIBLE
    if result.status == "UNKNOWN":
        complain(f"{trace}: no plan was found ({result.stop})")
        return NO_PLAN
    return DONE


def _say_if_compiling(method: str, limited: bool, say: Say) -> None:
    """The first search on a machine compiles for half a minute, which looks like a hang."""
    from moeopt.kernels import connectivity, replicas
    from moeopt.kernels._jit import has_numba

    kernels = (connectivity.improve, connectivity.grow, replicas.replicate)
    missing = has_numba() and not all(kernel.ready() or kernel.on_disk() for kernel in kernels)
    if missing and not limited and method in ("auto", "search", "exact"):
        say.note("compiling the search, once on this machine: half a minute or more; moeopt warmup does it beforehand")


def _show(result: Result, say: Say) -> None:
    from moeopt.cli.spoken import spoken
    from moeopt.cli.tables import duration, percent, table

    assert result.solution is not None and result.objective is not None and result.lower_bound is not None
    found = result.solution
    scored = found["lambda_held_out"] is not None
    merged = found["lambda_lower_bound"] is not None
    row_of = "pair" if result.unit == PAIRS_APART else "token"
    if say.verbose or len(found["layers"]) <= FEW_LAYERS:
        heads = ["layer", *(["lambda"] if merged else []), *(["held out"] if merged and scored else [])]
        heads += [*(["bound"] if merged else []), f"copies a {row_of}", "imbalance", "gap"]
        rows = table("", *heads)
        for layer in found["layers"]:
            cells = [str(layer["layer"])]
            if merged:
                cells.append(f"{layer['lambda']:.3f}")
                cells += [f"{layer['lambda_held_out']:.3f}"] if scored else []
                cells.append(f"{layer['lambda_lower_bound']:.3f}")
            cells += [f"{layer['copies_per_token']:.3f}", f"{layer['imbalance']:.3f}", percent(layer["gap"])]
            rows.add_row(*cells)
        say.show(rows)

    def amount(value: float) -> str:
        return duration(value) if result.unit == "s" else f"{value:,.0f} {result.unit}"

    lines = [("method", result.method), ("objective", f"{amount(result.objective)}, {_objective(found, result.unit)}")]
    if merged:
        held = f", {found['lambda_held_out']:.3f} on tokens held out" if scored else ""
        lines.append(
            ("lambda", f"{found['lambda']:.3f} units a {row_of}{held}; proved >= {found['lambda_lower_bound']:.3f}")
        )
    lines.append(("imbalance", _imbalance(found)))
    lines.append(
        ("lower bound", f"{amount(result.lower_bound)}, {result.bound_kind}; gap {percent(result.gap or 0.0)}")
    )
    if "critical_path" in found:
        path = found["critical_path"]
        text = f"{duration(path['no_overlap_s'])}, or {duration(path['overlap_s'])} where the stages overlap"
        lines.append(("on the path", text))
        worst = found["links"]["rows"][0] if found["links"]["rows"] else None
        if worst is not None:
            lines.append(("busiest link", f"{worst['link']} ({worst['kind']}), layer {found['links']['layer']}"))
        cut = found["weakest_cut"]
        if cut["seconds"]:
            text = f"unit {cut['unit']}: {cut['bytes'] / 1e6:,.1f} MB over {cut['bytes_per_s'] / 1e9:,.0f} GB/s"
            lines.append(("weakest cut", f"{text}, {duration(cut['seconds'])} on the way out"))
    if "free_routes" in found:
        from moeopt.cli.collocate_explain import route_lines

        lines += route_lines(found["free_routes"])
        lines.append(("damage", "; ".join(few(found["free_routes"]["damage"], say.verbose))))
    if "before" in found["advice"]:
        lines.append(("before", _before(found["advice"], amount, merged)))
    lines.append(("advice", f"{found['advice']['action']}: {spoken(found['advice']['reason'])}"))
    lines.append(("status", f"{result.status}, stopped by {result.stop}"))
    lines.append(("time", duration(result.runtime_s)))
    say.show("\n".join(f"{name:<12} {text}" for name, text in lines))
    if say.verbose and "links" in found:
        rows = table("busiest links on the way out", "link", "kind", "MB", "time")
        for link in found["links"]["rows"]:
            rows.add_row(link["link"], link["kind"], f"{link['bytes'] / 1e6:,.2f}", duration(link["seconds"]))
        say.show(rows)


def _imbalance(found: Mapping[str, Any]) -> str:
    """Tokens of the busiest GPU over the mean, planned for and held out, each of its worst layer."""
    held = [layer["imbalance_held_out"] for layer in found["layers"] if layer.get("imbalance_held_out") is not None]
    text = f"{found['imbalance']:.3f}, the busiest GPU over the mean, worst layer"
    return f"{text}; {max(held):.3f} on tokens held out" if held else text


def _before(advice: Mapping[str, Any], amount: Callable[[float], str], merged: bool) -> str:
    """The same figures of what the plan is held against."""
    touched = f", lambda {advice['lambda_before']:.3f}" if merged else ""
    held = advice.get("imbalance_held_out_before")
    later = "" if held is None else f" ({held:.3f} held out)"
    text = f"{amount(advice['before'])}{touched}, imbalance {advice['imbalance_before']:.3f}{later}"
    return f"{text}: {advice['against']}"


def _objective(found: Mapping[str, Any], unit: str) -> str:
    if unit == PAIRS_APART:
        return "an approximation of the copies of tokens, summed over layers"
    return {
        "time": "the busiest link, dispatch and combine, summed over layers",
        "copies": "to units besides a token's own, summed over layers",
        "tokens": "of the busiest GPU, summed over layers",
    }[found["objective"]]
