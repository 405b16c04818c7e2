"""The answer of ``moeopt mesh`` in words: what to run, what it serves, why not the others."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moeopt.cli.mesh_beside import beside
from moeopt.cli.say import Say, count
from moeopt.cli.tables import table
from moeopt.percent import percent
from moeopt.report.mesh_words import achieved, behind
from moeopt.report.mesh_words import per_second as rate

if TYPE_CHECKING:
    from moeopt.mesh import MeshInstance
    from moeopt.mesh.calibrated import Band
    from moeopt.result import Result

FAMILIAR = 100
"""Columns where there is no terminal."""
FEW, MANY = 3, 15
"""Runners-up of each demand and family that are listed, and with ``--verbose``."""
BINDS = {
    "kv": "memory for caches",
    "buffer": "transport buffers",
    "tpot": "the TPOT asked for",
    "ttft": "the TTFT asked for",
    "prefill": "prefill beside it, which has to keep up",
    "most": "the largest batch looked at (--most-batch)",
    "none": "nothing: a larger batch wins no throughput",
}
THAN = " than with "
"""What follows names the best in a reason why not; said once where it is the same in all."""
WAYS = {"colocated": "colocated", "pools": "prefill and decode pools", "apart": "attention and experts apart",
        "long": "cache split over tokens"}  # fmt: skip


def show(result: Result, instance: MeshInstance, band: Band | None, say: Say) -> None:
    """One answer first; then what it rests on, how to launch it, and the runners-up."""
    from moeopt.mesh.calibrated import UNCALIBRATED

    solution = result.solution
    assert solution is not None and result.objective is not None and result.lower_bound is not None
    if say.quiet:
        return
    say.show(_pools(solution))
    lines = [*_served(instance, solution, band or UNCALIBRATED), *_gpus(solution)]
    lines += [*_families(instance, solution), *beside(solution), *_simpler(result, instance)]
    lines += _bound(result, instance)
    wide = shutil.get_terminal_size((FAMILIAR, 24)).columns
    for name, text in lines:
        say.line(textwrap.fill(f"{name:<12} {text}", wide, subsequent_indent=" " * 13, break_on_hyphens=False))
    say.line("")
    if solution["ranking"]:
        say.show(_ranking(solution, MANY if say.verbose else FEW, instance.objective))
    refused = [row for row in solution["ranking"] if row["behind"] is None]
    if refused:
        say.line(_refused(refused))
    if instance.configs is None:
        _launch(solution, say)


def seconds(value: float | None) -> str:
    """A time per token or to the first one.

    >>> seconds(0.0349), seconds(1.636), seconds(None)
    ('34.9 ms', '1.64 s', '-')
    """
    if value is None:
        return "-"
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def _pools(solution: Mapping[str, Any]) -> Any:
    names = demand_names(solution)
    several = ["serves"] if len(names) > 1 else []
    rows = table("", "run", *several, "mesh", "GPUs", "batch", "TTFT", "TPOT", "requests/s", "memory a GPU")
    for place in range(1, 2 + len(several)):
        rows.columns[place].justify = "left"
    for pool in solution["pools"]:
        config = pool["config"]
        family = config["family"]
        gpus = ", ".join(f"{many:,} {name}" for name, many in pool["gpus"].items())
        serves = max(pool["prefill_per_s"], pool["decode_per_s"])
        held = config["memory"]
        used = ", ".join(f"{_used(one) / 1e9:.0f} of {one['usable'] / 1e9:.0f} GB" for one in held.values()) or "-"
        mesh = pool["label"].removeprefix(family).strip()
        more = [f"R{config['shape']['redundant']}"] if config["shape"].get("redundant") else []
        more += ["dual batch"] if config["overlap"] else []
        more += [f"draft {config['draft']}"] if config["draft"] else []
        chunk = f" ({config['chunk']:,} tokens)" if family == "prefill" and config["chunk"] else ""
        batch = f"{config['batch']:,}{chunk}"
        rows.add_row(
            f"{pool['replicas']:,} x {family}",
            *names[config["demand"] : config["demand"] + len(several)],
            ", ".join([mesh, *more]),
            gpus,
            batch,
            seconds(config["ttft_s"]),
            seconds(config["tpot_s"]),
            rate(serves),
            used,
        )
    return rows


def demand_names(solution: Mapping[str, Any]) -> list[str]:
    """The LLM of each demand; of several workloads of one LLM with their places.

    >>> demand_names({"demands": [{"llm": "a"}, {"llm": "b"}, {"llm": "a"}]})
    ['a (1)', 'b', 'a (3)']
    """
    names = [demand["llm"] for demand in solution["demands"]]
    return [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, 1)]


def _used(memory: Mapping[str, float]) -> float:
    return sum(memory[part] for part in ("weights", "experts", "redundant", "kv", "buffers", "reserve"))


def _served(instance: MeshInstance, solution: Mapping[str, Any], band: Band) -> list[tuple[str, str]]:
    from moeopt.mesh.families.queue import MOST_BUSY

    given, objective = instance.configs is not None, instance.objective
    found = []
    names = demand_names(solution)
    for named, demand in zip(names, solution["demands"], strict=True):
        name = f"{named}: " if len(names) > 1 else ""
        tokens = demand["output_tokens_per_s"]
        text = f"{name}{rate(demand['rate_per_s'])} requests/s, {rate(tokens)} output tokens/s"
        if demand["wanted_per_s"] is not None:
            text += f" ({rate(demand['wanted_per_s'])} requests/s wanted)"
        found.append(("serves", text))
        if not given:
            low, high = rate(tokens * band.low), rate(tokens * band.high)
            found.append(("band", f"{name}{low} to {high} output tokens/s: {band.source}"))
        levels = []
        for what, value, level in (
            ("TTFT", demand["ttft_s"], demand["ttft_slo_s"]),
            ("TPOT", demand["tpot_s"], demand["tpot_slo_s"]),
        ):
            if value is not None:
                levels.append(f"{what} {seconds(value)}" + (f" of {seconds(level)}" if level is not None else ""))
                if what == "TTFT" and level is None and not given and objective != "time":
                    levels[-1] += f" (none is asked for: prefill may be {percent(MOST_BUSY)} busy, and prompts wait)"
        if levels:
            found.append(("in the mean", name + "; ".join(levels)))
    for pool in () if given else solution["pools"]:
        if pool["decode_per_s"] > 0 and objective != "time":
            found.append(("batch", f"of {pool['label']} is limited by {BINDS[pool['config']['binds']]}"))
    if objective == "time" and not given:
        found.append(("batch", "one sequence: the objective is the shortest time of a token"))
    return found


def _gpus(solution: Mapping[str, Any]) -> list[tuple[str, str]]:
    used = ", ".join(f"{many:,} {name}" for name, many in solution["gpus"].items() if many)
    idle = ", ".join(f"{many:,} {name}" for name, many in solution["idle_gpus"].items())
    text = f"{used}; " + (f"idle: {idle}" if idle else "none idle")
    if solution["price"] is not None:
        text += f"; price {solution['price']:,.6g}"
    more = solution["sensitivity"].get("next_gpus")
    if more is not None:
        text += f"; the next number that serves more: {more:,}"
    return [("GPUs", text)]


def _families(instance: MeshInstance, solution: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How ways of serving compare, each at its best."""
    alone = solution["families"]["alone"]
    best = solution["families"]["best"]
    shown = []
    for way, found in alone.items():
        if found is None:
            shown.append(f"{WAYS[way]}: not possible")
        else:
            equal = found["objective"] <= best * (1 + 1e-9)
            shown.append(f"{WAYS[way]}: {'best' if equal else behind(instance, found['objective'], best)}")
    return [("ways", "; ".join(shown))] if len(shown) > 1 else []


