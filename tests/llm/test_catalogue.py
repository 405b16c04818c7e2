"""The catalogues: complete, each row with its source, null kept where nothing was confirmed."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from moeopt.errors import InstanceError
from moeopt.llm import GPUS, LlmFacts, agreement, catalogue, find, find_gpu, gpus, parameters


def test_every_llm_has_a_source_and_round_trips_as_json() -> None:
    assert len(catalogue()) == 27
    for name, facts in catalogue().items():
        assert facts.name == name and facts.source and facts.hf_id
        assert LlmFacts.from_dict(json.loads(json.dumps(facts.to_dict()))) == facts
        assert sorted(facts.dense_layers + facts.moe_layers) == list(range(facts.layers))


def test_a_row_has_every_fact_so_that_null_is_said_and_not_forgotten() -> None:
    rows = json.loads(files("moeopt.llm").joinpath("llms.json").read_text(encoding="utf-8"))["llms"]
    assert all(set(row) == set(find("dbrx").to_dict()) for row in rows)
    row = next(row for row in rows if row["name"] == "minimax-m1")
    assert [row[key] for key in ("experts", "top_k", "vocab", "expert_format")] == [None] * 4


def test_computed_counts_stand_near_the_published_ones() -> None:
    for facts in catalogue().values():
        if facts.published_total_b is None:
            continue
        total, active = parameters(facts)
        assert total / 1e9 == pytest.approx(facts.published_total_b, rel=0.02)
        if facts.published_active_b is not None:
            assert active / 1e9 == pytest.approx(facts.published_active_b, rel=0.07)


def test_find_knows_names_and_ids_and_tells_the_nearest() -> None:
    assert find("QWEN/qwen3-235B-A22B") is find("qwen3-235b-a22b")
    with pytest.raises(InstanceError, match="Did you mean gpt-oss-120b"):
        find("gpt-oss-121b")
    with pytest.raises(InstanceError, match=r"Give its config\.json"):
        find("zebra")


def test_unknown_facts_of_a_row_are_refused() -> None:
    row = find("dbrx").to_dict()
    with pytest.raises(InstanceError) as refused:
        LlmFacts.from_dict({**row, "layer": 1, "attention": {"kind": "gqa", "head": 2}})
    assert {violation.field for violation in refused.value.violations} == {"layer", "head"}


def test_need_names_every_missing_figure() -> None:
    with pytest.raises(InstanceError) as refused:
        find("minimax-m1").need("experts", "top_k", "layers", why="to plan")
    assert [violation.field for violation in refused.value.violations] == ["experts", "top_k"]


def test_one_catalogue_of_gpus() -> None:
    from moeopt import cost

    assert cost.GPUS is GPUS == tuple(gpus())
    assert all(row.source for row in gpus().values())
    assert find_gpu("gb300").domain == 72 and find_gpu("Ascend-910B").bytes_per_s is None
    with pytest.raises(InstanceError, match="floor_gpu = RTX"):
        find_gpu("RTX", "floor_gpu")


def test_agreement_of_a_plan_and_an_llm() -> None:
    facts = find("deepseek-v3")
    assert agreement(facts, [*range(3, 61), 61], 256, top_k=8, llm=facts.brief()) == []
    assert agreement(facts, range(3, 60), 256)[0].endswith("; 60 has no plan")
    assert agreement(facts, range(62), 256) == []
    assert agreement(facts, range(64), 256)[0].endswith("; 62-63 are none of them")
    assert agreement(facts, [*range(2, 60)], 256)[0].endswith("experts in 3-60")
    faults = agreement(facts, range(3, 61), 160, top_k=6, llm={"name": "other", "layers": 60, "dense_layers": [0]})
    assert [fault.partition(":")[0] for fault in faults] == ["experts", "top_k", "llm.layers", "llm.dense_layers"]
    assert agreement(find("llama-3-70b"), range(3), 8) == ["experts: llama-3-70b has none, it is dense"]
    assert agreement(find("minimax-m1"), range(80), 32, top_k=2) == []
