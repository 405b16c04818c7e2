"""Service levels below what is possible: the conflict says what the least time is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from moeopt.llm import find
from moeopt.mesh.least import least_parts
from moeopt.mesh.market import configs_of
from moeopt.mesh.public import GpuType, MeshInstance, Slo, Workload, demand_of, solve


def question(llm: str, gpus: int, slo: Slo, **rest: object) -> MeshInstance:
    demand = demand_of(find(llm), Workload(4096, 1024), slo=slo)
    return MeshInstance((demand,), (GpuType.of("H100", stock=gpus),), "goodput", **rest)  # type: ignore[arg-type]


def test_conflict_names_the_least_time_of_every_family_and_what_sets_it() -> None:
    result = solve(question("deepseek-v3", 32, Slo(tpot_s=0.001)))
    assert result.status == "INFEASIBLE"
    message = next(one["message"] for one in result.conflicts if one["rule"] == "tpot_s")
    for word in ("colocated", "decode", "apart", "latencies of collectives", "launches", "reading", "set it"):
        assert word in message


@pytest.mark.parametrize("name, slo", [("tpot_s", Slo(tpot_s=1e-4)), ("ttft_s", Slo(ttft_s=1e-4))])
def test_parts_add_up_to_the_least_time(name: str, slo: Slo) -> None:
    instance = question("mixtral-8x7b", 8, slo)
    looked = [one for one in configs_of(instance) if getattr(one, name) is not None and not one.batch]
    assert looked
    for config in looked:
        parts = least_parts(instance, config, name)
        assert sum(parts.values()) == pytest.approx(getattr(config, name), rel=1e-9)
        assert list(parts.values()) == sorted(parts.values(), reverse=True)


def test_launches_are_what_overhead_makes_them() -> None:
    instance = question("mixtral-8x7b", 8, Slo(tpot_s=1e-4), families=("decode",))
    config = next(one for one in configs_of(instance) if one.tpot_s is not None)
    assert least_parts(replace(instance, overhead_s=0.0), config, "tpot_s").get("launches", 0.0) == 0.0
