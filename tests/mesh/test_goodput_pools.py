"""Configurations simulated: the closed forms of rate, TTFT and TPOT hold where queues are short."""

from __future__ import annotations

import pytest

from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.mesh.families.colocated import colocated
from moeopt.mesh.families.context import Context
from moeopt.mesh.families.decode import decode
from moeopt.mesh.families.prefill import prefill
from moeopt.mesh.goodput import Requests, goodput, simulate
from moeopt.mesh.goodput.pools import service_of
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.workload import Slo, Workload

SLO = Slo(2.0, 0.05)


@pytest.fixture(scope="module")
def instance():
    demand = Demand(find("mixtral-8x7b"), Workload(1024, 128), SLO)
    return MeshInstance((demand,), (GpuType.of("H100", stock=8),), objective="goodput", most_batch=64)


def best(family, instance):
    configs = [one for one in family(Context(instance, 0, instance.demands[0])) if one.usable]
    return max(configs, key=lambda one: max(one.prefill_per_s, one.decode_per_s) / one.total_gpus)


def test_pools_serve_what_closed_forms_say(instance):
    first, then = best(prefill, instance), best(decode, instance)
    copies = max(round(then.decode_per_s / first.prefill_per_s), 1)
    service = service_of(instance, first, then, copies=(copies, 1))
    assert service.step_s[then.batch] == pytest.approx(then.tpot_s)
    rate = 0.8 * min(copies * first.prefill_per_s, then.decode_per_s)
    requests = Requests.poisson(3000, input_tokens=1024, output_tokens=128, rate_per_s=rate)
    found = simulate(service, requests)
    assert found.kept(SLO, 0.1)[2] > 0.9
    assert found.tpot_s[300:].mean() <= then.tpot_s * 1.001
    seconds = service.prefill_s(1024)
    assert first.prefill_per_s == pytest.approx(
        first.shape.dp * first.batch * _busy(first, service) / service.prefill_s(1024 * first.batch), rel=0.02
    )
    assert seconds > 0 and found.ttft_s.min() >= seconds


def _busy(config, service):
    """What M/D/1 lets a rank be busy at the TTFT of the configuration."""
    from moeopt.mesh.families.queue import busy_for

    taken = service.prefill_s(1024 * config.batch)
    return float(busy_for(config.ttft_s - taken - service.handoff_s, taken, config.batch))


def test_whole_requests_reach_about_the_mean_rate(instance):
    config = best(colocated, instance)
    service = service_of(instance, config)
    requests = Requests.poisson(3000, input_tokens=1024, output_tokens=128)
    found = goodput(service, requests, Slo(SLO.ttft_s, SLO.tpot_s, 0.5), tolerance=0.05)
    assert found.rate_per_s == pytest.approx(config.decode_per_s, rel=0.1)


def test_what_is_no_pool_is_refused(instance):
    first, then = best(prefill, instance), best(decode, instance)
    with pytest.raises(InstanceError, match="must be a usable configuration of the family prefill"):
        service_of(instance, then, then)
    with pytest.raises(InstanceError, match="must be a usable configuration of the family colocated"):
        service_of(instance, first)