def _bound(result: Result, instance: MeshInstance) -> list[tuple[str, str]]:
    assert result.objective is not None and result.lower_bound is not None
    sides = {"goodput": "serves more", "gpus": "takes fewer", "price": "costs less", "time": "takes less"}
    text = f"{achieved(instance, result.objective)}; time ran out before a bound was proved; {result.status}"
    if result.lower_bound:
        floor = achieved(instance, result.lower_bound).removeprefix("price ")
        kind = "certified" if result.bound_kind == "certified" else "a solver's claim"
        text = f"{achieved(instance, result.objective)}; no plan of these configurations {sides[instance.objective]} "
        text += f"than {floor} ({kind}); gap {percent(result.gap or 0.0)}; {result.status}"
    return [("bound", text), ("method", f"{result.method}, {result.runtime_s:.2f} s, stopped by {result.stop}")]


def _simpler(result: Result, instance: MeshInstance) -> list[tuple[str, str]]:
    """One configuration a phase, where the optimum mixes several."""
    assert result.solution is not None and result.objective is not None
    simple = result.solution["simplest"]
    kinds = [(pool["llm"], pool["config"]["family"]) for pool in result.solution["pools"]]
    if simple is None or len(set(kinds)) == len(kinds):
        return []
    pools = " + ".join(f"{many:,} x {label}" for label, many in simple["pools"])
    cost = behind(instance, simple["objective"], result.objective)
    return [("simpler", f"{pools}: {cost} (--method uniform)")]


