"""Goodput of a whole plan: every pool simulated by one replica and its part of the requests, on the way to one rate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.cost.checks import whole
from moeopt.errors import NotApplicable, Violations
from moeopt.mesh.goodput.parts import Floats, part_of
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.plan import MeshPlan, Pool
from moeopt.mesh.workload import Slo
from moeopt.percent import percent

REQUESTS = 2000
"""Requests of a replica that are counted, unless asked otherwise."""
TOLERANCE = 0.01
STEP = 1.15
"""Factor between rates until one keeps the levels and one does not."""
TRIES = 40
CLOSE = 0.97
"""Part of what pools can do at most from which queues need more requests than usual to show."""
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class PlanGoodput:
    """What a demand gets from its pools when requests come at random.

    Parameters
    ----------
    demand
        Place in the instance's demands.
    attainment
        Part of the requests that has to keep both service levels.
    rate_per_s, means_per_s
        Highest simulated rate at which it does (0: none was found), and the rate of means that the plan states.
    binds
        What fails above it: ``ttft``, ``tpot``, or ``capacity``, more than pools can do at most.
    kept, ttft_kept, tpot_kept
        Parts of requests that keep both, TTFT and TPOT at that rate; at the slowest one where it is 0.
    at_means
        Part that keeps both at the rate of means.
    ttft_s, tpot_s
        Percentiles 50, 90 and 99 at that rate; ``None`` for a phase that nothing serves.
    requests
        Requests counted of a replica and rate.
    simulations, seed
        Rates that were simulated, and of which draws.
    notes
        What to know.
    """

    demand: int
    attainment: float
    rate_per_s: float
    means_per_s: float
    binds: str
    kept: float
    ttft_kept: float
    tpot_kept: float
    at_means: float
    ttft_s: tuple[float, ...] | None
    tpot_s: tuple[float, ...] | None
    requests: int
    simulations: int
    seed: int
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A strict JSON document."""
        return {key: list(value) if isinstance(value, tuple) else value for key, value in vars(self).items()}


def simulate_plan(
    instance: MeshInstance,
    plan: MeshPlan,
    *,
    attainment: float | None = None,
    requests: int = REQUESTS,
    seed: int = 0,
    on_step: Callable[[int], None] | None = None,
) -> list[PlanGoodput]:
    """The highest rate of every demand at which enough requests keep TTFT and TPOT.

    Parameters
    ----------
    instance, plan
        What is bought, of usable configurations.
    attainment
        Part of the requests; ``None``: that of the demand's service levels, 0.9 unless it says otherwise.
    requests
        How many of each replica are counted, at every rate.
    seed
        Of arrivals.
    on_step
        Told how many rates have been simulated.

    Raises
    ------
    NotApplicable
        Configurations are given, so that nothing is known of their single steps.
    InstanceError
        A part outside (0, 1], fewer than one request.

    Notes
    -----
    Requests go to the pools of a phase in proportion to what these serve, to the replicas of a pool in turn, and to
    ranks as in `Service`; so one replica stands for its pool, with Poisson arrivals at its part of the rate. Decoding
    begins with as many sequences as that rate keeps in flight, their ends spread evenly, and arrivals go on until those
    that are counted are done. Strength: an estimate on finitely many requests of one length; prefill and decode count
    as independent, so that a request in pools keeps both levels with the product of the parts that keep either. A step
    takes the time of the busiest rank's batch; where attention and experts are apart, or caches are split over tokens,
    that of the configuration's batch, which is not below it.
    """
    check = Violations()
    whole(check, requests=requests)
    if attainment is not None and not 0 < attainment <= 1:
        fix = "Give a part of the requests, as 0.9"
        check.refuse("attainment", attainment, rule="must be a number above 0, at most 1", fix=fix)
    check.raise_if_any()
    if instance.configs is not None:
        raise NotApplicable("configurations that are given have no times of single steps, so they are not simulated")
    done = itertools.count(1)

    def told() -> None:
        if on_step is not None:
            on_step(next(done))

    found = []
    for place, demand in enumerate(instance.demands):
        mine = [pool for pool in plan.pools if pool.config.demand == place]
        slo = demand.slo if attainment is None else replace(demand.slo, attainment=attainment)
        found.append(_Search(instance, mine, slo, requests, seed, told).answer(place))
    return found


@dataclass(frozen=True)
class _Tried:
    """A rate: samples by phase, each with its weight."""

    soon: float
    often: float
    both: float
    ttft: list[tuple[float, Floats]]
    tpot: list[tuple[float, Floats]]


