"""Options of ``moeopt microbatch``: times of stages, what to choose from, limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from moeopt.cli import stage_times, units
from moeopt.errors import Violations

TIMES, CHOICE, LIMITS = "Times of a layer, for one micro-batch", "What to choose from", "Limits, and what is wanted"
MOST_LISTED = 100_000

STAGES = {"ta": "attention", "te": "experts", "td": "dispatch", "tb": "combine", "t0": "rest"}
"""The stage of each option; ``--tc`` is that of every stage that moves data."""
MOVING = ("dispatch", "combine", "exchange")


@dataclass(frozen=True)
class StageTimes:
    """How long the stages of a layer take."""

    ta: Annotated[
        str | None, typer.Option("--ta", metavar="TIME", help="Attention, as 0.4 or 0.1+0.002n.", rich_help_panel=TIMES)
    ] = None
    te: Annotated[str | None, typer.Option("--te", metavar="TIME", help="Experts.", rich_help_panel=TIMES)] = None
    tc: Annotated[
        str | None,
        typer.Option(
            "--tc",
            metavar="TIME",
            help="Each transfer: dispatch and combine; the exchange of hop-b.",
            rich_help_panel=TIMES,
        ),
    ] = None
    td: Annotated[str | None, typer.Option("--td", metavar="TIME", help="Dispatch alone.", rich_help_panel=TIMES)] = (
        None
    )
    tb: Annotated[str | None, typer.Option("--tb", metavar="TIME", help="Combine alone.", rich_help_panel=TIMES)] = None
    t0: Annotated[
        str | None,
        typer.Option(
            "--t0", metavar="TIME", help="What is not cut, for chunks, waves and hop-b.", rich_help_panel=TIMES
        ),
    ] = None
    times: Annotated[
        str | None,
        typer.Option(
            "--times", metavar="FILE", help="Measured times: CSV with columns batch,ta,te,...", rich_help_panel=TIMES
        ),
    ] = None
    extend: Annotated[
        bool,
        typer.Option("--extend", help="Straight lines go on beyond the measured sizes.", rich_help_panel=TIMES),
    ] = False
    layers: Annotated[int | None, typer.Option("--layers", help="L, layers in a row.", rich_help_panel=TIMES)] = None

    def models(self, pattern: str, unit: str, check: Violations) -> tuple[dict[str, Any], set[str]]:
        """Stages with their time models, and the options or columns that say them.

        What cannot be understood is noted, and stands in as if it took no time.
        """
        from moeopt.microbatch import PATTERNS, Constant

        if pattern not in PATTERNS:
            pattern, lenient = "ping-pong", True  # that it is not known is said elsewhere
        else:
            lenient = False
        kind = PATTERNS[pattern]
        known = {name: getattr(self, name) for name in ("ta", "te", "td", "tb", "t0", "tc")}
        given: dict[str, Any] = {name: text for name, text in known.items() if text is not None}
        before = len(check.found)
        measured = {} if self.times is None else stage_times.read_times(self.times, unit, self.extend, check)
        faulty = len(check.found) > before
        for name in given.keys() & measured.keys():
            check.add(f"--{name}", given[name], rule=f"is also a column of {self.times}", fix="Give it once")
        for name, text in given.items():
            found = stage_times.stage_time(f"--{name}", text, unit, check)
            given[name] = Constant(0) if found is None else found
        if self.extend and self.times is None:
            check.add("--extend", "given", rule="is for measured times", fix="Leave it out, or give --times")
        models: dict[str, Any] = {}
        for name, model in {**measured, **given}.items():
            targets = [stage for stage in MOVING if stage in kind.symbols] if name == "tc" else [STAGES[name]]
            if not lenient and not set(targets) & set(kind.symbols):
                fix = f"Its times: {', '.join(options_of(pattern))}"
                check.add(f"--{name}", known[name] or "measured", rule=f"is not a time of {pattern}", fix=fix)
            twice = [stage for stage in targets if stage in models]
            if twice:
                fix = "Give --tc for both transfers, or --td and --tb"
                check.add("--tc", known["tc"] or "measured", rule=f"{twice[0]} has a time of its own", fix=fix)
            models |= {stage: model for stage in targets if stage in kind.symbols and stage not in models}
        if self.times is not None and faulty:
            models |= {stage: Constant(0) for stage in kind.symbols if stage not in models}  # the file is at fault
        return models, {*measured, *given}


@dataclass(frozen=True)
class Choices:
    """The pattern and its candidates."""

    pattern: Annotated[
        str,
        typer.Option("--pattern", help="ping-pong, shared-link, dual, chunks, waves or hop-b.", rich_help_panel=CHOICE),
    ] = "ping-pong"
    m: Annotated[
        str | None,
        typer.Option("--m", help="Micro-batches to try, as 2,3,4 or 1-8 (default 1-4).", rich_help_panel=CHOICE),
    ] = None
    max_m: Annotated[int | None, typer.Option("--max-m", help="Try 1 to this many.", rich_help_panel=CHOICE)] = None
    batch: Annotated[
        str | None,
        typer.Option("--batch", help="Tokens of a step to try, as 256, 64,128 or 64-512:64.", rich_help_panel=CHOICE),
    ] = None
    micro_batch: Annotated[
        int | None,
        typer.Option("--micro-batch", help="Instead: tokens of a micro-batch, whatever m is.", rich_help_panel=CHOICE),
    ] = None
    uneven: Annotated[
        bool,
        typer.Option("--uneven", help="Batches that m does not divide are fine.", rich_help_panel=CHOICE),
    ] = False
    latency: Annotated[
        str | None,
        typer.Option(
            "--latency",
            help="For hop-b: per-message (default), or amortised over the groups.",
            rich_help_panel=CHOICE,
        ),
    ] = None

    def arguments(self, check: Violations) -> dict[str, Any]:
        """Arguments of `MicrobatchInstance`."""
        found: dict[str, Any] = {"pattern": self.pattern, "uneven": self.uneven}
        if self.m is not None:
            found["m"] = counts("--m", self.m, check)
        if self.max_m is not None:
            if self.m is not None:
                check.add("--max-m", self.max_m, rule="says the same as --m", fix="Give one of them")
            elif self.max_m < 1:
                check.add("--max-m", self.max_m, rule="must be >= 1", fix="Use 4")
            else:
                found["m"] = range(1, self.max_m + 1)
        if self.batch is not None:
            found["batches"] = counts("--batch", self.batch, check)
        if self.micro_batch is not None:
            if self.batch is not None:
                check.add("--micro-batch", self.micro_batch, rule="follows from --batch and m", fix="Leave it out")
            else:
                found["micro_batch"] = self.micro_batch
        if self.latency is not None:
            found["latency"] = self.latency
        return found


@dataclass(frozen=True)
class Wanted:
    """Limits, and what is wanted."""

    tbt: Annotated[
        str | None,
        typer.Option(
            "--tbt", metavar="TIME", help="A step, so each token, takes at most this.", rich_help_panel=LIMITS
        ),
    ] = None
    kv_bytes: Annotated[
        str | None,
        typer.Option("--kv-bytes", metavar="SIZE", help="What a sequence keeps, as 280MB.", rich_help_panel=LIMITS),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="Room for all sequences, as 40GB.", rich_help_panel=LIMITS),
    ] = None
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="time (default with one batch) or throughput (else).",
            rich_help_panel=LIMITS,
        ),
    ] = None
    name: Annotated[str | None, typer.Option("--name", help="Name of the instance.", rich_help_panel=LIMITS)] = None

    def arguments(self, unit: str, check: Violations) -> dict[str, Any]:
        """Arguments of `MicrobatchInstance`."""
        found: dict[str, Any] = {}
        limit = None if self.tbt is None else stage_times.seconds("--tbt", self.tbt, unit, check)
        if limit is not None:
            found["tbt_slo_s"] = limit
        for field, option, text in (
            ("bytes_per_sequence", "--kv-bytes", self.kv_bytes),
            ("memory_bytes", "--memory", self.memory),
        ):
            if text is not None:
                size = units.size(option, text, check)
                found[field] = 1 if size is None else size  # 1 stands in, so that nothing else is said of it
        for key in ("objective", "name"):
            if getattr(self, key) is not None:
                found[key] = getattr(self, key)
        return found


def given(*groups: Any) -> list[str]:
    """The options that were given, as they are typed."""
    return [
        f"--{field.name.replace('_', '-')}"
        for group in groups
        for field in fields(group)
        if getattr(group, field.name) != field.default
    ]


def options_of(pattern: str) -> list[str]:
    """The options of a pattern's stages.

    >>> options_of("hop-b"), options_of("ping-pong")
    (['--ta', '--tc', '--t0'], ['--ta', '--te', '--tc, or --td and --tb'])
    """
    from moeopt.microbatch import PATTERNS

    stages = PATTERNS[pattern].symbols
    found = [f"--{name}" for name in ("ta", "te") if STAGES[name] in stages]
    if "combine" in stages:
        found.append("--tc, or --td and --tb")
    elif "dispatch" in stages or "exchange" in stages:
        found.append("--tc")
    return found + (["--t0"] if "rest" in stages else [])


def counts(field: str, text: str, check: Violations) -> Sequence[int]:
    """Whole numbers: ``4``, ``2,3,4``, ``1-8``, ``64-512:64``; what cannot be understood is noted, and stands in as 1.

    >>> counts("--batch", "16,64-256:64", Violations())
    [16, 64, 128, 192, 256]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+)(?:\s*:\s*(\d+))?)?\s*", part)
        if match is None or max(map(len, filter(None, match.groups()))) > 9:
            check.add(
                field, part.strip() or "''", rule="must be a whole number or a range", fix="Write 2,3,4 or 64-512:64"
            )
            continue
        low = int(match[1])
        high, step = int(match[2] or low), int(match[3] or 1)
        if high < low or step < 1:
            check.add(field, part.strip(), rule="must run upwards", fix=f"Write {min(low, high)}-{max(low, high)}")
        elif (high - low) // step >= MOST_LISTED:
            check.add(
                field, part.strip(), rule=f"must be at most {MOST_LISTED:,} numbers", fix="Give a step: 64-512:64"
            )
        else:
            found.extend(range(low, high + 1, step))
    return list(dict.fromkeys(found)) or [1]
