"""A judged plan as JSON-ready data: times, use of resources, formulas, the sweep, the second best, the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from moeopt.microbatch import closed_forms, published
from moeopt.microbatch.bounds import Argument, bound
from moeopt.microbatch.candidates import Candidate
from moeopt.microbatch.cycle_ratio import cycle_ratio
from moeopt.microbatch.graph import SYNC
from moeopt.microbatch.heuristics.sweep import SweepRow, ranked
from moeopt.microbatch.instance import MicrobatchInstance
from moeopt.microbatch.plan import MicrobatchPlan
from moeopt.microbatch.verify import Evaluation

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
    argument = proved[candidate]
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
        **_cycle(instance, candidate),
        "bound": {"seconds": float(argument.seconds), "kind": argument.kind, "where": argument.where},
        "published": _published(instance, candidate),
        "fewest_m": _fewest(instance, candidate),
        "overlap": overlap(instance, judged, rows),
        "runner_up": _runner_up(instance, judged, rows),
        "other_m": _runner_up(instance, judged, rows, other_m=True),
        "sweep": [_row(row, proved) for row in rows],
        "order": "first come, first served" if plan.sequences is None else "as listed in sequences",
        "sequences": None if plan.sequences is None else [list(row) for row in plan.sequences],
        "timeline": timeline(judged),
    }


def timeline(judged: Evaluation) -> dict[str, Any]:
    """Rows ``[resource, micro_batch, layer, stage, start_s, end_s]``, by number, in the order in which they start.

    Resources and stages are listed by name; what is not split has no micro-batch, ``-1``, and no row if it takes no
    time.
    """
    graph, done = judged.schedule.graph, judged.schedule
    lap = graph.lap
    items = []
    for item in sorted(range(graph.num_items), key=lambda one: (done.start[one], done.end[one], one)):
        layer, stage, micro_batch = graph.place(item)
        unsplit = lap.stages[stage].name == SYNC
        if unsplit and done.start[item] == done.end[item]:
            continue
        times = [judged.seconds(done.start[item]), judged.seconds(done.end[item])]
        items.append([graph.resource(item), -1 if unsplit else micro_batch, layer, stage, *times])
    return {"resources": list(lap.resources), "stages": [stage.name for stage in lap.stages], "items": items}


def _cycle(instance: MicrobatchInstance, candidate: Candidate) -> dict[str, Any]:
    """What one more layer costs, and what sets it."""
    form = closed_forms.form_of(instance, candidate)
    if form is None:
        lap = instance.graph(candidate).lap
        known = lap.in_turn and instance.layer_scale is None and len(lap.items) <= MOST_OF_A_LAP
        return {"cycle_s": float(cycle_ratio(lap).value) if known else None, "round_trip_s": None, "busiest_s": None}
    return {
        "cycle_s": float(form.cycle),
        "round_trip_s": float(form.round_trip),
        "busiest_s": float(form.busiest),
    }


def overlap(instance: MicrobatchInstance, judged: Evaluation, rows: Sequence[SweepRow]) -> dict[str, Any] | None:
    """What cutting up is worth: against one part, and from which batch on it pays; ``None`` without m = 1 in the sweep.

    ``gain`` compares seconds per token, of the same batch where batches are given. ``pays_from`` is the smallest batch
    from which on some m > 1 is faster at every candidate batch; ``None`` where it does not pay at the largest one.
    """
    single = {row.candidate.batch: row for row in rows if row.candidate.m == 1}
    batch = judged.candidate.batch if instance.batches is not None else instance.micro_batch
    if batch not in single:
        return None
    ours, alone = judged.time / judged.candidate.batch, single[batch].time / batch
    gain = float(alone / ours - 1) if ours else 0.0
    if instance.batches is None:
        return {"gain": gain, "pays_from": None}
    pays_from = None
    for size in sorted(single, reverse=True):
        cut = [row.time for row in rows if row.candidate.batch == size and row.candidate.m > 1]
        if not cut or min(cut) >= single[size].time:
            break
        pays_from = size
    return {"gain": gain, "pays_from": pays_from}


def _four(instance: MicrobatchInstance, candidate: Candidate) -> tuple[Any, ...] | None:
    """The four times of a micro-batch where all are alike."""
    if closed_forms.form_of(instance, candidate) is None or instance.pattern not in ("ping-pong", "dual"):
        return None
    times = instance.durations(candidate)
    return tuple(times[name][0] for name in FOUR)


def _published(instance: MicrobatchInstance, candidate: Candidate) -> dict[str, Any] | None:
    four = _four(instance, candidate)
    if four is None:
        return None
    if instance.pattern == "dual":
        return published.dual(candidate.m, instance.layers, *four).to_dict(published.DUAL_SOURCE)
    return published.ping_pong(candidate.m, instance.layers, *four).to_dict(published.PING_PONG_SOURCE)


def _fewest(instance: MicrobatchInstance, candidate: Candidate) -> dict[str, Any] | None:
    """Fewest micro-batches, of the size chosen, that keep the busiest resource busy."""
    four = _four(instance, candidate)
    if four is None or instance.pattern != "ping-pong":
        return None
    ours, theirs = closed_forms.fewest_m(four), published.fewest_m(*four)
    return {"ours": ours, "published": theirs, "micro_batch": candidate.sizes[0]}


def _row(row: SweepRow, proved: Mapping[Candidate, Argument]) -> dict[str, Any]:
    candidate, time = row.candidate, float(row.time)
    return {
        "m": candidate.m,
        "batch": candidate.batch,
        "micro_batch": candidate.sizes[0],
        "time_s": time,
        "throughput": candidate.batch / time if time else None,
        "cycle_s": None if row.form is None else float(row.form.cycle),
        "lower_bound_s": float(proved[candidate].seconds) if candidate in proved else None,
        "how": row.how,
        "why_not": row.why_not,
    }


def _runner_up(
    instance: MicrobatchInstance, judged: Evaluation, rows: Sequence[SweepRow], *, other_m: bool = False
) -> dict[str, Any] | None:
    """The best of the other candidates, or of those with another m, and why it is behind."""
    taken = judged.candidate
    others = [row for row in ranked(instance, rows) if row.candidate != taken]
    if other_m:
        others = [row for row in others if row.candidate.m != taken.m]
    if not others:
        return None
    row = others[0]
    candidate, time = row.candidate, float(row.time)
    worth = row.time / candidate.batch if instance.objective == "throughput" else row.time
    behind = float(worth / judged.objective - 1) if judged.objective else (None if worth else 0.0)
    return {
        "m": candidate.m,
        "batch": candidate.batch,
        "time_s": time,
        "throughput": candidate.batch / time if time else None,
        "objective": float(worth),
        "behind": behind,
        "reason": reason(instance, row, judged, behind),
    }


def reason(instance: MicrobatchInstance, row: SweepRow, judged: Evaluation, behind: float | None) -> str:
    """Why a candidate is not the best one, in a sentence."""
    if behind is None:
        return "it takes time, the plan takes none"
    if behind < 0:
        return f"{-100 * behind:.3g} % shorter: the plan is not the best of the candidates"
    if not behind:
        return "as good; the choice between equals goes to the other objective, then to fewer micro-batches"
    m, form = row.candidate.m, row.form
    said = f"{100 * behind:.3g} % longer a {'step' if instance.objective == 'time' else 'token'}"
    chosen = closed_forms.form_of(instance, judged.candidate)
    parts = f"{m} parts of {row.candidate.sizes[0]} tokens" if m > 1 else f"one part of {row.candidate.batch} tokens"
    if form is None or chosen is None:
        return f"{said}, with {parts}"
    if instance.pattern in ("ping-pong", "dual") and form.cycle > m * form.busiest:
        part = 100 * float(m * form.busiest / form.cycle)
        return f"{said}: transfers show with {parts}, the busiest resource works {part:.3g} % of a layer"
    if instance.objective == "time":
        return f"{said}: a layer costs {float(form.cycle):.4g} s with {parts}, not {float(chosen.cycle):.4g} s"
    ours, theirs = (
        float(one.busiest / candidate.sizes[0])
        for one, candidate in ((form, row.candidate), (chosen, judged.candidate))
    )
    if ours > theirs:
        return f"{said}: with {parts} the busiest resource takes {ours:.4g} s a token, not {theirs:.4g} s"
    return f"{said}: with {parts} filling and draining the pipeline weigh more"


def notes(instance: MicrobatchInstance, judged: Evaluation) -> list[str]:
    """What a reader may not expect."""
    if judged.candidate.m == 1:
        return ["no overlap with m = 1: nothing runs while the only micro-batch is elsewhere"]
    return []


def memory_conflict(instance: MicrobatchInstance) -> dict[str, Any]:
    """The smallest batch does not fit."""
    assert instance.bytes_per_sequence is not None and instance.memory_bytes is not None
    least = min(one.batch for one in instance.candidates)
    need = least * instance.bytes_per_sequence
    room = int(instance.memory_bytes // instance.bytes_per_sequence)
    message = (
        f"the smallest batch, {least}, needs {need:.6g} bytes, memory_bytes is {instance.memory_bytes:.6g}: "
        f"room for {room} sequences"
    )
    return {"rule": "memory_bytes", "message": message, "shortfall": need - instance.memory_bytes, "best": need}


def tbt_conflict(instance: MicrobatchInstance, rows: Sequence[SweepRow]) -> dict[str, Any]:
    """The limit on the time of a step is below what any candidate can do."""
    assert instance.tbt_slo_s is not None
    best = min((row for row in rows if row.why_not != "memory"), key=lambda row: row.time)
    time, one = float(best.time), best.candidate
    floor = min(bound(instance, row.candidate).seconds for row in rows if row.why_not != "memory")
    order = "" if floor == best.time else f"; no order of service gets below {float(floor):.6g} s"
    message = (
        f"tbt_slo_s = {instance.tbt_slo_s:.6g} s is below the best possible, {time:.6g} s "
        f"with m = {one.m} and a batch of {one.batch}{order}"
    )
    return {"rule": "tbt_slo_s", "message": message, "shortfall": time - instance.tbt_slo_s, "best": time}
