"""Configurations that were cut, garbled or edited, through ``moeopt mesh``: an answer or words, no fault of ours."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moeopt.cli import main
from moeopt.errors import InstanceError
from moeopt.llm import read_config
from moeopt.mesh.public import GpuType, MeshInstance, Workload, demand_of, solve

Capsys = pytest.CaptureFixture[str]
BF16: dict[str, Any] = {"torch_dtype": "bfloat16", "tie_word_embeddings": False, "vocab_size": 1024}
GROUPED: dict[str, Any] = {
    "model_type": "qwen3_moe", "hidden_size": 256, "head_dim": 64, "intermediate_size": 512, "num_hidden_layers": 4,
    "moe_intermediate_size": 256, "num_attention_heads": 4, "num_key_value_heads": 2, "num_experts": 8,
    "num_experts_per_tok": 2, "max_position_embeddings": 4096, "mlp_only_layers": [0], **BF16,
}  # fmt: skip
LATENT: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1, "intermediate_size": 512,
    "moe_intermediate_size": 256, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "n_group": 2, "topk_group": 1, "q_lora_rank": 64, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "num_nextn_predict_layers": 1,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, **BF16,
}  # fmt: skip
VALUES: tuple[Any, ...] = (None, -1, 0, 3, 1e308, 10**30, 2**63, "x", [], {}, [[[]]], True, 0.5, float("nan"), "1" * 99)
WORDS = (
    "--gpu",
    "h200:1",
    "--families",
    "decode",
    "--most-pp",
    "1",
    "--input-tokens",
    "64",
    "--output-tokens",
    "8",
    "-q",
)


def edited(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Every key left out, and every value made another one, within nested ones too."""

    def places(here: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        for key in here if isinstance(here, dict) else range(len(here)) if isinstance(here, list) else ():
            yield (*path, key)
            yield from places(here[key], (*path, key))

    for path in places(config):
        for value in ("left out", *VALUES):
            made = json.loads(json.dumps(config))
            at = made
            for key in path[:-1]:
                at = at[key]
            if value == "left out":
                del at[path[-1]]
            else:
                at[path[-1]] = value
            yield str(path[-1]), made


def solved(file: Path) -> str:
    """What is said against a configuration; nothing where its mesh is found, or shown not to fit."""
    try:
        demand = demand_of(read_config(file), Workload(64, 8))
        result = solve(MeshInstance((demand,), (GpuType.of("H200", stock=1),), "goodput", ("decode",), most_pp=1))
    except InstanceError as error:
        return str(error)
    assert result.status in ("OPTIMAL", "FEASIBLE", "INFEASIBLE")
    return ""


def run(file: Path, capsys: Capsys) -> tuple[int, str]:
    """Exit code and errors; whatever happens is said in words."""
    code = main(["mesh", "--hf-config", str(file), *WORDS])
    said = capsys.readouterr().err
    assert code in (0, 2, 3), said
    assert "Traceback" not in said and "Warning" not in said
    assert (code == 0) == (not said) and all(len(line) < 2000 for line in said.splitlines()), said
    return code, said


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("config", [GROUPED, LATENT], ids=["grouped", "latent"])
def test_an_edited_configuration_is_answered_or_refused_in_words(
    tmp_path: Path, capsys: Capsys, config: dict[str, Any]
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    assert run(file, capsys)[0] == 0
    every = list(edited(config))
    refused = 0
    for place, (_, made) in enumerate(random.Random(0).sample(every, 150)):
        file.write_text(json.dumps(made))
        said = solved(file)
        refused += said != ""
        assert not said or " = " in said, said
        if place < 8:
            assert (run(file, capsys)[0] == 2) == (said != "")
    assert refused > 40


WHOLE = json.dumps(LATENT).encode()
DAMAGES: dict[str, tuple[Callable[[], bytes], str]] = {
    "nothing": (lambda: b"", "is empty"),
    "cut": (lambda: WHOLE[: len(WHOLE) // 2], "line 1"),
    "other encoding": (lambda: WHOLE.replace(b"deepseek", b"\xe9\xff"), "UTF-8"),
    "NULs": (lambda: bytes(100), ""),
    "a list": (lambda: b"[" + WHOLE + b"]", ""),
    "a number": (lambda: b"7", ""),
    "deep": (lambda: b"[" * 100_000, ""),
    "one key twice": (lambda: WHOLE[:-1] + b', "num_hidden_layers": 5}', "num_hidden_layers"),
    "digits": (lambda: WHOLE.replace(b'"hidden_size": 256', b'"hidden_size": ' + b"9" * 5000), ""),
    "twice": (lambda: WHOLE + WHOLE, "line 1"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_refused_by_its_name(tmp_path: Path, capsys: Capsys, damage: str) -> None:
    make, words = DAMAGES[damage]
    file = tmp_path / "config.json"
    file.write_bytes(make())
    code, said = run(file, capsys)
    assert code == 2 and "config.json" in said and words in said, said


def test_what_is_no_file_is_refused_by_its_name(tmp_path: Path, capsys: Capsys) -> None:
    for place in (tmp_path, tmp_path / "none.json"):
        code, said = run(place, capsys)
        assert code == 2 and (place.name in said), said
