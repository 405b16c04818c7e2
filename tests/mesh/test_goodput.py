"""Goodput: the simulation equals one that goes step by step, queueing theory, and itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.mesh.goodput import Requests, Service, goodput, simulate
from moeopt.mesh.goodput.search import most_rate
from moeopt.mesh.workload import Slo


def step_by_step(service: Service, requests: Requests) -> tuple[list[float], list[float]]:
    """One replica, ranks filled by least load: every step carried out, every sequence an entry in a list."""
    count = len(requests)
    first, last = [math.nan] * count, [math.nan] * count
    ready = requests.arrival_s.tolist()
    if service.prefill_servers:
        free = [0.0] * service.prefill_servers
        for i in range(count):
            free.sort()
            free[0] = max(free[0], ready[i]) + service.prefill_s(int(requests.input_tokens[i]))
            first[i] = ready[i] = free[0] + service.handoff_s
            last[i] = ready[i] if requests.output_tokens[i] == 1 else math.nan
    order = [i for i in sorted(range(count), key=lambda i: (ready[i], i)) if math.isnan(last[i])]
    ranks: list[list[dict]] = [[] for _ in range(service.ranks)]
    now = 0.0
    while order or any(ranks):
        if not any(ranks):
            now = max(now, ready[order[0]])
        while order and ready[order[0]] <= now + 1e-12:
            rank = min(range(service.ranks), key=lambda r: (len(ranks[r]), r))
            if len(ranks[rank]) == service.slots:
                break
            i = order.pop(0)
            chunks = 0 if service.prefill_servers else -(-int(requests.input_tokens[i]) // service.chunk)
            ranks[rank].append({"i": i, "chunks": chunks, "left": int(requests.output_tokens[i]) - (chunks == 0)})
        busiest = max(sum(seq["chunks"] == 0 for seq in held) for held in ranks)
        prefills = any(seq["chunks"] for held in ranks for seq in held)
        now += (service.mixed_step_s if prefills else service.step_s)[busiest]
        for held in ranks:
            decoding = [seq for seq in held if seq["chunks"] == 0]
            head = next((seq for seq in held if seq["chunks"]), None)
            for seq in decoding:
                seq["left"] -= 1
            if head is not None:
                head["chunks"] -= 1
                if head["chunks"] == 0:
                    first[head["i"]] = now
                    head["left"] -= 1
            for seq in [seq for seq in held if seq["left"] == 0 and seq["chunks"] == 0]:
                last[seq["i"]] = now
                held.remove(seq)
    return first, last


@given(
    seed=st.integers(0, 10**6),
    apart=st.booleans(),
    ranks=st.integers(1, 3),
    slots=st.integers(1, 4),
    rate=st.floats(0.2, 50.0),
)
def test_simulation_equals_every_step_carried_out(seed, apart, ranks, slots, rate):
    lengths = np.random.default_rng(seed).integers(1, 9, (2, 30))
    requests = Requests.poisson(25, input_tokens=lengths[0], output_tokens=lengths[1], rate_per_s=rate, seed=seed)
    if apart:
        service = Service(
            step_s=lambda b: 0.03 + 0.011 * b,
            slots=slots,
            ranks=ranks,
            prefill_servers=2,
            prefill_s=lambda t: 0.0171 * t,
            handoff_s=0.013,
        )
    else:
        service = Service(
            step_s=lambda b: 0.03 + 0.011 * b,
            slots=slots,
            ranks=ranks,
            chunk=3,
            mixed_step_s=lambda b: 0.0771 + 0.011 * b,
        )
    found = simulate(service, requests)
    first, last = step_by_step(service, requests)
    np.testing.assert_allclose(found.first_s, first, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.last_s, last, rtol=1e-9, atol=1e-9)
    assert (found.ttft_s >= 0).all() and (found.tpot_s >= 0).all()


def test_prefill_queue_waits_as_pollaczek_and_khinchine_say():
    requests = Requests.poisson(60_000, input_tokens=100, output_tokens=1, seed=3)
    service = Service(step_s=[1e-3], slots=1, prefill_servers=1, prefill_s=0.1)
    for load in (0.3, 0.6, 0.8):
        waited = simulate(service, requests.at_rate(load / 0.1)).ttft_s.mean() - 0.1
        assert waited == pytest.approx(0.1 * load / (2 * (1 - load)), rel=0.08)


def test_sequences_in_a_step_follow_littles_law():
    requests = Requests.poisson(4000, input_tokens=10, output_tokens=101, rate_per_s=50.0)
    service = Service(step_s=0.002, slots=64, prefill_servers=64, prefill_s=0.01)
    found = simulate(service, requests)
    busy = found.batch * found.last_s.max() / (found.last_s.max() - 0.01)
    assert busy == pytest.approx(50.0 * 100 * 0.002, rel=0.03)
    assert np.all(found.tpot_s < 0.00205)


def test_ranks_in_turn_or_at_random_are_more_skewed_than_least_loaded():
    requests = Requests.poisson(4000, input_tokens=10, output_tokens=[40, 100, 400], rate_per_s=60.0)

    def skew(assign):
        service = Service(
            step_s=0.005, slots=64, ranks=8, prefill_servers=64, prefill_s=0.01, assign=assign
        )  # fmt: skip
        found = simulate(service, requests)
        return found.busiest / found.batch

    least, turn, random = skew("least"), skew("round_robin"), skew("random")
    assert 1 <= least < turn < random


def test_goodput_lies_between_a_rate_that_keeps_and_one_that_fails():
    requests = Requests.poisson(1500, input_tokens=[500, 2000], output_tokens=[20, 60], seed=1)
    service = Service(
        step_s=lambda b: 0.01 + 0.002 * b, slots=16, replicas=2, ranks=2, prefill_servers=3, prefill_s=lambda t: t / 1e4
    )
    slo = Slo(ttft_s=0.5, tpot_s=0.03, attainment=0.9)
    found = goodput(service, requests, slo)
    assert (
        found.failed_per_s is not None
        and found.failed_per_s <= found.rate_per_s * 1.01 <= most_rate(service, requests) * 1.01
    )
    kept = simulate(service, requests.at_rate(found.rate_per_s)).kept(slo, 0.1)
    failed = simulate(service, requests.at_rate(found.failed_per_s)).kept(slo, 0.1)
    assert kept == (found.ttft_kept, found.tpot_kept, found.attainment) and kept[2] >= 0.9 > failed[2]
    assert goodput(service, requests, slo) == found
    looser = goodput(service, requests, Slo(ttft_s=1.0, tpot_s=0.03, attainment=0.9))
    assert looser.rate_per_s >= found.rate_per_s * 0.99


def test_goodput_grows_with_the_pool_that_binds():
    requests = Requests.poisson(2000, input_tokens=1000, output_tokens=20)
    slo = Slo(ttft_s=0.6)

    def rate(servers):
        service = Service(step_s=0.001, slots=64, prefill_servers=servers, prefill_s=0.2)
        return goodput(service, requests, slo)

    one, two, four = rate(1), rate(2), rate(4)
    assert one.binds == "ttft" and two.rate_per_s > 2 * one.rate_per_s and four.rate_per_s > 2 * two.rate_per_s
    assert four.rate_per_s < 4 / 0.2


def test_goodput_is_nought_when_one_request_alone_misses_its_level():
    requests = Requests.poisson(200, input_tokens=1000, output_tokens=20)
    service = Service(step_s=0.05, slots=4, prefill_servers=1, prefill_s=0.2)
    found = goodput(service, requests, Slo(tpot_s=0.04))
    assert found.rate_per_s == 0 and found.binds == "tpot" and found.tpot_s[0] == pytest.approx(0.05)
    assert "no rate keeps" in found.notes[0]


def test_without_levels_capacity_binds():
    requests = Requests.poisson(3000, input_tokens=10, output_tokens=11)
    service = Service(step_s=0.01, slots=4, prefill_servers=4, prefill_s=0.001)
    found = goodput(service, requests, Slo())
    assert found.binds == "capacity" and found.rate_per_s <= most_rate(service, requests) == pytest.approx(40.0)
    assert found.rate_per_s > 35


def test_prompts_that_wait_are_computed_together():
    requests = Requests(np.array([0.0, 0.1, 0.1, 0.1]), np.full(4, 10), np.ones(4, dtype=int))
    service = Service(step_s=[0.01], slots=1, prefill_servers=1, prefill_s=lambda t: 1 + t / 100, prefill_tokens=20)
    assert simulate(service, requests).first_s.round(9).tolist() == [1.1, 2.3, 2.3, 3.4]


def test_short_simulations_say_that_they_are():
    requests = Requests.poisson(50, input_tokens=10, output_tokens=1000)
    service = Service(step_s=0.01, slots=16, prefill_servers=4, prefill_s=0.01)
    assert "hardly settled" in goodput(service, requests, Slo(tpot_s=0.02)).notes[0]


def test_trace_keeps_its_shape_at_another_rate():
    trace = Requests(np.array([0.0, 1.0, 4.0]), np.array([5, 6, 7]), np.array([1, 2, 3]), "mine")
    faster = trace.at_rate(7.5)
    assert faster.arrival_s.tolist() == [0.0, 0.1, 0.4] and faster.source == "mine"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Service(step_s=[0.1], slots=2, prefill_servers=1, prefill_s=1.0), "has 1 values, 2 are needed"),
        (lambda: Service(step_s=[0.1], slots=1, prefill_servers=1), "prefill_s = missing: is needed where servers"),
        (lambda: Service(step_s=[0.1], slots=1), "chunk = missing: is needed where replicas prefill"),
        (lambda: Service(step_s=lambda b: math.nan, slots=1, prefill_servers=1, prefill_s=1), "step_s[1] = nan"),
        (lambda: Service(step_s=1, slots=0, replicas=0, prefill_servers=1, prefill_s=1), "replicas = 0"),
        (lambda: Requests(np.array([1.0, 0.5]), np.array([1, 1]), np.array([1, 1])), "arrival_s[1] = 0.5: is before"),
        (lambda: Requests(np.array([1.0]), np.array([0]), np.array([1])), "must be whole numbers >= 1"),
        (lambda: Requests.poisson(0, input_tokens=1, output_tokens=1), "count = 0"),
        (lambda: Requests(np.zeros(2), np.ones(2, int), np.ones(2, int)).at_rate(1.0), "all come at once"),
    ],
)
def test_bad_input_is_named(make, text):
    with pytest.raises(InstanceError, match=".*".join(map(__import__("re").escape, [text]))):
        make()
