"""First tokens that come so late that nobody can have meant it: said, with a plan that has them ten times sooner."""

from __future__ import annotations

from dataclasses import replace

from moeopt.limits import Deadline
from moeopt.mesh import purchase
from moeopt.mesh.heuristics.per_price import per_price
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import is_partial, market_of
from moeopt.mesh.plan import plan_of
from moeopt.mesh.verify import Evaluation, evaluate

SENSIBLE_S = 10.0
"""A TTFT that some application may live with; above it, a plan without a limit says so."""
SOONER = 10
"""How many times sooner the plan beside it has its first token."""

NOW = "{now}"


def late_firsts(instance: MeshInstance, judged: Evaluation) -> dict[int, float]:
    """Seconds of the first token of demands that set no limit and wait beyond what is sensible."""
    found = {}
    for place, demand in enumerate(instance.demands):
        times = [pool.config.ttft_s or 0.0 for pool in judged.pools if pool.config.demand == place]
        if demand.slo.ttft_s is None and max(times, default=0.0) > SENSIBLE_S:
            found[place] = max(times)
    return found


def late_notes(instance: MeshInstance, judged: Evaluation) -> list[str]:
    """What is said of them."""
    return [
        f"the first token of {instance.demands[place].llm.name} takes {_seconds(ttft_s)} in the mean: no limit was set "
        "(ttft_s, --ttft), so prompts wait and are cut as throughput likes it"
        for place, ttft_s in late_firsts(instance, judged).items()
    ]


def sooner_notes(instance: MeshInstance, judged: Evaluation, deadline: Deadline) -> list[str]:
    """The best plan with a tenth of these times, as far as there is time to look for it."""
    late = late_firsts(instance, judged)
    if not late or is_partial(instance):
        return []
    limits = {place: float(f"{ttft_s / SOONER:.3g}") for place, ttft_s in late.items()}
    known = instance.memo.setdefault("sooner", {})
    key = tuple(sorted(limits.items()))
    if key not in known:
        known[key] = _best(_tight(instance, limits), late, deadline)
    return [text.replace(NOW, _worth(instance, judged)) for text in known[key]]


def _tight(instance: MeshInstance, limits: dict[int, float]) -> MeshInstance:
    """The same with these limits of the TTFT, by demand."""
    demands = list(instance.demands)
    for place, ttft_s in limits.items():
        demands[place] = replace(demands[place], slo=replace(demands[place].slo, ttft_s=ttft_s))
    return replace(instance, demands=tuple(demands))


def _best(tight: MeshInstance, late: dict[int, float], deadline: Deadline) -> list[str]:
    """The best plan within these limits, in words; `NOW` stands for what it is beside."""
    if not _enumerated(tight, deadline):
        return ["there was no time to look for a plan with a tenth of that"]
    limits = " and ".join(_seconds(demand.slo.ttft_s or 0) for k, demand in enumerate(tight.demands) if k in late)
    market = market_of(tight)
    served = {(offer.demand, phase) for offer in market.offers for phase in market.phases if offer.rounded[phase] > 0}
    if not set(market.rows) <= served:
        return [f"with a TTFT of at most {limits} there is no plan"]
    if purchase.no_table(tight) is None:
        counts = purchase.by_tables(tight)
    else:
        counts = per_price(market.pruned, enough=tight.objective != "goodput")
    if counts is None:
        return []
    plan = evaluate(tight, plan_of(tight, counts))
    pools = " + ".join(f"{pool.replicas:,} x {pool.config.label}" for pool in plan.pools)
    return [f"with a TTFT of at most {limits} there is a plan of {_worth(tight, plan)} instead of {NOW}: {pools}"]


def _enumerated(tight: MeshInstance, deadline: Deadline) -> bool:
    """Whether all its configurations are known in the time that is left."""
    if tight.configs is not None or not deadline.watched:
        return True
    if deadline.limited and deadline.remaining_s() < 2 * deadline.elapsed_s():
        return False
    from moeopt.mesh.families import within

    found, whole = within(tight, deadline.within(deadline.remaining_s() / 2 if deadline.limited else None))
    if whole:
        tight.memo["configs"] = tuple(found)
    return whole


def _worth(instance: MeshInstance, judged: Evaluation) -> str:
    """A plan in the words of its goal."""
    value = float(judged.objective)
    if instance.objective == "goodput":
        return f"{1 / value:.3g} requests/s"
    if instance.objective == "time":
        return f"{value * 1e3:.3g} ms a token"
    return f"{value:,.0f} GPUs" if instance.objective == "gpus" else f"price {value:,.6g}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"
