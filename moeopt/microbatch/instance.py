"""The micro-batch instance: stages and their times, candidates and limits, frozen and checked at birth."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

from moeopt.documented import Documented
from moeopt.errors import Violations
from moeopt.microbatch import checks
from moeopt.microbatch.builders import PATTERNS, Pattern
from moeopt.microbatch.candidates import Candidate, candidates
from moeopt.microbatch.graph import StageGraph
from moeopt.microbatch.times import GivenTime, Table, TimeModel, exact

Objective = Literal["time", "throughput"]
Latency = Literal["per-message", "amortised"]
SCHEMA = "moeopt/microbatch-instance/1"
DEFAULT_M = (1, 2, 3, 4)
"""Candidates where none are given: MegaScale-Infer searches no further than 4."""


@dataclass(frozen=True, init=False, eq=False)
class MicrobatchInstance(Documented):
    """Into how many micro-batches is a step cut, and how many tokens does it have?

    Parameters
    ----------
    times
        Seconds of each stage of one layer, for one micro-batch: a number, a time model of `moeopt.microbatch.times`, a
        mapping from measured tokens to seconds, or a function of tokens (called once for each size that is needed and
        kept as a table). Stages are those of the pattern; ``combine`` left out takes as long as ``dispatch``.
    layers
        L, layers that follow one another.
    pattern
        ``ping-pong``, ``shared-link``, ``dual``, ``chunks``, ``waves`` or ``hop-b``; see ``builders``.
    m
        Candidate numbers of micro-batches (chunks, waves, groups). ``None``: 1 to 4, as far as they fit the batches.
    batches
        Candidate tokens of a whole step, cut into m equal parts. ``None``: every micro-batch has `micro_batch` tokens
        whatever m is, so that more micro-batches are more work.
    micro_batch
        Tokens of a micro-batch where no batches are given.
    uneven
        Allow batches that m does not divide: parts then differ by one token, the larger ones first.
    latency
        For ``hop-b``: ``per-message``, each group's exchange takes what its size takes; ``amortised``, the exchange of
        the whole batch, fixed latency and all, is divided by the groups.
    layer_scale
        Stage to L factors on its time, for layers that are not alike.
    tbt_slo_s
        The step may take at most so many seconds: each sequence gets one token a step.
    bytes_per_sequence, memory_bytes
        Bytes that a sequence (one token of a step) keeps, and bytes there are for all of them.
    objective
        ``time``: the shortest step; ``throughput``: most tokens a second. ``None``: time with one batch, else
        throughput.

    Raises
    ------
    InstanceError
        Everything malformed, all at once.

    Examples
    --------
    >>> times = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}
    >>> instance = MicrobatchInstance(times, layers=40, m=[2, 3, 4])
    >>> instance.objective, [(one.m, one.batch) for one in instance.candidates]
    ('throughput', [(2, 2), (3, 3), (4, 4)])
    """

    times: Mapping[str, TimeModel]
    layers: int
    pattern: str
    m: tuple[int, ...]
    batches: tuple[int, ...] | None
    micro_batch: int
    uneven: bool
    latency: Latency
    layer_scale: Mapping[str, tuple[float, ...]] | None
    tbt_slo_s: float | None
    bytes_per_sequence: float | None
    memory_bytes: float | None
    objective: Objective
    name: str
    notes: tuple[str, ...]
    candidates: tuple[Candidate, ...]

    def __init__(
        self,
        times: Mapping[str, GivenTime],
        *,
        layers: int,
        pattern: str = "ping-pong",
        m: Sequence[int] | int | None = None,
        batches: Sequence[int] | int | None = None,
        micro_batch: int = 1,
        uneven: bool = False,
        latency: Latency = "per-message",
        layer_scale: Mapping[str, Sequence[float]] | None = None,
        tbt_slo_s: float | None = None,
        bytes_per_sequence: float | None = None,
        memory_bytes: float | None = None,
        objective: Objective | None = None,
        name: str = "",
    ) -> None:
        check = Violations()
        checks.plain(check, layers=layers, pattern=pattern, micro_batch=micro_batch, uneven=uneven, latency=latency)
        checks.limits(check, tbt_slo_s, bytes_per_sequence, memory_bytes, objective, name)
        wanted = checks.wholes(check, "m", DEFAULT_M if m is None else m)
        totals = None if batches is None else checks.wholes(check, "batches", batches)
        given = checks.models(check, times, PATTERNS.get(pattern) if isinstance(pattern, str) else None)
        kind = PATTERNS.get(pattern) if isinstance(pattern, str) else None
        bad = {fault.field for fault in check.found}
        scale = None
        if kind is not None and "layers" not in bad:
            scale = checks.scale(check, layer_scale, kind, layers)
        kept: tuple[int, ...] = ()
        listed: tuple[Candidate, ...] = ()
        notes: list[str] = []
        if not bad & {"m", "batches", "micro_batch", "uneven"}:
            pairs = len(wanted) * len(totals or (1,))
            if pairs > checks.MOST_PAIRS:
                rule = f"with m they are more than {checks.MOST_PAIRS:,} pairs"
                check.add("batches", f"{pairs:,} pairs", rule=rule, fix="Leave some out")
            else:
                kept, listed, notes = candidates(
                    check, wanted, totals, micro_batch=micro_batch, uneven=uneven, default=m is None
                )
        if listed and kind is not None and "layers" not in bad:
            checks.size(check, kept, layers, len(kind.stages), len(listed), alike=layer_scale is None)
        tables: dict[str, TimeModel] = {}
        needed: dict[str, list[int]] = {}
        if kind is not None and "latency" not in bad and len(listed) <= checks.MOST_CANDIDATES:
            needed = {stage: _sizes(stage, listed, latency) for stage in kind.stages}
            tables = checks.tabulated(check, given, needed)
        check.raise_if_any()
        fields = {
            "layers": int(layers),
            "pattern": pattern,
            "m": kept,
            "batches": totals,
            "micro_batch": int(micro_batch),
            "uneven": uneven,
            "latency": latency,
            "layer_scale": scale,
            "tbt_slo_s": checks.plain_number(tbt_slo_s),
            "bytes_per_sequence": checks.plain_number(bytes_per_sequence),
            "memory_bytes": checks.plain_number(memory_bytes),
            "objective": objective or ("time" if totals is not None and len(totals) == 1 else "throughput"),
            "name": name,
            "candidates": listed,
            "times": tables,
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "notes", (*notes, *self._interpolated(needed)))

    @property
    def kind(self) -> Pattern:
        """The pattern's stages and builder."""
        return PATTERNS[self.pattern]

    @cached_property
    def even(self) -> bool:
        """Whether all micro-batches and all layers are alike, so that formulas can hold."""
        return self.layer_scale is None and all(one.alike for one in self.candidates)

    def _interpolated(self, needed: Mapping[str, list[int]]) -> list[str]:
        found = []
        for stage, model in self.times.items():
            if isinstance(model, Table):
                sizes = [size for size in needed[stage] if not model.measured(size)]
                if sizes:
                    shown = ", ".join(map(str, sizes[:5])) + (", ..." if len(sizes) > 5 else "")
                    found.append(
                        f"times of {stage}: {len(sizes)} of {len(needed[stage])} sizes were not measured "
                        f"({shown} tokens) and lie on straight lines"
                    )
        return found

    @cached_property
    def _seconds(self) -> dict[tuple[str, int], Fraction]:
        return {}

    def seconds(self, stage: str, tokens: int) -> Fraction:
        """Exact seconds of a stage for a micro-batch of so many tokens."""
        known = self._seconds.get((stage, tokens))
        if known is None:
            known = self._seconds[stage, tokens] = self.times[stage].at(tokens)
        return known

    @cached_property
    def known(self) -> frozenset[Candidate]:
        """The candidates, to look one up."""
        return frozenset(self.candidates)

    @cached_property
    def memo(self) -> dict[Candidate, Any]:
        """Bounds that have been computed, for `moeopt.microbatch.bounds`."""
        return {}

    def durations(self, candidate: Candidate, first: bool = False) -> dict[str, list[Fraction]]:
        """Exact seconds of each stage, one per micro-batch, or of the first alone."""
        found = {}
        sizes = (candidate.largest,) if first else candidate.sizes
        for stage in self.times:
            if stage == "rest":
                found[stage] = [self.seconds(stage, candidate.batch)]
            elif stage == "exchange" and self.latency == "amortised":
                whole = self.seconds(stage, candidate.batch)
                found[stage] = [whole * size / candidate.batch for size in sizes]
            else:
                found[stage] = [self.seconds(stage, size) for size in sizes]
        return found

    def in_ticks(self, candidate: Candidate) -> tuple[int, dict[str, int]]:
        """Ticks a second, and those of each stage of the first micro-batch."""
        times = {stage: row[0] for stage, row in self.durations(candidate, first=True).items()}
        fine = math.lcm(*(time.denominator for time in times.values()))
        return fine, {stage: time.numerator * (fine // time.denominator) for stage, time in times.items()}

    def graph(self, candidate: Candidate) -> StageGraph:
        """The stage graph of a candidate, in exact seconds."""
        lap = self.kind.build(self.durations(candidate))
        if self.layer_scale is None:
            return StageGraph(lap, self.layers)
        one = (1.0,) * self.layers
        rows = [[exact(factor) for factor in self.layer_scale.get(stage.name, one)] for stage in lap.stages]
        return StageGraph(lap, self.layers, tuple(zip(*rows, strict=True)))

    @classmethod
    def from_dict(cls, document: Any, source: str = "") -> MicrobatchInstance:
        """Read a document; unknown fields and versions are refused by name."""
        from moeopt.microbatch.document import read_instance

        return read_instance(document, source)

    def to_dict(self) -> dict[str, Any]:
        """The document: what `from_dict` reads, all seconds and bytes."""
        scale = self.layer_scale
        return {
            "schema": SCHEMA,
            "name": self.name,
            "pattern": self.pattern,
            "layers": self.layers,
            "times": {stage: model.to_dict() for stage, model in self.times.items()},
            "m": list(self.m),
            "batches": None if self.batches is None else list(self.batches),
            "micro_batch": self.micro_batch,
            "uneven": self.uneven,
            "latency": self.latency,
            "layer_scale": None if scale is None else {stage: list(row) for stage, row in scale.items()},
            "tbt_slo_s": self.tbt_slo_s,
            "bytes_per_sequence": self.bytes_per_sequence,
            "memory_bytes": self.memory_bytes,
            "objective": self.objective,
        }


def _sizes(stage: str, listed: Sequence[Candidate], latency: Latency) -> list[int]:
    """Tokens at which a stage's time is asked for."""
    if stage == "rest" or (stage == "exchange" and latency == "amortised"):
        return sorted({one.batch for one in listed})
    return sorted({size for one in listed for size in (one.largest, one.batch // one.m)})
