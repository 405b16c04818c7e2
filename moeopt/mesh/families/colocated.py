"""Replicas that serve whole requests: chunks of prefill beside decoding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from moeopt.llm.layer_kinds import LayerKind
from moeopt.mesh.config import Config, Enumerated
from moeopt.mesh.families.best import Best
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.decode import binds, late
from moeopt.mesh.families.prefill import together
from moeopt.mesh.families.queue import MOST_BUSY, wait_s
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.families.search import crossing
from moeopt.mesh.step.decode import Beside, Decoder
from moeopt.mesh.step.parts import total_s
from moeopt.mesh.step.prefill import Portion, Prefiller, portions
from moeopt.mesh.step.table import Bools, Floats, Ints, Table

CLOSE = 0.98
"""A TTFT beyond this part of its limit is what binds, where memory and the largest batch do not."""


def colocated(context: Context) -> list[Config]:
    """Whole requests on one replica: the largest batch of each shape within TPOT, TTFT and memory, over chunks."""
    found: list[Config] = []
    for table, refused in context.fitting("colocated", context.demand.workload.kept_tokens):
        found += refused
        if len(table):
            found += _judge(context, table)
    return found


@dataclass(frozen=True)
class Mixed:
    """Steady state of decoding with a portion of prefill in some of its steps.

    With B sequences of a rank each step must prefill ``B y / O`` prompts (y tokens a step and sequence, O in all), so
    that a part ``rho`` of a rank's steps carries a portion. Ranks that step together take the long step when any of
    them carries one, a part ``f = 1 - (1 - rho)^dp``, and then have ``rho / f`` of the portion each in experts and
    communication, and one the whole of it in attention. A pipeline of as many micro-batches as stages turns once in
    ``pp`` times its longest one, for each waits for its own last stage: long with any, ``1 - (1 - rho)^(dp pp)``.
    """

    decoder: Decoder
    prefiller: Prefiller
    context: Context

    def take(self, rows: Ints) -> Mixed:
        """Decoding of these rows, in this order; what prefill adds is taken from what is beside all of them."""
        return Mixed(self.decoder.take(rows), self.prefiller, self.context)

    def busy(self, batch: Ints, portion: Portion, mean: float) -> Floats:
        """Part of a rank's steps that carry the portion; 1 or more: prefill cannot keep up."""
        workload = self.context.demand.workload
        new = max(workload.computed_tokens, 1.0)
        return batch / self.decoder.table.pp * mean / workload.output_tokens * new / portion.chunk

    def beside(self, portion: Portion) -> dict[LayerKind, Floats]:
        """Seconds of the portion's attention in a layer beside decoding, whose step has read the weights already."""
        machine = self.decoder.table.setting.gpu.machine
        kinds = dict.fromkeys(kind for kind, _ in self.prefiller.kinds)
        return {kind: self.prefiller.attention_s(portion, kind, machine, weights=False) for kind in kinds}

    def times(
        self, batch: Ints, portion: Portion, beside: dict[LayerKind, Floats], draft: int, mean: float, dual: bool
    ) -> tuple[Floats, Floats]:
        """TPOT and TTFT."""
        decoder, own = self.decoder, self.decoder.own(batch)
        long, carried, busy = self.shares(batch, portion, beside, mean)
        cases = {kind: np.stack([np.zeros_like(own), seconds]) for kind, seconds in beside.items()}
        both = Beside(cases, np.stack([np.zeros_like(own), carried.tokens]))
        plain, step = decoder.seconds(own, queries=draft + 1, dual=dual, beside=both)
        mixed = long * step + (1 - long) * plain
        more = draft * total_s(decoder.drafting(own)) if draft else 0.0
        align = together(decoder.table) if portion.prompts == 1 else 1.0
        first = (portion.rounds + decoder.table.pp - 1 + align / 2) * step
        tpot = (mixed * decoder.table.pp + more) / mean
        return tpot, first + wait_s(busy, portion.rounds * step, portion.prompts)

    def parts(
        self, batch: Ints, portion: Portion, beside: dict[LayerKind, Floats], draft: int, mean: float, dual: bool
    ) -> Floats:
        """Parts of a token's time, which add up to TPOT."""
        decoder, own = self.decoder, self.decoder.own(batch)
        long, carried, _ = self.shares(batch, portion, beside, mean)
        mixed = long * decoder.parts(own, queries=draft + 1, dual=dual, beside=carried)
        mixed = mixed + (1 - long) * decoder.parts(own, queries=draft + 1, dual=dual)
        more = draft * decoder.drafting(own) if draft else 0.0
        return (mixed * decoder.table.pp + more) / mean

    def shares(
        self, batch: Ints, portion: Portion, beside: dict[LayerKind, Floats], mean: float
    ) -> tuple[Floats, Beside, Floats]:
        """The part of steps that are long, what they carry, and the part of a rank's steps that carry something."""
        busy: Floats = np.minimum(self.busy(batch, portion, mean), 1.0)
        ranks = np.where(together(self.decoder.table) > 0, self.decoder.table.dp, 1)
        any_rank: Floats = 1 - (1 - busy) ** ranks
        long: Floats = 1 - (1 - any_rank) ** self.decoder.table.pp
        share = np.where(any_rank > 0, busy / np.where(any_rank > 0, any_rank, 1.0), 1.0)
        return long, Beside(beside, portion.chunk * share), busy


