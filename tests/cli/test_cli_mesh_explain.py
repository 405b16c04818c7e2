"""``moeopt mesh --explain``: parts of a token's GPU time add up, and reasons name what differs most."""

from __future__ import annotations

import math

import pytest

from moeopt.cli.mesh_explain import gpu_us, matching, reason
from moeopt.report.mesh_words import behind

ONE = ("--llm", "mixtral-8x7b", "--gpu", "h100:8", "--input-tokens", 4000, "--output-tokens", 1000, "--tpot", "10ms")


@pytest.fixture(scope="module")
def ranking(moeopt_document):
    return moeopt_document["solution"]["ranking"]


@pytest.fixture(scope="module")
def moeopt_document():
    from moeopt import mesh
    from moeopt.llm import find

    demand = mesh.demand_of(find("mixtral-8x7b"), (4000, 1000), slo=mesh.Slo(tpot_s=0.01))
    return mesh.solve(mesh.MeshInstance((demand,), (mesh.GpuType.of("H100", stock=8),), "goodput")).to_dict()


def test_parts_of_every_configuration_add_up_to_its_gpu_time(ranking):
    usable = [row for row in ranking if row["behind"] is not None]
    assert len(usable) > 20
    for row in usable:
        parts = gpu_us(row)
        assert math.isclose(sum(parts.values()) * row["tokens_per_s_gpu"], 1e6, rel_tol=1e-9)
        if row["tpot_s"] is not None and row["family"] != "apart":
            signed = [-value if name == "hidden" else value for name, value in row["parts_s"].items()]
            assert math.isclose(sum(signed), row["tpot_s"], rel_tol=1e-6)
            assert min(row["parts_s"].values()) >= 0


def test_differences_in_a_reason_add_up_to_the_whole(ranking):
    tensor = matching(ranking, "colocated tp8 moe-tp8")[0]
    best = next(row for row in ranking if row["bought"])
    said = reason(tensor, best)
    head, _, rest = said.partition(": ")
    whole = sum(gpu_us(tensor).values()) - sum(gpu_us(best).values())
    listed = [float(part.rpartition(" ")[2].replace(",", "")) for part in rest.replace(", not", " not").split(", ")]
    assert head == f"{whole / sum(gpu_us(best).values()):.1%} more".replace("%", " %")
    assert abs(sum(listed) - whole) < 0.02 * sum(gpu_us(best).values()) and listed == sorted(listed, reverse=True)
    assert rest.startswith("between GPUs, not overlapped +")


def test_names_are_whole_words(ranking):
    assert all("MoE-TP8" in row["label"].split() for row in matching(ranking, "MoE-TP8"))
    assert not matching(ranking, "EP80") and not matching(ranking, " ")


def test_the_command_explains_and_says_what_is_not_there(moeopt):
    run = moeopt("mesh", *ONE, "--explain", "MoE-TP8")
    assert (
        run.code == 0 and "where the GPU time of a token goes" in run.out and "between GPUs, not overlapped" in run.out
    )
    run = moeopt("mesh", *ONE, "--explain", "EP320")
    assert "no configuration has this in its name; names are as " in run.err


def test_no_time_or_rate_is_a_power_of_ten(moeopt):
    run = moeopt("mesh", *ONE[:4], "--objective", "time", "--explain", "TP8")
    assert run.code == 0 and "8,420" in run.out and "e+0" not in run.out


@pytest.mark.parametrize("objective", ["gpus", "price", "goodput", "time"])
def test_an_equal_plan_is_not_worse_by_nothing(objective):
    class Asked:
        pass

    Asked.objective = objective
    assert "0 %" not in behind(Asked, 3.0, 3.0) and behind(Asked, 3.0, 3.0 * (1 - 1e-12)) == behind(Asked, 3.0, 3.0)
    assert behind(Asked, 4.0, 3.0) != behind(Asked, 3.0, 3.0)
