"""Options that name an LLM, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.say import Say, count, ranges
from moeopt.errors import InstanceError, Violations

if TYPE_CHECKING:
    from moeopt.llm import LlmFacts

LLM = "LLM"
APART, ACTIVE_APART = 0.02, 0.1
"""Computed and expected parameters further apart than this are remarked on; makers count active ones differently."""


@dataclass(frozen=True)
class WhichLlm:
    """An LLM by its configuration or by name."""

    hf_config: Annotated[
        str | None,
        typer.Option(
            "--hf-config",
            "--config",
            metavar="FILE",
            help="config.json of the LLM, or its folder.",
            rich_help_panel=LLM,
        ),
    ] = None
    llm: Annotated[
        str | None,
        typer.Option("--llm", metavar="NAME", help="An LLM of the catalogue (moeopt info llms).", rich_help_panel=LLM),
    ] = None

    def facts(self) -> LlmFacts | None:
        """Its facts; ``None`` where no LLM was named."""
        if self.hf_config is not None and self.llm is not None:
            check = Violations()
            check.add("--llm", self.llm, rule="names an LLM, and --hf-config does too", fix="Give one of them")
            check.raise_if_any()
        from moeopt.llm import find, read_config

        if self.hf_config is not None:
            return read_config(self.hf_config)
        return None if self.llm is None else find(self.llm)


def expected(text: str | None, check: Violations) -> list[float]:
    """Parameters in 1e9 of ``671B``, or ``671B,37B`` with the active ones.

    >>> expected("2.8T,104B", Violations()), expected("671", Violations())
    ([2800.0, 104.0], [671.0])
    """
    if text is None:
        return []
    units = {"T": 1000.0, "B": 1.0, "M": 0.001}
    found = []
    for part in text.split(","):
        word = part.strip()
        unit = units.get(word[-1:].upper())
        try:
            value = float(word[:-1] if unit else word) * (unit or 1.0)
        except ValueError:
            value = 0.0
        if not 0 < value < 1e9:
            check.add("--params", part, rule="must be a number > 0, of B (1e9), T or M", fix="Write 671B or 671B,37B")
        found.append(value)
    if len(found) > 2:
        check.add("--params", text, rule="must be all parameters, and perhaps the active ones", fix="Write 671B,37B")
    return found


def facts_document(facts: LlmFacts, told: list[float], expert_dtype: str | None = None) -> dict[str, Any]:
    """What is known and computed of an LLM, for JSON; null where a figure cannot be computed."""
    from moeopt.llm import expert_bytes, kv_bytes_per_token, parameters, routed_parameters

    def known(compute: Any) -> Any:
        try:
            return compute()
        except InstanceError:
            return None

    total, active = known(lambda: parameters(facts)) or (None, None)
    published = [facts.published_total_b, facts.published_active_b]
    wanted = [*told, None, None][:2] if told else published
    return {
        **facts.brief(),
        "family": facts.family,
        "moe_layers": list(facts.moe_layers),
        "shared_experts": facts.shared_experts,
        "total_params_b": None if total is None else total / 1e9,
        "active_params_b": None if active is None else active / 1e9,
        "routed_params_b": known(lambda: routed_parameters(facts) / 1e9),
        "expected_total_b": wanted[0],
        "expected_active_b": wanted[1],
        "expert_format": expert_dtype or facts.expert_format,
        "expert_bytes": known(lambda: expert_bytes(facts, expert_dtype)),
        "dispatch_width": facts.dispatch_width,
        "attention": str(facts.attention),
        "kv_bytes_per_token_bf16": known(lambda: kv_bytes_per_token(facts)),
        "notes": list(facts.notes),
        "source": facts.source,
    }


def show_facts(known: dict[str, Any], say: Say) -> None:
    """The same for people."""
    moe = known["moe_layers"]
    parts = [count(known["layers"], "layer")]
    if moe:
        parts += [
            f"experts in {len(moe)} ({ranges(moe)})" if len(moe) < known["layers"] else "experts in all",
            f"{known['experts']:,} experts" if known["experts"] else "experts not known",
            f"top-{known['top_k']}" if known["top_k"] else "top-k not known",
        ]
    else:
        parts.append("dense")
    if known["shared_experts"]:
        parts.append(count(known["shared_experts"], "shared expert"))
    if known["mtp_layers"]:
        parts.append(count(known["mtp_layers"], "MTP layer"))
    say.show(f"{known['name']} ({known['family']}): {', '.join(parts)}")
    said, remark = _counts(known)
    say.show(f"parameters: {said}")
    if known["kv_bytes_per_token_bf16"] is not None:
        say.show(f"cache: {known['kv_bytes_per_token_bf16']:,.0f} B a token in bf16 ({known['attention']})")
    for note in [*known["notes"], *remark]:
        say.note(note)


def _counts(known: dict[str, Any]) -> tuple[str, list[str]]:
    """Computed counts next to the expected ones, and a remark where they are apart."""
    total, active = known["total_params_b"], known["active_params_b"]
    if total is None:
        total = known["routed_params_b"]
        if total is None:
            return "cannot be counted: sizes are not known", []
        said = f"{total:,.2f} billion in routed experts alone; the rest has weights no confirmed source counts"
        wanted = known["expected_total_b"]
        return said + (f" (expected in all: {wanted:,.6g})" if wanted else ""), []
    said = f"{total:,.2f} billion, {active:,.2f} active"
    apart: list[str] = []
    pairs = [(total, known["expected_total_b"]), (active, known["expected_active_b"])]
    if any(wanted for _, wanted in pairs):
        words = ["-" if wanted is None else f"{wanted:,.6g}" for _, wanted in pairs]
        said += f" (expected: {', '.join(word for word in words if word != '-')})"
        limits = ((APART, "all"), (ACTIVE_APART, "active"))
        for (found, wanted), (limit, which) in zip(pairs, limits, strict=True):
            if wanted and abs(found / wanted - 1) > limit:
                apart.append(f"{which} parameters computed are {100 * (found / wanted - 1):+.1f} % off those expected")
    return said, apart
