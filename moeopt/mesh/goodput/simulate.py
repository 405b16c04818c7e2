"""The simulation: a queue before the prefill servers, the hand-off, and replicas that decode continuously."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapreplace

import numpy as np
from numpy.typing import NDArray

from moeopt.mesh.clock import look
from moeopt.mesh.goodput.replica import Replica
from moeopt.mesh.goodput.requests import Requests
from moeopt.mesh.goodput.service import Service, by_tokens
from moeopt.mesh.workload import Slo

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Served:
    """What every request got.

    Parameters
    ----------
    arrival_s, first_s, last_s
        (n,) seconds: arrival, first token (after the hand-off, where there is one), last token.
    output_tokens
        (n,) tokens of the answers.
    batch, busiest
        Mean sequences that a rank decodes in a step, and that the busiest rank of a replica does; their ratio is the
        skew of data-parallel ranks.
    """

    arrival_s: Floats
    first_s: Floats
    last_s: Floats
    output_tokens: NDArray[np.int64]
    batch: float
    busiest: float

    @property
    def ttft_s(self) -> Floats:
        """(n,) seconds from arrival to first token."""
        return self.first_s - self.arrival_s

    @property
    def tpot_s(self) -> Floats:
        """(n,) seconds a token after the first, mean of the request; 0 for answers of one token."""
        return (self.last_s - self.first_s) / np.maximum(self.output_tokens - 1, 1)

    def kept(self, slo: Slo, skip: float = 0.0) -> tuple[float, float, float]:
        """Parts of the requests that keep TTFT, TPOT, and both; the first `skip` of them are left out."""
        start = int(skip * len(self.arrival_s))
        slack = 1 + 1e-9
        every = np.ones(len(self.arrival_s) - start, dtype=bool)
        soon = every if slo.ttft_s is None else self.ttft_s[start:] <= slo.ttft_s * slack
        often = every if slo.tpot_s is None else self.tpot_s[start:] <= slo.tpot_s * slack
        return float(soon.mean()), float(often.mean()), float((soon & often).mean())


def simulate(service: Service, requests: Requests, *, seed: int = 0, warm: Sequence[int] = ()) -> Served:
    """Serve these requests.

    Parameters
    ----------
    service
        Pools and times.
    requests
        Who comes when, with how many tokens.
    seed
        Of the choice of ranks, where it is at random.
    warm
        Tokens still to come of sequences that replicas are decoding when the first request is awaited, dealt in turn;
        none: the service is empty then.

    Notes
    -----
    First come, first served everywhere. A request goes to the replica with least sequences there and waiting. New
    sequences join at the next boundary of a step. Where servers prefill, the first token is seen after the hand-off;
    waiting for a place in the decode pool counts towards TPOT. Strength: exact for this service, up to rounding, and
    repeatable; O(n (log n + replicas)), whatever the lengths.

    >>> alone = Requests.poisson(1, input_tokens=100, output_tokens=11)
    >>> served = simulate(Service(step_s=[0.02], slots=1, prefill_servers=1, prefill_s=0.3, handoff_s=0.1), alone)
    >>> served.ttft_s.round(9).tolist(), served.tpot_s.round(9).tolist()
    ([0.4], [0.02])
    """
    count = len(requests)
    outputs = requests.output_tokens.tolist()
    first = last = np.full(count, np.nan)
    chunks: list[int] = []
    if service.prefill_servers:
        first = _prefilled(service, requests) + service.handoff_seconds(requests.input_tokens)
        ready, last = first, np.where(requests.output_tokens == 1, first, np.nan)
    else:
        assert service.chunk is not None
        ready = requests.arrival_s
        chunks = (-(-requests.input_tokens // service.chunk)).tolist()
        first, last = first.copy(), last.copy()
    replicas = [Replica(service, outputs, chunks, seed + place) for place in range(service.replicas)]
    outputs += warm
    chunks += [0] * len(warm) if chunks else []
    for place in range(len(warm)):
        replicas[place % len(replicas)].add(count + place, 0.0)
    times = ready.tolist()
    for request in np.argsort(ready, kind="stable").tolist():
        look()
        if chunks or outputs[request] > 1:
            now = times[request]
            for replica in replicas:
                replica.advance(now)
            chosen = replicas[0] if len(replicas) == 1 else min(replicas, key=_load)
            chosen.add(request, now)
    for replica in replicas:
        replica.advance(np.inf)
        for into, found in ((first, replica.first), (last, replica.last)):
            asked = {request: when for request, when in found.items() if request < count}
            into[list(asked)] = list(asked.values())
    steps = sum(replica.steps for replica in replicas) or 1
    decoding = sum(replica.sum_decoding for replica in replicas) / steps / service.ranks
    busiest = sum(replica.sum_busiest for replica in replicas) / steps
    return Served(requests.arrival_s, first, last, requests.output_tokens, decoding, busiest)


def _load(replica: Replica) -> int:
    return replica.load


def _prefilled(service: Service, requests: Requests) -> Floats:
    """When the prefill of each request ends."""
    arrival = requests.arrival_s.tolist()
    free = [0.0] * service.prefill_servers
    end = np.empty(len(arrival))
    if service.prefill_tokens is None:
        seconds = service.prefill_seconds(requests.input_tokens).tolist()
        for place, (came, takes) in enumerate(zip(arrival, seconds, strict=True)):
            end[place] = done = max(free[0], came) + takes
            heapreplace(free, done)
        return end
    tokens = requests.input_tokens.tolist()
    known: dict[int, float] = {}
    place = 0
    while place < len(arrival):
        look()
        begin = max(free[0], arrival[place])
        together, after = tokens[place], place + 1
        while after < len(arrival) and arrival[after] <= begin and together + tokens[after] <= service.prefill_tokens:
            together += tokens[after]
            after += 1
        if together not in known:
            assert service.prefill_s is not None
            known[together] = float(by_tokens("prefill_s", service.prefill_s, np.array([together]))[0])
        end[place:after] = done = begin + known[together]
        heapreplace(free, done)
        place = after
    return end