class _Search:
    """Rates tried for one demand."""

    def __init__(
        self, instance: MeshInstance, pools: Sequence[Pool], slo: Slo, count: int, seed: int, told: Callable[[], None]
    ) -> None:
        self.slo, self.count, self.seed, self.told = slo, count, seed, told
        self.notes: list[str] = []
        self.seen: dict[float, _Tried] = {}
        whole = [pool for pool in pools if pool.config.prefill_per_s > 0 and pool.config.decode_per_s > 0]
        first = [pool for pool in pools if pool.config.family == "prefill"]
        then = [pool for pool in pools if pool not in whole and pool not in first]
        served = [sum(_rate(pool) * pool.replicas for pool in some) for some in (whole, first, then)]
        pairs = min(served[1], served[2]) if first and then else max(served[1:])
        self.means = served[0] + pairs
        self.weights = (served[0] / self.means, pairs / self.means)
        parts = []
        for some, total, weight in zip((whole, first, then), served, (*self.weights, self.weights[1]), strict=True):
            shares = [_rate(pool) / total * weight for pool in some]
            parts.append([(pool.replicas, part_of(instance, pool.config, share, self.notes))
                          for pool, share in zip(some, shares, strict=True)])  # fmt: skip
        self.whole, self.first, self.then = parts
        self.most = min(part.most() / part.share for _, part in (*self.whole, *self.first, *self.then))

    def answer(self, demand: int) -> PlanGoodput:
        at_means = self.tried(self.means)
        low, failed = self._bracket()
        while low and failed is not None and failed > low * (1 + TOLERANCE):
            middle = math.sqrt(low * failed)
            if self.keeps(middle):
                low = middle
            else:
                failed = middle
        shown = self.tried(low or min(self.seen))
        above = None if failed is None or failed not in self.seen else self.seen[failed]
        binds = "capacity"
        if above is not None and above.both < self.slo.attainment:
            binds = "ttft" if above.soon < above.often else "tpot"
        if not low:
            self.notes.append("no rate that was simulated keeps the service levels")
        elif low > CLOSE * self.most:
            self.notes.append(
                f"{low:.4g} requests/s are {percent(low / self.most)} of what these pools can do at most, where queues "
                f"grow slowly: more than {self.count:,} requests a replica would show it"
            )
        return PlanGoodput(
            demand, self.slo.attainment, low, self.means, binds, shown.both, shown.soon, shown.often, at_means.both,
            _percentiles(shown.ttft), _percentiles(shown.tpot), self.count, len(self.seen), self.seed,
            tuple(dict.fromkeys(self.notes)),
        )  # fmt: skip

    def _bracket(self) -> tuple[float, float | None]:
        """A rate that keeps the levels, and one above it that does not, from that of means on."""
        most = self.most
        rate = min(self.means, most)
        if self.keeps(rate):
            while rate < most:
                above = min(rate * STEP, most)
                if not self.keeps(above):
                    return rate, above
                rate = above
            return rate, None
        for _ in range(TRIES):
            below = rate / STEP
            if self.keeps(below):
                return below, rate
            rate = below
        return 0.0, rate

    def keeps(self, rate_per_s: float) -> bool:
        return self.tried(rate_per_s).both >= self.slo.attainment

    def tried(self, rate_per_s: float) -> _Tried:
        if rate_per_s not in self.seen:
            self.seen[rate_per_s] = self._try(rate_per_s)
            self.told()
        return self.seen[rate_per_s]

    def _try(self, rate_per_s: float) -> _Tried:
        ttft: list[tuple[float, Floats]] = []
        tpot: list[tuple[float, Floats]] = []
        whole, soon_whole, often_whole = 0.0, 0.0, 0.0
        for replicas, part in self.whole:
            first, each = part.run(rate_per_s * part.share, self.count, self.seed)
            weight = replicas * part.share
            soon, often = _kept(first, self.slo.ttft_s), _kept(each, self.slo.tpot_s)
            soon_whole += weight * float(soon.mean())
            often_whole += weight * float(often.mean())
            whole += weight * float((soon & often).mean())
            ttft.append((weight, first))
            tpot.append((weight, each))
        sides = []
        for some, samples, level, which in (
            (self.first, ttft, self.slo.ttft_s, 0),
            (self.then, tpot, self.slo.tpot_s, 1),
        ):
            kept = 0.0 if some else 1.0
            for replicas, part in some:
                values = part.run(rate_per_s * part.share, self.count, self.seed)[which]
                weight = replicas * part.share / self.weights[1]
                kept += weight * float(_kept(values, level).mean())
                samples.append((weight * self.weights[1], values))
            sides.append(kept)
        pairs = self.weights[1]
        return _Tried(
            soon_whole + pairs * sides[0],
            often_whole + pairs * sides[1],
            whole + pairs * sides[0] * sides[1],
            ttft,
            tpot,
        )


def _rate(pool: Pool) -> float:
    return max(pool.config.prefill_per_s, pool.config.decode_per_s)


def _kept(values: Floats, level: float | None) -> NDArray[np.bool_]:
    return np.ones(len(values), dtype=bool) if level is None else values <= level * (1 + 1e-9)


def _percentiles(samples: list[tuple[float, Floats]]) -> tuple[float, ...] | None:
    """Of all samples together, by their weights."""
    if not samples:
        return None
    values = np.concatenate([found for _, found in samples])
    weights = np.concatenate([np.full(len(found), weight / len(found)) for weight, found in samples])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    places = np.minimum(np.searchsorted(reached, np.array(PERCENTILES) / 100), len(values) - 1)
    return tuple(values[order][places].tolist())
