"""What `check` says beside the shape: prices of slots in memory, an LLM's sizes, and what engines take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.cli.llms import show_facts
from moeopt.cli.say import Say, count
from moeopt.cli.verb import BAD_USAGE, DONE, INFEASIBLE
from moeopt.errors import Violation, Violations

if TYPE_CHECKING:
    from moeopt.llm import LlmFacts


def of_llm(
    llm: LlmFacts,
    experts: int | None,
    layers: int | None,
    each: float | None,
    dtype: str | None,
    shaped: bool,
    priced: bool,
    check: Violations,
) -> tuple[int | None, int | None, float | None]:
    """Experts, layers and bytes of an expert as the LLM has them; what is given must not contradict."""
    from moeopt.llm import expert_bytes

    if llm.dense and not (shaped or priced or dtype):
        return None, None, None
    llm.need_experts("a shape of experts")
    for option, given, own in (("--experts", experts, llm.experts), ("--layers", layers, len(llm.moe_layers))):
        if given is not None and own is not None and given != own:
            check.add(option, given, rule=f"contradicts {llm.name}, which has {own}", fix=f"Leave out {option}")
    if each is None and (dtype is not None or priced or llm.expert_format is not None):
        with check.within():
            each = expert_bytes(llm, dtype)
    if shaped and experts is None and llm.experts is None:
        with check.within():
            llm.need("experts", why="for a shape")
    return experts or llm.experts, layers or len(llm.moe_layers), each


def only_llm(about: dict[str, Any] | None, each: float | None, layers: int | None, json: bool, say: Say) -> int:
    """An LLM without a shape: its facts, and the price of a slot."""
    assert about is not None
    slot = None if each is None or layers is None else each * layers
    if json:
        say.document({"llm": about, "slot_bytes": slot})
        return DONE
    show_facts(about, say)
    if slot is not None and layers is not None:
        say.show(slot_price(slot, layers, about))
    return DONE


def engines_said(
    experts: int, slots: int, gpus: int, nodes: int, groups: int | None, llm: LlmFacts | None
) -> list[dict[str, Any]]:
    """What the load balancer of every engine says of this shape."""
    from moeopt.engines.limits import Shape, verdicts

    groups = llm.groups if groups is None and llm is not None else groups
    shape = Shape(experts, slots, gpus, nodes, groups, None if llm is None else llm.family)
    return [
        {"engine": one.engine, "ok": one.ok, "faults": list(one.faults), "notes": list(one.notes)}
        for one in verdicts(shape)
    ]


def show_engines(engines: list[dict[str, Any]], say: Say) -> None:
    from moeopt.cli.tables import table

    made = table("", "engine", "starts", "what to know")
    made.columns[1].justify = made.columns[2].justify = "left"
    for one in engines:
        first, *rest = [*one["faults"], *one["notes"]] or ["-"]
        made.add_row(one["engine"], "yes" if one["ok"] else "no", first)
        for more in rest:
            made.add_row("", "", more)
    say.show(made)


def fits(slot_bytes: float, memory: float, slots: int, gpus: int) -> dict[str, Any]:
    """How many slots the memory of a GPU holds, against the most that one has."""
    most = int(memory // slot_bytes) if slot_bytes else slots
    on_a_gpu = -(-slots // gpus)
    return {"slots_that_fit": most, "most_on_a_gpu": on_a_gpu, "gpu_memory_bytes": memory, "fits": on_a_gpu <= most}


def too_little(facts: dict[str, Any], experts: int, gpus: int, budget: str) -> tuple[str, int]:
    """What the memory cannot hold, and the exit code: 3 where no number of slots would help."""
    most = facts["slots_that_fit"]
    if most * gpus < experts:
        holds = f"{in_bytes(facts['gpu_memory_bytes'])} a GPU holds {count(most, 'slot')}"
        return f"infeasible: {holds}, {most * gpus:,} in all, fewer than {count(experts, 'expert')}", INFEASIBLE
    rule = f"{count(facts['most_on_a_gpu'], 'slot')} of {in_bytes(facts['slot_bytes'])} each: too much for a GPU"
    fix = f"At most {count(most, 'slot')} a GPU, {most * gpus:,} in all"
    return str(Violation("--memory-budget", "", budget, rule, fix)), BAD_USAGE


def slot_price(slot_bytes: float, layers: int, about: dict[str, Any] | None) -> str:
    """The price of a slot, with the format it was computed in."""
    said = f"a slot costs {in_bytes(slot_bytes)} on its GPU over {count(layers, 'layer')}"
    if about is not None and about["expert_bytes"] is not None and slot_bytes == about["expert_bytes"] * layers:
        said += f" ({in_bytes(about['expert_bytes'])} an expert in {about['expert_format']})"
    if about is not None and about["mtp_layers"]:
        said += ", MTP layers not counted"
    return said


def in_bytes(count: float) -> str:
    """Both families of units, as they differ by 7 % at a billion.

    >>> in_bytes(2.38 * 2**30)
    '2.56 GB (2.38 GiB)'
    """
    for decimal, binary, power in (("TB", "TiB", 4), ("GB", "GiB", 3), ("MB", "MiB", 2), ("kB", "KiB", 1)):
        if count >= 1000**power:
            return f"{count / 1000**power:.2f} {decimal} ({count / 1024**power:.2f} {binary})"
    return f"{count:g} B"