@dataclass(frozen=True)
class Option:
    """One way to run all shapes: a portion of prefill, what its attention takes beside decoding, drafts and overlap."""

    place: int
    portion: Portion
    beside: dict[LayerKind, Floats]
    draft: int
    mean: float
    overlap: bool

    def take(self, rows: Ints) -> Option:
        """These rows, in this order."""
        return replace(self, beside={kind: seconds[rows] for kind, seconds in self.beside.items()})

    def times(self, mixed: Mixed, batch: Ints) -> tuple[Floats, Floats]:
        """TPOT and TTFT."""
        return mixed.times(batch, self.portion, self.beside, self.draft, self.mean, self.overlap)

    def parts(self, mixed: Mixed, batch: Ints) -> Floats:
        """Parts of a token's time."""
        return mixed.parts(batch, self.portion, self.beside, self.draft, self.mean, self.overlap)


def _judge(context: Context, table: Table) -> list[Config]:
    workload, slo = context.demand.workload, context.demand.slo
    decoder = Decoder(table, workload.context_tokens)
    context.look()
    mixed = Mixed(decoder, Prefiller(table, workload), context)
    limits = tuple(np.inf if limit is None else limit for limit in (slo.tpot_s, slo.ttft_s))
    below = MOST_BUSY if slo.ttft_s is None else 1.0  # a queue at 1 never ends, and no TTFT would see it
    best, portioned, options = Best.none(len(table)), portions(workload), []
    rooms: dict[tuple[int, bool], Rooms] = {}
    launched: dict[tuple[int, bool], Bools] = {}
    taken = np.full(len(table), -1)
    for option in _options(context, mixed, portioned):
        context.look()
        options.append(option)
        run = (option.draft, option.overlap)
        if run not in rooms:
            rooms[run] = context.rooms(table, workload.kept_tokens, draft=option.draft, overlap=option.overlap)
            launched[run] = context.launched(table, *run)
        fit = rooms[run].most(option.portion.chunk)
        most = _kept_up(mixed, option, np.minimum(fit, context.most_batch), below)
        rows = np.flatnonzero(launched[run] & (most >= 1))
        batch, tpot, ttft = _within(mixed, option, most, limits, rows, best)
        rate = batch * table.dp / np.where(batch > 0, tpot, 1.0)
        better = rate > best.rate * (1 + 1e-12)
        best.take(better, batch=batch, rate=rate, tpot_s=tpot, ttft_s=ttft, fit=fit)
        best.take(better, draft=option.draft, portion=option.place, overlap=option.overlap)
        taken[better] = len(options) - 1
    least = np.full((2, len(table)), np.inf)
    for place, option in enumerate(options):
        context.look()
        for rows, chosen in ((np.flatnonzero(taken == place), True), (np.flatnonzero(taken < 0), False)):
            if not len(rows):
                continue
            some, own = mixed.take(rows), option.take(rows)
            if chosen:
                batch = best.batch[rows].astype(np.int64)
                best.parts[:, rows] = own.parts(some, batch)
                best.full[rows] = some.busy(batch + 1, option.portion, option.mean) >= below
            else:  # what the quickest option takes with one sequence says why none will do
                least[:, rows] = np.minimum(least[:, rows], own.times(some, np.ones(len(rows), dtype=np.int64)))
    return [_config(context, table, rooms, best, row, portioned, least[:, row]) for row in range(len(table))]


def _options(context: Context, mixed: Mixed, portioned: list[Portion]) -> Iterator[Option]:
    """Every option, those of one portion after another."""
    for place, portion in enumerate(portioned):
        beside = mixed.beside(portion)
        for draft, mean in enumerate((1.0, *context.instance.drafts)):
            for overlap in (False, True) if mixed.decoder.ffn.overlaps.any() else (False,):
                yield Option(place, portion, beside, draft, mean, overlap)


