"""Times of the command line that nobody measured: rooflines of an LLM on a GPU, and messages over its port."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.llms import WhichLlm
from moeopt.cli.stage_times import RATES
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.cli.modelled_rest import Dense, Room
    from moeopt.cost import Link, Machine
    from moeopt.llm import LlmFacts

MODEL = "Times from a model instead of measured ones"
FORMATS = ("bf16", "fp8")
APART, TOGETHER = ("ping-pong", "shared-link"), ("dual",)
"""Patterns with attention and experts on GPUs of their own, and with both on the same ones."""
DIGITS = 12
"""Decimals of modelled seconds: no model knows picoseconds, and short numbers are added up faster."""

Times = dict[str, Callable[[int], float]]


@dataclass(frozen=True)
class Model:
    """Functions of the tokens of a micro-batch by stage, the LLM, and what they rest on."""

    times: Times
    facts: LlmFacts
    note: str
    dense: Dense | None


@dataclass(frozen=True)
class Modelled(WhichLlm):
    """An LLM, GPUs, and how they are put together."""

    gpu: Annotated[
        str | None, typer.Option("--gpu", metavar="NAME", help="GPU (moeopt info gpus).", rich_help_panel=MODEL)
    ] = None
    expert_gpu: Annotated[
        str | None,
        typer.Option("--expert-gpu", metavar="NAME", help="That of experts, where another.", rich_help_panel=MODEL),
    ] = None
    context: Annotated[
        int | None, typer.Option("--context", help="Tokens of context of a sequence.", rich_help_panel=MODEL)
    ] = None
    attention_nodes: Annotated[
        int | None,
        typer.Option("--attention-nodes", help="Attention nodes (1), one expert a node.", rich_help_panel=MODEL),
    ] = None
    tp_a: Annotated[
        int | None, typer.Option("--tp-a", help="GPUs of an attention node (1).", rich_help_panel=MODEL)
    ] = None
    tp_e: Annotated[int | None, typer.Option("--tp-e", help="GPUs of an expert node (1).", rich_help_panel=MODEL)] = (
        None
    )
    ep: Annotated[
        int | None, typer.Option("--ep", help="For dual: GPUs that share the experts.", rich_help_panel=MODEL)
    ] = None
    port: Annotated[
        str | None,
        typer.Option("--port", metavar="RATE", help="A GPU's way out, as 40GB/s (0.8 of NIC).", rich_help_panel=MODEL),
    ] = None
    weights: Annotated[
        str | None, typer.Option("--weights", help="bf16 (default), or fp8 as DeepSeek-V3.", rich_help_panel=MODEL)
    ] = None

    def given(self) -> list[str]:
        """The options that were given."""
        named = [field.name for field in fields(self) if getattr(self, field.name) is not None]
        return [f"--{name.replace('_', '-')}" for name in named]

    def check(self, pattern: str) -> None:
        """Refuse options that say nothing, and the lack of those that are needed; all at once."""
        check = Violations()
        if self.llm is None and self.hf_config is None:
            check.add("--llm", "missing", rule="is needed beside " + ", ".join(self.given()), fix="Give --llm dbrx")
        for option, value in (("--gpu", self.gpu), ("--context", self.context)):
            if value is None:
                check.add(option, "missing", rule="is needed to model times", fix="Give it, or measure: --ta, --te")
        for name in ("context", "attention_nodes", "tp_a", "tp_e", "ep"):
            count = getattr(self, name)
            if count is not None and count < 1:
                check.add(f"--{name.replace('_', '-')}", count, rule="must be >= 1", fix="Use 1")
        if pattern not in (*APART, *TOGETHER):
            rule = f"times of {pattern} are not modelled"
            check.add("--llm", str(self.llm or self.hf_config), rule=rule, fix="Give its times: --ta, --te, --tc")
        elif pattern in APART and self.ep is not None:
            check.add("--ep", self.ep, rule=f"is for dual: in {pattern} every expert has a node", fix="Leave it out")
        elif pattern in TOGETHER:
            for option in ("expert_gpu", "attention_nodes", "tp_a", "tp_e"):
                if getattr(self, option) is not None:
                    name = f"--{option.replace('_', '-')}"
                    rule = f"is for {' and '.join(APART)}"
                    check.add(name, getattr(self, option), rule=rule, fix="Leave it out")
            if self.ep is None:
                check.add("--ep", "missing", rule="is needed for dual", fix="Give the GPUs that share the experts")
        if self.weights not in (None, *FORMATS):
            check.add("--weights", self.weights, rule="is not modelled", fix=f"Use {' or '.join(FORMATS)}")
        check.raise_if_any()

    def model(self, pattern: str) -> Model:
        """Times of the layers with experts, and of those without."""
        from moeopt.cli.modelled_rest import dense_of
        from moeopt.cost import Machine

        self.check(pattern)
        facts = self.facts()
        assert facts is not None and self.gpu is not None
        _alike(facts, int(self.context or 0))
        machine = Machine.of(self.gpu)
        port = self._port()
        made = self._apart if pattern in APART else self._together
        part = machine.efficiency
        note = (
            f"times are a model of {facts.name or 'the LLM'} on {machine.name}: rooflines that reach {part.compute:g} "
            f"of its FLOP/s and {part.memory:g} of its bandwidth, a port of {port.bytes_per_s / 1e9:.4g} GB/s; "
            "without the projection onto the vocabulary; good for an order of candidates, not for tokens/s"
        )
        times = made(facts, machine, port, self._numerics())
        context = int(self.context or 0)
        shares = pattern in TOGETHER  # an LLM with dense layers is refused elsewhere
        dense = dense_of(facts, machine, self._numerics(), context=context) if shares else None
        return Model(times, facts, note, dense)

    def room(self, pattern: str, facts: LlmFacts) -> Room:
        """Memory for sequences on the GPUs that hold their caches."""
        from moeopt.cli.modelled_rest import room_apart, room_together
        from moeopt.cost import Machine

        machine, context = Machine.of(str(self.gpu)), int(self.context or 0)
        if pattern in TOGETHER:
            return room_together(facts, machine, self._numerics(), context=context, ep=self._count("ep"))
        nodes, tp_a, tp_e = map(self._count, ("attention_nodes", "tp_a", "tp_e"))
        other = Machine.of(self.expert_gpu or str(self.gpu))
        return room_apart(facts, machine, other, self._numerics(), context=context, nodes=nodes, tp_a=tp_a, tp_e=tp_e)

    def _count(self, name: str) -> int:
        """A number of GPUs or nodes, 1 where none is given."""
        value = getattr(self, name)
        return 1 if value is None else int(value)

    def _numerics(self) -> Any:
        from moeopt.cost import BF16, FP8

        return FP8 if self.weights == "fp8" else BF16

    def _port(self) -> Link:
        """The port of one GPU, with the latency of RDMA."""
        from moeopt.cost import IB_ALPHA_S, Efficiency, Link
        from moeopt.llm import find_gpu

        if self.port is not None:
            return Link(IB_ALPHA_S, _rate(self.port))
        row = find_gpu(str(self.gpu), "--gpu")
        if row.nic_bytes_per_s is None:
            rule = f"is needed: no source confirms the NIC of {row.name}"
            raise InstanceError([Violation("--port", "", "missing", rule, "Give --port 40GB/s")])
        return Link(IB_ALPHA_S, row.nic_bytes_per_s * Efficiency().network)

    def _inner(self, gpu: str, degree: int) -> Link | None:
        """The fast interconnect within a node."""
        from moeopt.cost import LINK_ALPHA_S, Efficiency, Link
        from moeopt.llm import find_gpu

        row = find_gpu(gpu)
        if degree == 1:
            return None
        if row.scale_up_bytes_per_s is None:
            rule = f"no source confirms what joins GPUs of {row.name}"
            raise InstanceError([Violation("--tp-a", "", str(degree), rule, "Use 1, or measure the times")])
        return Link(LINK_ALPHA_S, row.scale_up_bytes_per_s * Efficiency().network)

    def _apart(self, facts: LlmFacts, machine: Machine, port: Link, numerics: Any) -> Times:
        """Attention nodes and a node for every expert: the four stages of MegaScale-Infer."""
        from moeopt.cost import Machine as Gpu
        from moeopt.cost import stage_times

        other = self.expert_gpu or str(self.gpu)
        experts = Gpu.of(other)
        nodes, tp_a, tp_e = map(self._count, ("attention_nodes", "tp_a", "tp_e"))

        @cache
        def at(tokens: int) -> Any:
            return stage_times(
                facts,
                attention=machine,
                experts=experts,
                sequences=tokens / nodes,
                context_tokens=int(self.context or 0),
                nodes=nodes,
                tp_a=tp_a,
                tp_e=tp_e,
                attention_port=port,
                attention_link=self._inner(str(self.gpu), tp_a),
                expert_link=self._inner(other, tp_e),
                numerics=numerics,
            )

        at(nodes)  # what does not fit together is said before anything else
        return {
            "attention": lambda tokens: round(at(tokens).attention_s, DIGITS),
            "dispatch": lambda tokens: round(at(tokens).dispatch_s, DIGITS),
            "experts": lambda tokens: round(at(tokens).expert_s, DIGITS),
            "combine": lambda tokens: round(at(tokens).combine_s, DIGITS),
        }

    def _together(self, facts: LlmFacts, machine: Machine, port: Link, numerics: Any) -> Times:
        """Data-parallel attention and experts over the same GPUs; tokens are those of one GPU.

        Vectors go out in FP8 and come back in BF16, as in the DeepSeek-V3 report, section 3.4.
        """
        from moeopt.cost import OVERHEAD_S, layer_decode, moe_ffn, operators_s
        from moeopt.cost.layer_works import full_kind

        facts.need_experts("experts over several GPUs")
        facts.need("top_k", "dispatch_width", why="for the bytes of its all-to-alls")
        ep = int(self.ep or 0)
        vector = int(facts.top_k or 0) * (ep - 1) / ep * int(facts.dispatch_width or 0)

        def attention(tokens: int) -> float:
            own = {"sequences": tokens, "context_tokens": int(self.context or 0)}
            works = layer_decode(facts, full_kind(facts), numerics=numerics, **own)
            return round(operators_s(machine, works) + OVERHEAD_S, DIGITS)

        def experts(tokens: int) -> float:
            return round(machine.time_s(moe_ffn(facts, tokens=tokens * ep, ep=ep, numerics=numerics)), DIGITS)

        attention(1), experts(1)
        return {
            "attention": attention,
            "dispatch": lambda tokens: round(port.time_s(vector * tokens), DIGITS),
            "experts": experts,
            "combine": lambda tokens: round(port.time_s(2 * vector * tokens), DIGITS),
        }


def _alike(facts: LlmFacts, context: int) -> None:
    """Refuse an LLM whose layers with experts attend to different numbers of tokens."""
    from moeopt.cost import attended

    facts.need_experts("a micro-batch to be sent to experts")
    seen = attended(facts, context)
    kinds = {seen[layer] for layer in facts.moe_layers}
    if len(kinds) > 1:
        rule = f"some layers attend to {min(kinds):g} tokens, some to {max(kinds):g}: one time is not enough"
        fix = "Give times, or an instance document with layer_scale"
        raise InstanceError([Violation("--llm", "", facts.name or "the LLM", rule, fix)])


def _rate(text: str) -> float:
    """Bytes a second of ``40GB/s`` or ``400Gbps``.

    >>> _rate("400Gbps")
    50000000000.0
    """
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([A-Za-z/]+)\s*", text)
    if match is None or match[2] not in RATES or not float(match[1]):
        raise InstanceError(
            [Violation("--port", "", text or "''", "must be a bandwidth > 0", "Write 40GB/s or 400Gbps")]
        )
    return float(match[1]) * float(RATES[match[2]])
