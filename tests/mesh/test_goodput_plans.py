"""Plans beside requests that come at random: pools in full swing, each by one of its replicas."""

from __future__ import annotations

import numpy as np
import pytest

from moeopt import mesh
from moeopt.errors import InstanceError, NotApplicable
from moeopt.llm import find
from moeopt.mesh.goodput import Requests, Service, simulate
from moeopt.mesh.goodput.parts import part_of
from moeopt.mesh.goodput.plans import simulate_plan
from moeopt.mesh.goodput.pools import prefilling, service_of
from moeopt.mesh.market import configs_of


def solved(workload, slo, gpus=8, **rest):
    demand = mesh.demand_of(find("mixtral-8x7b"), workload, slo=slo)
    stock = [mesh.GpuType.of("H100", stock=gpus)]
    instance = mesh.MeshInstance([demand], stock, "goodput", most_batch=64, most_pp=2, **rest)
    return instance, mesh.solve(instance).plan


@pytest.fixture(scope="module")
def pools():
    return solved((1024, 128), mesh.Slo(2.0, 0.05), families=("prefill", "decode"))


@pytest.fixture(scope="module")
def whole():
    return solved((1024, 128), mesh.Slo(2.0, 0.05), families=("colocated",))


def test_pools_get_near_the_rate_of_means_and_no_further_than_they_can(pools):
    instance, plan = pools
    (found,) = simulate_plan(instance, plan, requests=800)
    assert found.means_per_s == pytest.approx(float(mesh.evaluate(instance, plan).rate(0)))
    assert 0.8 * found.means_per_s < found.rate_per_s
    parts = [(pool, part_of(instance, pool.config, 1.0, [])) for pool in plan.pools]
    most = {
        family: sum(part.most() * pool.replicas for pool, part in parts if pool.config.family == family)
        for family in ("prefill", "decode")
    }
    assert found.rate_per_s <= min(most.values()) * (1 + 1e-9)
    assert found.kept >= 0.9
    assert found.kept == pytest.approx(found.ttft_kept * found.tpot_kept)
    assert list(found.ttft_s) == sorted(found.ttft_s) and found.tpot_s[1] <= 0.05


def test_the_same_seed_gives_the_same_and_more_attainment_never_a_higher_rate(whole):
    instance, plan = whole
    runs = [simulate_plan(instance, plan, requests=400, attainment=part, seed=3)[0] for part in (0.5, 0.9, 0.9, 1.0)]
    assert runs[1] == runs[2]
    assert runs[0].rate_per_s >= runs[1].rate_per_s * 0.99 and runs[1].rate_per_s >= runs[3].rate_per_s * 0.99
    assert runs[3].kept == 1.0 and runs[1].attainment == 0.9


def test_levels_that_chance_breaks_bind_below_the_rate_of_means(pools):
    """Mean TTFT keeps its level where half of the requests do not."""
    instance, plan = pools
    tight = mesh.Slo(2 * min(pool.config.parts_s["attention"] for pool in plan.pools), 0.05)
    demand = mesh.Demand(instance.demands[0].llm, instance.demands[0].workload, tight)
    harder = mesh.MeshInstance((demand,), instance.gpus, "goodput", ("prefill", "decode"), most_batch=64, most_pp=2)
    (found,) = simulate_plan(harder, plan, requests=200)
    assert found.rate_per_s == 0.0 and found.at_means < 0.9
    assert "no rate that was simulated keeps the service levels" in found.notes


def test_a_prompt_of_the_mean_length_takes_the_time_of_its_configuration():
    """Times were read off a curve between lengths cut into more chunks: up to a quarter too long."""
    demand = mesh.demand_of(find("mixtral-8x7b"), (1500, 128))
    stock = [mesh.GpuType.of("H100", stock=8)]
    instance = mesh.MeshInstance([demand], stock, "goodput", ("prefill", "decode"), most_pp=2)
    configs = [one for one in configs_of(instance) if one.family == "prefill" and one.usable][:12:3]
    assert configs
    for config in configs:
        service = prefilling(instance, config)
        seconds = float(service.prefill_seconds(np.array([1500 * config.batch]))[0])
        busy = config.prefill_per_s * seconds / (config.shape.dp * config.batch)
        assert busy == pytest.approx(0.95, rel=1e-6), config.label


def test_stages_prefill_at_once():
    """A pipeline carries a chunk in every turn of a stage, not one in all of them."""
    demand = mesh.demand_of(find("mixtral-8x7b"), (1024, 128), slo=mesh.Slo(2.0, 0.1))
    instance = mesh.MeshInstance([demand], [mesh.GpuType.of("H100", stock=8)], "goodput", ("colocated",), most_pp=4)
    staged = [one for one in configs_of(instance) if one.usable and one.shape.pp == 4]
    config = max(staged, key=lambda one: one.decode_per_s / one.total_gpus)
    service = service_of(instance, config)
    assert service.ranks == config.shape.dp * 4 and service.slots == config.batch // 4
    (found,) = simulate_plan(instance, mesh.MeshPlan((mesh.Pool(config, 1),)), requests=500)
    assert 0.8 * config.decode_per_s < found.rate_per_s <= config.decode_per_s * (1 + 1e-9)


def test_a_warm_service_is_where_a_cold_one_comes_to():
    service = Service(step_s=list(np.linspace(0.01, 0.02, 256)), slots=256, prefill_servers=1, prefill_s=0.0)
    requests = Requests.poisson(4000, input_tokens=1, output_tokens=1000, rate_per_s=9.0)
    cold = simulate(service, requests).tpot_s
    batch = next(b for b in range(1, 257) if b / (service.step_s[b] * 1000) >= 9.0)
    warm = simulate(service, requests, warm=[2 + 998 * place // batch for place in range(batch)])
    settled = cold[2000:3500].mean()
    assert warm.tpot_s[:100].mean() == pytest.approx(settled, rel=0.03)
    assert cold[:20].mean() < settled * 0.9
    assert np.isfinite(warm.last_s).all() and len(warm.last_s) == 4000


def test_what_cannot_be_simulated_is_said():
    from pathlib import Path

    from moeopt.mesh.document import load_instance

    given = load_instance(Path(__file__).parents[2] / "instances" / "tiny" / "mesh" / "pair.json")
    with pytest.raises(NotApplicable, match="have no times of single steps"):
        simulate_plan(given, mesh.solve(given).plan)
    with pytest.raises(InstanceError, match=r"attainment = 1\.5: must be a number above 0, at most 1"):
        simulate_plan(given, mesh.solve(given).plan, attainment=1.5)
