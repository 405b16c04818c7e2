"""The highest rate that keeps the service levels, by bisection over simulations of the same requests."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from moeopt.cost.checks import positive, probability
from moeopt.errors import Violations
from moeopt.mesh.goodput.requests import Requests
from moeopt.mesh.goodput.service import Service
from moeopt.mesh.goodput.simulate import Served, simulate
from moeopt.mesh.workload import Slo

SKIP = 0.1
"""Part of the requests at the beginning that is not counted: the service is empty then."""
STEADY = 10
"""Times that a request stays within the arrivals of all, below which the service hardly settles: then it is noted."""
SLOWEST = 2.0**-12
"""Rates are looked for down to this part of what the pools can do at most."""
DRAIN = 0.05
"""A service keeps up if what is left after the last arrival is done within this part of the whole time, and the time
that a request takes in a full batch."""


@dataclass(frozen=True)
class Goodput:
    """The answer, and how it looks at that rate.

    Parameters
    ----------
    rate_per_s
        Highest simulated rate at which enough requests keep the levels; 0 where none does.
    failed_per_s
        Lowest simulated rate above it that fails; ``None`` where nothing failed up to what the pools can do.
    binds
        What fails there: ``ttft``, ``tpot``, or ``capacity``: requests pile up.
    attainment, ttft_kept, tpot_kept
        Parts of requests that keep both levels, TTFT and TPOT; at `rate_per_s`, or at the slowest rate if that is 0.
    ttft_s, tpot_s
        Percentiles 50, 90 and 99.
    batch, busiest
        Mean sequences of a rank in a step, and of the busiest rank.
    requests, simulations, source
        How much was simulated, and of what.
    notes
        What to know.
    """

    rate_per_s: float
    failed_per_s: float | None
    binds: Literal["ttft", "tpot", "capacity"]
    attainment: float
    ttft_kept: float
    tpot_kept: float
    ttft_s: tuple[float, float, float]
    tpot_s: tuple[float, float, float]
    batch: float
    busiest: float
    requests: int
    simulations: int
    source: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """A strict JSON document."""
        return {**vars(self), "ttft_s": list(self.ttft_s), "tpot_s": list(self.tpot_s), "notes": list(self.notes)}


def goodput(
    service: Service,
    requests: Requests,
    slo: Slo,
    *,
    tolerance: float = 0.01,
    skip: float = SKIP,
    seed: int = 0,
) -> Goodput:
    """Highest rate of these requests at which the part `slo.attainment` of them keeps both service levels.

    Parameters
    ----------
    service, requests, slo
        Who serves, who comes (their times are stretched to every rate), and what is promised.
    tolerance
        The rate is found to this relative precision.
    skip
        Part of the first requests that is not counted.
    seed
        Of the choice of ranks, where it is at random.

    Raises
    ------
    InstanceError
        A tolerance that is not above 0, a part outside [0, 1).

    Notes
    -----
    Strength: an estimate on finitely many requests. All rates see the same requests, so that the answer is repeatable
    and the comparison of two services is sharper than either figure; attainment need not fall strictly with the rate,
    and then this is one rate that keeps the levels beside one, within the tolerance, that does not.

    >>> flow = Requests.poisson(2000, input_tokens=100, output_tokens=2)
    >>> one = Service(step_s=[1e-3], slots=1, prefill_servers=1, prefill_s=0.01)
    >>> found = goodput(one, flow, Slo(ttft_s=0.05))
    >>> 70 < found.rate_per_s < 90, found.binds
    (True, 'ttft')
    """
    check = Violations()
    positive(check, tolerance=tolerance)
    probability(check, skip=skip)
    if not check.found and skip == 1:
        check.add("skip", skip, rule="leaves no request", fix="Use 0.1")
    check.raise_if_any()
    search = _Search(service, requests, slo, skip, seed)
    high = most_rate(service, requests)
    if search.keeps(high):
        return search.answer(high, None)
    low, failed = high * SLOWEST, high
    if not search.keeps(low):
        return search.answer(0.0, low)
    while failed > low * (1 + tolerance):
        middle = math.sqrt(low * failed)
        if search.keeps(middle):
            low = middle
        else:
            failed = middle
    return search.answer(low, failed)


def most_rate(service: Service, requests: Requests) -> float:
    """Requests a second that no order of work can exceed with these times: either pool busy without a pause."""
    ranks = service.replicas * service.ranks
    steps: Any = service.step_s
    further = float(np.mean(requests.output_tokens - 1))
    decoded = max(batch / steps[batch] for batch in range(1, service.slots + 1))
    limits = [ranks * decoded / further] if further else []
    if service.prefill_servers:
        if service.prefill_tokens is None:
            limits.append(service.prefill_servers / max(float(np.mean(_prefill(service, requests))), 1e-12))
        else:  # as many prompts as go together, in the time of the shortest of them alone
            shortest = float(_prefill(service, requests).min())
            prompts = max(service.prefill_tokens // int(requests.input_tokens.min()), 1)
            limits.append(service.prefill_servers * prompts / max(shortest, 1e-12))
    else:
        assert service.chunk is not None
        chunks = float(np.mean(-(-requests.input_tokens // service.chunk)))
        mixed: Any = service.mixed_step_s
        limits.append(ranks / (chunks * min(mixed)))
    return float(min(limits))


def _prefill(service: Service, requests: Requests) -> Any:
    return service.prefill_seconds(requests.input_tokens)


class _Search:
    """Simulations by rate."""

    def __init__(self, service: Service, requests: Requests, slo: Slo, skip: float, seed: int) -> None:
        self.service, self.requests, self.slo = service, requests, slo
        self.skip, self.seed = skip, seed
        self.seen: dict[float, Served] = {}

    def keeps(self, rate_per_s: float) -> bool:
        served = simulate(self.service, self.requests.at_rate(rate_per_s), seed=self.seed)
        self.seen[rate_per_s] = served
        return served.kept(self.slo, self.skip)[2] >= self.slo.attainment and self._keeps_up(served)

    def _keeps_up(self, served: Served) -> bool:
        whole_s = float(served.arrival_s[-1])
        longest_s = float(self.service.step_s[-1] * served.output_tokens.max())  # type: ignore[index]
        first_s = float(np.min(served.ttft_s))
        return float(served.last_s.max()) - whole_s <= DRAIN * whole_s + longest_s + first_s

    def answer(self, rate_per_s: float, failed_per_s: float | None) -> Goodput:
        shown = self.seen[rate_per_s or failed_per_s or 0.0]
        start = int(self.skip * len(shown.arrival_s))
        soon, often, both = shown.kept(self.slo, self.skip)
        return Goodput(
            rate_per_s,
            failed_per_s,
            "capacity" if failed_per_s is None else self._binds(self.seen[failed_per_s]),
            both,
            soon,
            often,
            _percentiles(shown.ttft_s[start:]),
            _percentiles(shown.tpot_s[start:]),
            shown.batch,
            shown.busiest,
            len(self.requests),
            len(self.seen),
            self.requests.source,
            self._notes(shown, rate_per_s),
        )

    def _notes(self, shown: Served, rate_per_s: float) -> tuple[str, ...]:
        if not rate_per_s:
            return ("no rate keeps the service levels: the figures are those of the slowest one that was simulated",)
        stays = float(np.mean(shown.last_s - shown.arrival_s))
        times = float(shown.arrival_s[-1]) / stays if stays else math.inf
        if times >= STEADY:
            return ()
        more = math.ceil(len(self.requests) * STEADY / max(times, 1e-9))
        return (
            f"all requests arrive within {times:.2g} times that one stays, so the service has hardly settled: "
            f"simulate {more:,} of them or more",
        )

    def _binds(self, served: Served) -> Literal["ttft", "tpot", "capacity"]:
        soon, often, both = served.kept(self.slo, self.skip)
        if both >= self.slo.attainment:
            return "capacity"
        return "ttft" if soon < often else "tpot"


def _percentiles(values: Any) -> tuple[float, float, float]:
    low, high, most = np.percentile(values, (50, 90, 99)).tolist()
    return low, high, most
