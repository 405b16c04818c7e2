"""Options that several verbs share, declared once; each dataclass becomes one option a field (see `verb`)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli import units
from moeopt.cli.rules import FurtherRules
from moeopt.errors import Violations
from moeopt.limits import Limits

if TYPE_CHECKING:
    from moeopt.llm import LlmFacts

SHAPE, RULES, SOLVING, OUTPUT = "Shape", "Rules of the placement", "Solving", "Output"
FINDINGS = "Findings"
OF_FINDINGS = ("--accept", "--drop", "--hf-config", "--experts", "--llm")
"""Options that say how loads are looked at, and nothing of a placement."""


@dataclass(frozen=True)
class Shape(FurtherRules):
    """What turns a table of loads into a placement instance; refused beside an instance document."""

    gpus: Annotated[int | None, typer.Option("--gpus", help="G, number of GPUs.", rich_help_panel=SHAPE)] = None
    slots: Annotated[
        str | None,
        typer.Option("--slots", help="S, slots of all GPUs; or G numbers with commas.", rich_help_panel=SHAPE),
    ] = None
    slots_per_gpu: Annotated[
        int | None, typer.Option("--slots-per-gpu", help="Slots of each GPU.", rich_help_panel=SHAPE)
    ] = None
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", help="N equal nodes (1); or the node of each GPU.", rich_help_panel=SHAPE),
    ] = None
    groups: Annotated[
        str | None,
        typer.Option("--groups", help="Q groups of experts, each kept on one node.", rich_help_panel=SHAPE),
    ] = None
    group_rule: Annotated[
        str | None,
        typer.Option(
            "--group-rule",
            help="auto: groups that do not divide over the nodes are ignored; hierarchical: refused.",
            rich_help_panel=RULES,
        ),
    ] = None
    floor_tokens: Annotated[
        float | None,
        typer.Option("--floor-tokens", help="Tokens a pass below which an expert is no faster.", rich_help_panel=RULES),
    ] = None
    floor_rule: Annotated[
        str | None, typer.Option("--floor-rule", help="per_expert (default) or per_replica.", rich_help_panel=RULES)
    ] = None
    steps: Annotated[
        int | None,
        typer.Option("--steps", help="Forward passes in the loads (as the file says, or 1).", rich_help_panel=RULES),
    ] = None
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="even (default), free, sglang-static, sglang-static-node or random.", rich_help_panel=RULES
        ),
    ] = None
    fill: Annotated[
        str | None,
        typer.Option("--fill", help="all (default): no slot is empty; at_most: some may be.", rich_help_panel=RULES),
    ] = None
    allow_doubles: Annotated[
        bool,
        typer.Option("--allow-doubles", help="Two replicas of an expert on one GPU are fine.", rich_help_panel=RULES),
    ] = False
    uneven_slots: Annotated[
        bool,
        typer.Option("--uneven-slots", help="GPUs may differ by one slot.", rich_help_panel=RULES),
    ] = False
    speed: Annotated[
        str | None,
        typer.Option("--speed", help="G relative speeds, as 1,1,0.5.", rich_help_panel=SHAPE),
    ] = None
    expert_bytes: Annotated[
        str | None,
        typer.Option("--expert-bytes", help="Size of one expert in one layer, as 42MB.", rich_help_panel=SHAPE),
    ] = None
    llm: Annotated[
        str | None,
        typer.Option(
            "--llm",
            metavar="NAME",
            help="An LLM of the catalogue (moeopt info llms), which says the size of an expert; so does --hf-config.",
            rich_help_panel=SHAPE,
        ),
    ] = None
    memory_bytes: Annotated[
        str | None,
        typer.Option(
            "--memory-bytes", help="Memory a GPU has for one layer's experts, one or G sizes.", rich_help_panel=SHAPE
        ),
    ] = None
    layers: Annotated[
        str | None,
        typer.Option("--layers", help="Only these layer ids, as 3,5-8.", rich_help_panel=SHAPE),
    ] = None
    phase: Annotated[
        str | None, typer.Option("--phase", help="prefill or decode, kept in the plan.", rich_help_panel=RULES)
    ] = None
    engine: Annotated[
        str | None, typer.Option("--engine", help="Serving engine, kept in the plan.", rich_help_panel=RULES)
    ] = None
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the instance (the file's).", rich_help_panel=RULES)
    ] = None
    accept: Annotated[
        list[str] | None,
        typer.Option(
            "--accept",
            metavar="NAME",
            help="Plan in spite of a finding of inspect that matters; may be given repeatedly.",
            rich_help_panel=FINDINGS,
        ),
    ] = None
    drop: Annotated[
        list[str] | None,
        typer.Option(
            "--drop", metavar="NAME", help="Leave out what a finding is about: dummy-rows.", rich_help_panel=FINDINGS
        ),
    ] = None
    experts: Annotated[
        int | None,
        typer.Option(
            "--experts",
            min=1,
            help="E, for traces that do not say it; other files must have as many.",
            rich_help_panel=FINDINGS,
        ),
    ] = None
    hf_config: Annotated[
        str | None,
        typer.Option(
            "--hf-config",
            metavar="FILE",
            help="The LLM's config.json: its experts, top-k and dense layers are held against the loads.",
            rich_help_panel=FINDINGS,
        ),
    ] = None

    @cached_property
    def facts(self) -> LlmFacts | None:
        """The LLM of ``--hf-config``, read once."""
        if self.hf_config is None:
            return None
        from moeopt.llm import read_config

        return read_config(self.hf_config)

    def given(self) -> list[str]:
        """The options that were given, as they are typed."""
        return [
            f"--{field.name.replace('_', '-')}" for field in fields(self) if getattr(self, field.name) != field.default
        ]

    def instance_fields(self, check: Violations) -> dict[str, Any]:
        """Arguments of `PlacementInstance`, `layers` and `steps` left aside; notes what cannot be understood."""
        found = self.further_fields(check)
        for key in ("gpus", "group_rule", "floor_tokens", "floor_rule", "split", "fill", "phase", "engine", "name"):
            if getattr(self, key) is not None:
                found[key] = getattr(self, key)
        for key in ("slots", "nodes", "groups"):
            if getattr(self, key) is not None:
                found[key] = units.count(f"--{key}", getattr(self, key), check)
        if self.slots_per_gpu is not None:
            if self.slots is not None:
                rule = "says the same as --slots"
                check.add("--slots-per-gpu", self.slots_per_gpu, rule=rule, fix="Give one of them")
            elif self.gpus is None:
                check.add("--gpus", "missing", rule="is needed beside --slots-per-gpu", fix="Give the number of GPUs")
            else:
                found["slots"] = self.slots_per_gpu * self.gpus
        if self.speed is not None:
            found["speed"] = units.numbers("--speed", self.speed, check)
        if self.expert_bytes is not None:
            found["expert_bytes"] = units.size("--expert-bytes", self.expert_bytes, check)
        if self.memory_bytes is not None:
            found["memory_bytes"] = units.sizes("--memory-bytes", self.memory_bytes, check)
        if self.allow_doubles:
            found["distinct"] = False
        if self.uneven_slots:
            found["uneven_slots"] = True
        return found


@dataclass(frozen=True)
class Solving:
    """Limits and seed."""

    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", help="Stop after 5s, 500ms, 2min; none by default.", rich_help_panel=SOLVING),
    ] = None
    gap: Annotated[
        float | None,
        typer.Option(
            "--gap",
            help="Stop a layer at this proven gap: 0.001 is 0.1 %, the default of auto and search; exact has 0.",
            rich_help_panel=SOLVING,
        ),
    ] = None
    iterations: Annotated[
        int | None,
        typer.Option(
            "--iterations",
            help="Rounds of the search per layer (2000, or 3 million slots looked at if that is sooner).",
            rich_help_panel=SOLVING,
        ),
    ] = None
    nodes_limit: Annotated[
        int | None, typer.Option("--nodes-limit", help="Branch-and-bound nodes per MILP.", rich_help_panel=SOLVING)
    ] = None
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the search.", rich_help_panel=SOLVING)] = 0
    threads: Annotated[int, typer.Option("--threads", help="Threads a solver may use.", rich_help_panel=SOLVING)] = 1

    def limits(self) -> Limits:
        """Check and build the limits."""
        check = Violations()
        time_s = None if self.time_limit is None else units.seconds("--time-limit", self.time_limit, check)
        check.raise_if_any()
        return Limits(time_s, self.gap, self.iterations, self.nodes_limit, self.threads)


ShowPython = Annotated[
    bool,
    typer.Option(
        "--show-python", help="Print the Python that this command is, and solve nothing.", rich_help_panel=OUTPUT
    ),
]


@dataclass(frozen=True)
class Output:
    """Where the answer goes, or that the command is shown as Python instead."""

    json: Annotated[
        bool, typer.Option("--json", help="One strict JSON object on standard output.", rich_help_panel=OUTPUT)
    ] = False
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the answer to a file; - is standard output where that can be.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.", rich_help_panel=OUTPUT)] = (
        False
    )
    show_python: ShowPython = False


@dataclass(frozen=True)
class Gate:
    """The answer as an exit code."""

    fail_if_worse: Annotated[
        bool,
        typer.Option(
            "--fail-if-worse",
            help="Exit 5 if worse than --current or not worth the move; without it, than eplb.",
            rich_help_panel=OUTPUT,
        ),
    ] = False


@dataclass(frozen=True)
class Showing:
    """For verbs that are a call of the library, but have no answer in a file."""

    show_python: ShowPython = False


@dataclass(frozen=True)
class Json:
    """For verbs that write no file."""

    json: Annotated[bool, typer.Option("--json", help="One strict JSON object on standard output.")] = False
