"""``moeopt mesh`` of LLMs with linear, sparse or compressed attention: a plan for each, or the size that is missing."""

from __future__ import annotations

import json

import pytest

from moeopt.llm import catalogue
from tests.llm.look_alikes import CONFIGS

SMALL = ("--gpu", "b300:8", "--input-tokens", "4k", "--output-tokens", "1k", "--families", "decode", "--most-pp", 1,
         "--redundant", 0)  # fmt: skip
SPECIAL = [
    facts.name
    for facts in catalogue().values()
    if (facts.attention.linear or facts.attention.index_layers) and facts.attention.kind != "unknown"
]


@pytest.mark.parametrize("name", SPECIAL)
def test_each_ends_with_a_plan_that_is_proved(moeopt, name):
    run = moeopt("mesh", "--llm", name, *SMALL, "--json")
    found = json.loads(run.out)
    assert run.code == 0 and found["status"] == "OPTIMAL" and found["solution"]["pools"]
    assert any(note.startswith(f"{name}: a sequence of 5,000 tokens keeps ") for note in found["notes"])


def test_a_plan_is_written_and_verified_and_damage_to_it_found(moeopt, tmp_path):
    plan = tmp_path / "plan.json"
    assert moeopt("mesh", "--llm", "deepseek-v3.2", *SMALL, "-q", "-o", plan).code == 0
    assert moeopt("verify", plan).code == 0
    document = json.loads(plan.read_text())
    document["solution"]["pools"][0]["config"]["tpot_s"] *= 0.9
    plan.write_text(json.dumps(document))
    assert moeopt("verify", plan).code == 5


def test_sizes_that_are_missing_are_all_named(moeopt, tmp_path):
    run = moeopt("mesh", "--llm", "minimax-m1", "--dtype", "bf16", *SMALL)
    assert run.code == 2
    for field in ("vocab", "attention.heads", "experts", "top_k"):
        assert f"minimax-m1: {field}" in run.err
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGS["minimax-m3"]))
    run = moeopt("mesh", "--hf-config", file, *SMALL)
    assert (
        run.code == 2 and "attention.index_top_k = not known: is needed for what a query reads (index_topk)" in run.err
    )


def test_lightning_attention_of_a_configuration_is_planned(moeopt, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIGS["minimax-m1"]))
    run = moeopt("mesh", "--hf-config", file, *SMALL, "--json")
    assert run.code == 0 and json.loads(run.out)["status"] == "OPTIMAL"
