"""What engines say of shapes: each limit with a shape that meets it and one that does not."""

from __future__ import annotations

import pytest

from moeopt.engines.limits import RULES, Shape, Verdict, verdicts


def of(engine: str, *sizes: int, **more: object) -> Verdict:
    return next(one for one in verdicts(Shape(*sizes, **more)) if one.engine == engine)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", RULES)
def test_the_shapes_that_are_run_in_production_are_taken(engine: str) -> None:
    for sizes in ((256, 288, 32, 4), (256, 288, 72, 9), (256, 288, 144, 18), (256, 320, 320, 40)):
        assert of(engine, *sizes, groups=8, family="deepseek_v3").ok


@pytest.mark.parametrize("engine", ["sglang", "vllm", "trtllm", "vllm-ascend", "eplb"])
def test_equal_slots_are_asked_for_with_the_nearest_that_work(engine: str) -> None:
    assert of(engine, 256, 290, 72).faults == ("290 slots are no multiple of 72 GPUs: 288 is",)
    assert of(engine, 256, 350, 72).faults == ("350 slots are no multiple of 72 GPUs: 360 is",)
    assert of(engine, 256, 250, 72).faults[0] == "250 slots are no multiple of 72 GPUs: 288 is"
    assert of(engine, 256, 250, 72).faults[1] == "250 slots cannot hold 256 experts"


def test_omni_takes_uneven_slots_but_no_second_copy_on_a_gpu() -> None:
    assert of("omni", 256, 290, 72).ok
    assert of("omni", 4, 6, 1).faults == ("6 slots a GPU are more than 4 experts: it knows no second copy there",)
    assert not of("omni", 8, 6, 2).ok


def test_nodes_and_groups() -> None:
    assert of("sglang", 256, 288, 36, 8).faults == ("36 GPUs are no multiple of 8 nodes",)
    assert any("takes all for one node" in note for note in of("vllm", 256, 288, 36, 8).notes)
    assert any("within nodes by groups" in note for note in of("sglang", 256, 288, 32, 4, groups=8).notes)
    assert any("silently plans flat" in note for note in of("eplb", 256, 288, 72, 9, groups=8).notes)
    assert of("eplb", 256, 288, 36, 8, groups=8).faults == ("36 GPUs are no multiple of 8 nodes",)
    assert of("eplb", 256, 288, 32, 4, groups=7).faults == ("256 experts are no multiple of 7 groups",)


def test_limits_of_single_engines() -> None:
    assert of("vllm", 8, 8 + 1024, 8).faults == ("1,024 redundant experts are more than 1,023",)
    assert of("vllm", 8, 8, 1).faults == of("trtllm", 8, 8, 1).faults == ("needs two GPUs or more",)
    assert any("policy 1 takes at most 8" in note for note in of("vllm-ascend", 256, 288, 8).notes)
    assert any("kimi_k3" in note for note in of("trtllm", 896, 896, 128, family="kimi_k3").notes)
    assert any("all-to-all backend" in note for note in of("sglang", 256, 288, 32).notes)
    assert of("sglang", 256, 256, 32).notes == ()
