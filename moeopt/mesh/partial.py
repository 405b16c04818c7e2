"""Instances whose families were not finished in time: what is there, and what can be said of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

from moeopt.limits import Deadline
from moeopt.mesh.beside import prepare
from moeopt.mesh.heuristics.per_price import per_price
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import is_partial, market_of
from moeopt.mesh.plan import MeshPlan, plan_of
from moeopt.registry import Context, Outcome
from moeopt.result import Stop

REST = 0.75
"""What everything else takes at most, as a part of the time that enumerating has taken."""
OUT_OF_TIME = "time ran out after configurations were enumerated"
"""How the note of such an answer begins."""
NOT_RECHECKED = ("families", "beside_colocated", "simplest", "ranking", "ranking_left_out", "pareto", "sensitivity")
"""Parts of a solution that say something about the configurations there were."""
TRIVIAL = {"kind": "trivial", "value": "0"}
"""Certificate of the bound 0, where configurations that nobody looked at might be better than any."""

Run = Callable[[MeshInstance, Context], Outcome[MeshPlan]]


def enumerated(instance: MeshInstance, deadline: Deadline) -> MeshInstance:
    """The instance with its configurations, or another one that has those of the families finished in time."""
    if instance.configs is not None or "configs" in instance.memo or not deadline.watched:
        return instance
    from moeopt.mesh.families import within

    start_s, left_s = deadline.elapsed_s(), deadline.remaining_s()
    found, whole = within(instance, deadline.within(left_s / (1 + REST) if deadline.limited else None))
    took_s = deadline.elapsed_s() - start_s
    if len(instance.gpus) > 1 and not deadline.allows_import("scipy.optimize"):
        took_s = math.inf
    if whole:
        instance.memo["configs"] = tuple(found)
        if deadline.remaining_s() > REST * took_s:
            prepare(instance, deadline, REST * took_s)
            return instance
    cut = copy.copy(instance)
    cut.__dict__["memo"] = {"configs": tuple(found), "partial": True}
    return cut


def in_time(run: Run) -> Run:
    """A method that, where configurations are missing, takes the most requests per price of those that are there."""

    def found(instance: MeshInstance, context: Context) -> Outcome[MeshPlan]:
        if not is_partial(instance):
            return run(instance, context)
        market = market_of(instance)
        counts = per_price(market.pruned, enough=instance.objective != "goodput") if market.offers else None
        families = ", ".join(dict.fromkeys(config.family for config in instance.memo["configs"])) or "none"
        note = f"{OUT_OF_TIME}: of {families}; the plan has the most requests per price of these"
        return Outcome(None if counts is None else plan_of(instance, counts), Stop.TIME, notes=[note])

    return found


def applies(check: Callable[[MeshInstance], str | None]) -> Callable[[MeshInstance], str | None]:
    """Whether a method works on an instance; on a partial one `in_time` does."""
    return lambda instance: None if is_partial(instance) else check(instance)


def cut_short(document: Mapping[str, Any]) -> bool:
    """Whether a document says that its configurations were not all there."""
    return document["stop"] in ("TIME", "INTERRUPTED") and any(one.startswith(OUT_OF_TIME) for one in document["notes"])