def _launch(solution: Mapping[str, Any], say: Say) -> None:
    """Commands that launch each pool, the first engine that can, or with ``--verbose`` each."""
    say.line("")
    for pool in solution["pools"]:
        flags = pool["engines"]["flags"]
        if not flags:
            why = "; ".join(f"{engine}: {reason}" for engine, reason in pool["engines"]["why_not"].items())
            say.line(f"{pool['label']}: paper only" + (f" ({why})" if say.verbose and why else ""))
        for engine, line in list(flags.items())[: None if say.verbose else 1]:
            say.line(f"{pool['label']}, {engine}:\n  {line}")


def _ranking(solution: Mapping[str, Any], most: int, objective: str) -> Any:
    shown = _distinct(solution["ranking"], most)
    best = {row["why_not"].partition(THAN)[2] for row in shown} - {""}
    title = f"runners-up, by {'time a token' if objective == 'time' else 'what a request costs with them'}"
    once = len(best) == 1
    if once:
        title += f"; least with {best.pop()}"
    names = demand_names(solution)
    several = ["serves"] if len(names) > 1 else []
    rows = table(title, "mesh", *several, "GPUs", "batch", "TTFT", "TPOT",
                 "tokens/s a GPU", "why not")  # fmt: skip
    for column in rows.columns[1 : 1 + len(several)]:
        column.justify = "left"
    rows.columns[-1].justify = "left"
    rows.columns[-1].no_wrap = False
    for row in shown:
        gpus = ", ".join(f"{many:,} {name}" for name, many in row["gpus"].items())
        each = row["tokens_per_s_gpu"]
        rows.add_row(
            row["label"],
            *names[row["demand"] : row["demand"] + len(several)],
            gpus,
            f"{row['batch']:,}",
            seconds(row["ttft_s"]),
            seconds(row["tpot_s"]),
            "-" if each is None else rate(each),
            "bought" if row["bought"] else row["why_not"].partition(THAN)[0] if once else row["why_not"],
            style="bold green" if row["bought"] else None,
        )
    return rows


def _distinct(ranking: Sequence[Mapping[str, Any]], most: int) -> list[Mapping[str, Any]]:
    """Usable rows, each label once (the best of its redundant experts and formats), so many of a family; the bought."""
    many: Counter[tuple[int, str]] = Counter()
    seen: set[tuple[int, str]] = set()
    found = []
    for row in ranking:
        key = (row["demand"], row["label"])
        kind = (row["demand"], row["family"])
        if row["behind"] is not None and (row["bought"] or (key not in seen and many[kind] < most)):
            seen.add(key)
            many[kind] += 1
            found.append(row)
    return found


def _kind(reason: str) -> str:
    """The first of several reasons, without what differs from shape to shape.

    >>> _kind("tp = 24: 128 heads do not divide by 24; moe_tp = 3: no")
    'heads do not divide by TP'
    >>> _kind("moe_tp = 3: the 2,048 columns of an expert do not divide by 3")
    'columns of an expert do not divide by MoE-TP'
    >>> _kind("TTFT is 2100 ms for a prompt that never waits, above 2000 ms")
    'TTFT for a prompt that never waits'
    >>> _kind("does not fit: weights and buffers need 90 GB of 72 GB usable on a GPU")
    'weights and buffers do not fit'
    """
    first = reason.split("; ")[0]
    field, _, rest = first.partition(" = ")
    if field in ("ttft_s", "tpot_s"):
        return f"{field.removesuffix('_s').upper()} above its level"
    if not re.fullmatch("[a-z_]+", field):
        text = re.sub("^does not fit: (.*) need .*$", r"\1 do not fit", first)
        head = re.sub(r",? above .*$", "", re.sub(r" is [0-9.,]+ m?s\b", "", text))
        return re.split(r": [0-9]|: ep =", head)[0]
    said = re.sub(r"\b(the|of) (?=[0-9])|[0-9][0-9.,]* ?", "", rest.partition(": ")[2]).strip()
    degree = "MoE-TP" if field == "moe_tp" else field.upper()
    return f"{said} {degree}" if said.endswith(" by") else f"{said} ({degree})"


def _refused(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many configurations cannot be used, and the kinds of reasons by how often they come."""
    reasons = Counter(_kind(row["why_not"]) for row in rows)
    shown = "; ".join(f"{reason} ({many:,})" for reason, many in reasons.most_common(3))
    return f"{count(len(rows), 'configuration')} cannot be used: {shown}; --json -v has every reason"
