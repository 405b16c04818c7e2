"""A judged plan as JSON-ready data: times, use of resources, formulas, the sweep, the second best, the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from moeopt.microbatch import closed_forms, published, verify
from moeopt.microbatch.bounds import Argument, arguments
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.cycle_ratio import cycle_ratio
from moeopt.microbatch.graph import SYNC
from moeopt.microbatch.heuristics.sweep import SweepRow, ranked
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.second_best import second_best
from moeopt.microbatch.steady import steady_cycle
from moeopt.microbatch.times import Table, exact
from moeopt.microbatch.verify import Evaluation, in_ticks

MOST_OF_A_LAP = 1_000
"""Items of a lap up to which its cycle ratio is computed where there is no formula."""
FOUR = ("attention", "dispatch", "experts", "combine")


def unit(instance: MicrobatchInstance) -> str:
    """What the objective is counted in."""
    return "s/token" if instance.objective == "throughput" else "s"


def solution(
    instance: MicrobatchInstance,
    plan: MicrobatchPlan,
    judged: Evaluation,
    rows: Sequence[SweepRow],
    proved: Mapping[Candidate, Argument],
) -> dict[str, Any]:
    """Everything a reader asks of a plan."""
    candidate, span = judged.candidate, float(judged.time)
    argument, best = proved[candidate], ranked(instance, rows)
    return {
        "m": candidate.m,
        "batch": candidate.batch,
        "micro_batches": list(candidate.sizes),
        "pattern": instance.pattern,
        "num_layers": instance.layers,
        "time_s": span,
        "tbt_s": span,
        "throughput": candidate.batch / span if span else None,
        "utilisation": judged.utilisation,
        "sides": list(instance.kind.sides),
        "stages": {name: [float(time) for time in times] for name, times in instance.durations(candidate).items()},
        **_cycle(instance, candidate, plan),
        "bound": {"seconds": float(argument.seconds), "kind": argument.kind, "where": argument.where},
        "published": _published(instance, judged),
        "fewest_m": _fewest(instance, candidate),
        **_overlap(instance, judged, rows),
        "runner_up": second_best(instance, plan, judged, best),
        "other_m": second_best(instance, plan, judged, best, other_m=True),
        "sweep": [_row(instance, row, proved, plan) for row in rows],
        "order": "first come, first served" if plan.sequences is None else "as listed in sequences",
        "sequences": None if plan.sequences is None else [list(row) for row in plan.sequences],
        "timeline": timeline(judged),
    }


def timeline(judged: Evaluation) -> dict[str, Any]:
    """Rows ``[resource, micro_batch, layer, stage, start_s, end_s]``, by number, in the order in which they start.

    Resources and stages are listed by name; what is not split has no micro-batch, ``-1``, and no row if it takes no
    time. ``layers`` are those that are listed, ``None`` for all.
    """
    lap = judged.schedule.graph.lap
    index = {name: place for place, name in enumerate(lap.resources)}
    items = []
    for layer, stage, micro_batch, start, end in judged.schedule.shown():
        unsplit = lap.stages[stage].name == SYNC
        if not unsplit or start != end:
            named = [index[lap.stages[stage].resource], -1 if unsplit else micro_batch, layer, stage]
            items.append(((start, end, layer, stage, micro_batch), named))
    items.sort(key=lambda one: one[0])
    layers = judged.schedule.layers
    return {
        "resources": list(lap.resources),
        "stages": [stage.name for stage in lap.stages],
        "layers": None if layers is None else list(layers),
        "items": [[*named, judged.seconds(key[0]), judged.seconds(key[1])] for key, named in items],
    }


def cycle(instance: MicrobatchInstance, candidate: Candidate, plan: MicrobatchPlan) -> float | None:
    """What one more layer costs in the order of the plan; ``None`` where that is not known."""
    if instance.layer_scale is not None:
        return None
    if plan.sequences is not None:
        graph, ticks = in_ticks(instance.graph(candidate))
        found = steady_cycle(graph, plan.sequences)
        return None if found is None else float(found / ticks)
    form = closed_forms.form_of(instance, candidate)
    if form is not None:
        return float(form.cycle)
    if candidate.m * len(instance.kind.stages) > MOST_OF_A_LAP:
        return None
    lap = instance.graph(candidate).lap
    return float(cycle_ratio(lap).value) if lap.in_turn else None


def _cycle_of_row(instance: MicrobatchInstance, row: SweepRow) -> float | None:
    if row.sequences is not None:
        return cycle(instance, row.candidate, row.plan)
    return None if row.form is None else float(row.form.cycle)


def _cycle(instance: MicrobatchInstance, candidate: Candidate, plan: MicrobatchPlan) -> dict[str, Any]:
    """What one more layer costs, and the times of a micro-batch that set it."""
    form = closed_forms.form_of(instance, candidate)
    return {
        "cycle_s": cycle(instance, candidate, plan),
        "round_trip_s": None if form is None else float(form.round_trip),
        "busiest_s": None if form is None else float(form.busiest),
    }


def _overlap(instance: MicrobatchInstance, judged: Evaluation, rows: Sequence[SweepRow]) -> dict[str, Any]:
    found = overlap(instance, judged, rows)
    if isinstance(found, str):
        return {"overlap": None, "overlap_reason": found}
    return {"overlap": found, "overlap_reason": None}


def overlap(instance: MicrobatchInstance, judged: Evaluation, rows: Sequence[SweepRow]) -> dict[str, Any] | str:
    """What cutting up is worth: against one part, and from which batch on it pays; or why that is not known.

    ``gain`` compares seconds per token, of the same batch where batches are given. ``pays_from`` is the smallest batch
    from which on some m > 1 is faster at every candidate batch; ``None`` where it does not pay at the largest one, or
    where not every candidate was looked at.
    """
    taken, given = judged.candidate, instance.batches is not None
    single = {row.candidate.batch: row.time for row in rows if row.candidate.m == 1}
    batch = taken.batch if given else instance.micro_batch
    if batch not in single:
        return "m = 1 was not looked at"
    cut: dict[int, list[Fraction]] = {}
    for row in rows:
        if row.candidate.m > 1:
            cut.setdefault(row.candidate.batch, []).append(row.time)
    seen = {row.candidate for row in rows}
    if taken.m == 1:
        same = [one for one in instance.candidates if one.m > 1 and (not given or one.batch == batch)]
        if not any(one in seen for one in same):
            return "only m = 1 was looked at" + (f" with a batch of {batch}" if cut else "")
        if not all(one in seen for one in same):
            return "not every m was looked at"
    ours, alone = judged.time / taken.batch, single[batch] / batch
    gain = float(alone / ours - 1) if ours else 0.0
    pays_from = None
    if given and len(seen) == len(instance.candidates):
        for size in sorted(single, reverse=True):
            if size not in cut or min(cut[size]) >= single[size]:
                break
            pays_from = size
    return {"gain": gain, "pays_from": pays_from}


def _four(instance: MicrobatchInstance, candidate: Candidate) -> tuple[Any, ...] | None:
    """The four times of a micro-batch where all are alike."""
    if closed_forms.form_of(instance, candidate) is None or instance.pattern not in ("ping-pong", "dual"):
        return None
    times = instance.durations(candidate)
    return tuple(times[name][0] for name in FOUR)


def _published(instance: MicrobatchInstance, judged: Evaluation) -> dict[str, Any] | None:
    """The formula as published, against the time of the plan."""
    candidate = judged.candidate
    four = _four(instance, candidate)
    if four is None:
        return None
    a, d, e, b = four
    dual = instance.pattern == "dual"
    value = (published.dual if dual else published.ping_pong)(candidate.m, instance.layers, a, d, e, b, judged.time)
    return value.to_dict(published.DUAL_SOURCE if dual else published.PING_PONG_SOURCE)


def _fewest(instance: MicrobatchInstance, candidate: Candidate) -> dict[str, Any] | None:
    """Fewest micro-batches, of the size chosen, that keep the busiest resource busy."""
    four = _four(instance, candidate)
    if four is None or instance.pattern != "ping-pong":
        return None
    ours, theirs = closed_forms.fewest_m(four), published.fewest_m(*four)
    return {"ours": ours, "published": theirs, "micro_batch": candidate.largest}


def _row(
    instance: MicrobatchInstance, row: SweepRow, proved: Mapping[Candidate, Argument], plan: MicrobatchPlan
) -> dict[str, Any]:
    """A row; the sequences of the plan itself are listed with the plan."""
    candidate, time = row.candidate, float(row.time)
    listed = row.sequences is not None and row.plan != plan
    return {
        "m": candidate.m,
        "batch": candidate.batch,
        "micro_batch": candidate.largest,
        "time_s": time,
        "throughput": candidate.batch / time if time else None,
        "cycle_s": _cycle_of_row(instance, row),
        "lower_bound_s": float(proved[candidate].seconds) if candidate in proved else None,
        "how": row.how,
        "why_not": row.why_not,
        "order": "fcfs" if row.sequences is None else "own",
        "sequences": [list(one) for one in row.sequences or ()] if listed else None,
    }


def notes(instance: MicrobatchInstance, judged: Evaluation, rows: Sequence[SweepRow]) -> list[str]:
    """What a reader may not expect."""
    taken, found = judged.candidate, []
    if taken.m == 1:
        found.append("no overlap with m = 1: nothing runs while the only micro-batch is elsewhere")
    known = next(row for row in rows if row.candidate == taken)
    if known.time < judged.time:
        how = "first come, first served" if known.sequences is None else "in another order"
        found.append(f"the order of the plan is not the best known: {float(known.time):.6g} s {how}")
    more = _larger_m(instance, judged)
    if more is not None:
        found.append(f"m = {taken.m} is the largest m tried; {more} may be better")
    return found


def _larger_m(instance: MicrobatchInstance, judged: Evaluation) -> str | None:
    """The next m beyond those tried, where the best is the largest and a bound does not rule the next one out."""
    taken = judged.candidate
    if len(instance.m) == 1 or taken.m < max(instance.m):
        return None
    following = []
    if instance.batches is None:
        following.append(Candidate(taken.m + 1, (taken.m + 1) * instance.micro_batch))
    for batch in sorted({taken.batch, max(instance.batches)}) if instance.batches else ():
        beyond = range(taken.m + 1, min(batch, 2 * taken.m + 1) + 1)
        following += [Candidate(m, batch) for m in beyond if instance.uneven or batch % m == 0][:1]
    for one in following:
        if not verify.fits_memory(instance, one):
            continue
        sizes = {*one.sizes, one.batch} if {"rest", "exchange"} & set(instance.times) else set(one.sizes)
        tables = [model for model in instance.times.values() if isinstance(model, Table)]
        if not all(model.covers(size) for model in tables for size in sizes):
            return "more"
        argument = max(arguments(instance.graph(one)), key=lambda found: found.seconds).seconds
        slow = instance.tbt_slo_s is not None and argument > exact(instance.tbt_slo_s)
        if not slow and verify.worth(instance, one, argument) < judged.objective:
            return f"m = {one.m}" + (f" with a batch of {one.batch}" if instance.batches else "")
    return None
