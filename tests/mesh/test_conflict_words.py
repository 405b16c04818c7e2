"""Which service level is named for which phase where nothing serves it."""

from __future__ import annotations

from typing import Any

import pytest

from moeopt import mesh
from moeopt.errors import InstanceError
from moeopt.llm import find
from moeopt.mesh import Demand, GpuType, MeshInstance, Slo, Workload
from tests.mesh.strategies import LLMS, config, gpu_type

ALL: Any = ("colocated", "prefill", "decode")


def instance(slo: Slo, families: Any = ALL, **late: Any) -> MeshInstance:
    """A replica of each kind: 1 s and 10 ms; pools are quicker by half unless their times say otherwise."""
    listed = (
        config(0, "colocated", {"H100": 2}, 5, name="C", ttft_s=1.0, tpot_s=0.01),
        config(0, "prefill", {"H100": 1}, 5, name="P", ttft_s=late.get("ttft_s", 0.5)),
        config(0, "decode", {"H100": 1}, 5, name="D", tpot_s=late.get("tpot_s", 0.005)),
    )
    listed = tuple(one for one in listed if one.family in families)
    demand = Demand(LLMS[0], Workload(100, 10), slo)
    return MeshInstance((demand,), (gpu_type("H100", 8),), "goodput", families, configs=listed)


def blamed(one: MeshInstance) -> set[tuple[str, str]]:
    """(phase, level) of the conflicts."""
    result = mesh.solve(one)
    return {(str(conflict["where"]).split(" of ")[0], str(conflict["rule"])) for conflict in result.conflicts}


def test_each_phase_names_the_level_that_binds_it() -> None:
    assert blamed(instance(Slo(ttft_s=0.1, tpot_s=0.001))) == {("prefill", "ttft_s"), ("decode", "tpot_s")}
    assert blamed(instance(Slo(tpot_s=0.001))) == {("decode", "tpot_s")}
    assert blamed(instance(Slo(ttft_s=0.1))) == {("prefill", "ttft_s")}


def test_where_replicas_of_whole_requests_are_all_there_is_both_levels_bind() -> None:
    only: Any = ("colocated",)
    both = {("requests", "tpot_s"), ("requests", "ttft_s")}
    assert blamed(instance(Slo(ttft_s=0.1, tpot_s=0.001), only)) == both
    some: Any = ("colocated", "decode")
    assert blamed(instance(Slo(tpot_s=0.006), some)) == {("prefill (by colocated replicas alone)", "tpot_s")}


def test_another_phases_level_is_no_reason_as_long_as_there_are_others() -> None:
    one = instance(Slo(tpot_s=0.006))
    refused = [
        config(0, "colocated", {"H100": 2}, 5, name="C", tpot_s=0.01),
        config(0, "prefill", {"H100": 1}, 5, name="P", reasons=("not today",)),
        config(0, "decode", {"H100": 1}, 5, name="D", tpot_s=0.005),
    ]
    made = MeshInstance(one.demands, one.gpus, "goodput", ALL, configs=tuple(refused))
    (conflict,) = mesh.solve(made).conflicts
    assert "not today" in conflict["message"] and "tpot_s" not in conflict["message"]


def test_more_redundant_experts_than_ranks_can_hold_come_with_the_limit() -> None:
    demand = Demand(find("mixtral-8x7b"), Workload(100, 10))
    eight = (GpuType.of("H100", stock=8),)
    assert MeshInstance((demand,), eight, "goodput", redundant=(0, 56)).redundant == (0, 56)
    with pytest.raises(InstanceError, match=r"redundant\[1\] = 57: must be at most 56: 8 GPUs hold each of 8 experts"):
        MeshInstance((demand,), eight, "goodput", redundant=(0, 57))
    with pytest.raises(InstanceError, match="must be at most 8,388,600: 1,048,576 GPUs"):
        MeshInstance((demand,), (GpuType.of("H100"),), "goodput", redundant=(10**12,))