def _kept_up(mixed: Mixed, option: Option, most: Ints, below: float) -> Ints:
    """Largest batches, at most these, with which prefill is less busy than `below`: busy grows in proportion."""
    one = mixed.busy(np.ones_like(most), option.portion, option.mean)
    found: Ints = np.minimum(most, np.floor(below / one) + 1).astype(np.int64)
    while True:
        late = (mixed.busy(found, option.portion, option.mean) >= below) & (found > 0)
        if not late.any():
            return found
        found = found - late


def _within(
    mixed: Mixed, option: Option, most: Ints, limits: tuple[float, ...], rows: Ints, best: Best
) -> tuple[Ints, Floats, Floats]:
    """Largest batches of these rows within both limits, TPOT and TTFT; 0 where none is, or none beats the best so far.

    Seconds a sequence never rise with the batch (`Decoder`): the rate at the largest bounds those at all others, and
    only where it is higher than the best so far is a smaller batch looked for, from that of the best on.
    """
    found = np.zeros_like(most)
    tpot, ttft = option.times(mixed, np.maximum(most, 1))
    good = (tpot <= limits[0]) & (ttft <= limits[1])
    found[rows] = np.where(good, most, 0)[rows]
    rate = most * mixed.decoder.table.dp / tpot
    rows = rows[~good[rows] & (most[rows] > 1) & (rate[rows] > best.rate[rows])]
    if not len(rows):
        return found, tpot, ttft
    some, own = mixed.take(rows), option.take(rows)

    def over(batch: Ints) -> tuple[Bools, Floats]:
        each, first = own.times(some, batch)
        good = (each <= limits[0]) & (first <= limits[1])
        return good, np.maximum(each / limits[0], first / limits[1]) - 1

    above = np.maximum(tpot[rows] / limits[0], ttft[rows] / limits[1]) - 1
    found[rows] = crossing(over, most[rows], above, best.batch[rows].astype(np.int64))
    tpot[rows], ttft[rows] = own.times(some, np.maximum(found[rows], 1))
    return found, tpot, ttft


def _config(
    context: Context,
    table: Table,
    rooms: dict[tuple[int, bool], Rooms],
    best: Best,
    row: int,
    options: list[Portion],
    least: Floats,
) -> Config:
    shape, kv = table.shapes[row], table.setting.numerics.kv
    batch, draft, overlap = int(best.batch[row]), int(best.draft[row]), bool(best.overlap[row])
    room, chunk = rooms[draft, overlap], options[int(best.portion[row])].chunk
    if not batch:
        why, (tpot_s, ttft_s) = _reasons(context, room, row, options, least), least.tolist()
        return context.refuse("colocated", shape, why, kv, ttft_s=ttft_s, tpot_s=tpot_s)
    bound, slo = binds(context, room, row, best), context.demand.slo
    if bound == "tpot" and slo.ttft_s is not None and best.ttft_s[row] > CLOSE * slo.ttft_s:
        bound = "ttft"
    elif bound in ("tpot", "none") and best.full[row]:
        bound = "prefill"
    tokens = float(best.rate[row])
    rate = tokens / context.demand.workload.output_tokens
    return Enumerated(
        context.place,
        "colocated",
        shape,
        batch,
        {shape.gpu: shape.gpus},
        prefill_per_s=rate,
        decode_per_s=rate,
        ttft_s=float(best.ttft_s[row]),
        tpot_s=float(best.tpot_s[row]),
        tokens_per_s=tokens,
        chunk=math.ceil(chunk),
        draft=draft,
        overlap=overlap,
        kv=kv,
        memory=lambda: {shape.gpu: room.at(row, batch, chunk)},
        binds=bound,
        parts_s=lambda: best.parts_of(row),
        legal_in=lambda: context.legal_in(table, row, draft, overlap),
    )


def _reasons(context: Context, room: Rooms, row: int, options: list[Portion], least: Floats) -> tuple[str, ...]:
    smallest = min(portion.chunk for portion in options)
    if room.at(row, 1, smallest).free < 0:
        return (room.reason(row, smallest),)
    slo, found = context.demand.slo, []
    if slo.tpot_s is not None and least[0] > slo.tpot_s:
        found.append(late(context, float(least[0])))
    if slo.ttft_s is not None and least[1] > slo.ttft_s:
        found.append(f"TTFT is {least[1] * 1e3:.4g} ms with one sequence, above {slo.ttft_s * 1e3:.4g} ms")
    if not found:
        said = " and ".join(
            f"{name} of {limit * 1e3:.4g} ms" for name, limit in (("TPOT", slo.tpot_s), ("TTFT", slo.ttft_s)) if limit
        )
        found.append(f"no chunk keeps {said or 'up with decoding'} together, even with one sequence")
    return tuple(found)
