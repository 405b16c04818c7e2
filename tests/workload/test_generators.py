"""Generators draw the published tables bit for bit, and keep what they promise on any size."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.errors import InstanceError
from moeopt.workload import GENERATORS, SHAPES, LoadTable, generate, loads_digest, sample_top_k, with_noise

# Digests of the load tables that the published benchmark of placement policies was run on (seed 0, 65536 tokens).
PUBLISHED = [
    ("dsv3_288_g32", "zipf", 0.6, "5dd671d0238e433c"),
    ("dsv3_320_g320", "zipf", 1.0, "c0753bddae45b278"),
    ("qwen3_144_g16", "zipf", 1.2, "0bbe01ac15e58554"),
    ("qwen3_160_g32", "topic", None, "a57bb70f19177b71"),
    ("gptoss_136_g8", "lognormal", None, "ed619ab307430d2b"),
    ("gptoss_136_g8", "uniform", None, "f1429425c9d15515"),
    ("kimik2_416_g32", "topic", None, "5730b8a87af33c41"),
    ("kimik3_1024_g128", "zipf", 1.2, "1352295d8eb89ea4"),
    ("mixtral_12_g4", "lognormal", None, "736eadbdf78392a1"),
]


@pytest.mark.parametrize(("name", "kind", "alpha", "digest"), PUBLISHED)
def test_generate_draws_the_published_table(name: str, kind: str, alpha: float | None, digest: str) -> None:
    shape = SHAPES[name]
    table = generate(
        kind, layers=shape.layers, experts=shape.experts, top_k=shape.top_k, tokens=65536, seed=0, alpha=alpha
    )
    assert loads_digest(table.loads) == digest


@st.composite
def arguments(draw: st.DrawFn) -> dict[str, object]:
    kind = draw(st.sampled_from(sorted(GENERATORS)))
    experts = draw(st.integers(1, 40))
    found: dict[str, object] = {
        "kind": kind,
        "layers": draw(st.integers(1, 3)),
        "experts": experts,
        "top_k": draw(st.integers(1, experts)),
        "tokens": draw(st.integers(1, 5000)),
        "seed": draw(st.integers(0, 2**64)),
    }
    parameter = {"zipf": "alpha", "lognormal": "sigma", "topic": "sigma"}.get(kind)
    if parameter and draw(st.booleans()):
        found[parameter] = draw(st.floats(0, 10))
    return found


@settings(deadline=None, max_examples=60)
@given(arguments())
def test_generate_gives_every_token_different_experts(wish: dict[str, object]) -> None:
    loads = generate(**wish).loads  # type: ignore[arg-type]
    tokens, top_k = wish["tokens"], wish["top_k"]
    assert isinstance(tokens, int) and isinstance(top_k, int)
    assert loads.dtype == np.int64 and loads.shape == (wish["layers"], wish["experts"])
    assert loads.min() >= 0 and loads.max() <= tokens
    assert (loads.sum(axis=1) == tokens * top_k).all()


def test_generate_gives_the_same_table_in_a_fresh_process() -> None:
    call = "generate('topic', layers=2, experts=20, top_k=3, tokens=99, seed=5, noise='poisson')"
    code = f"from moeopt.workload import *; print(loads_digest({call}.loads))"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    here = generate("topic", layers=2, experts=20, top_k=3, tokens=99, seed=5, noise="poisson")
    assert seen == loads_digest(here.loads)


def test_generate_depends_on_seed_kind_and_parameter() -> None:
    size = {"layers": 2, "experts": 16, "top_k": 2, "tokens": 1000}
    tables = [
        generate("zipf", **size),
        generate("zipf", **size, seed=1),
        generate("zipf", **size, alpha=1.2),
        generate("lognormal", **size),
        generate("lognormal", **size, sigma=0.5),
        generate("topic", **size),
        generate("uniform", **size),
    ]
    assert len({loads_digest(table.loads) for table in tables}) == len(tables)


def test_generate_says_what_it_drew_and_protects_it() -> None:
    table = generate("zipf", layers=1, experts=4, top_k=1, tokens=10, seed=3, alpha=2)
    assert table.source == "zipf(alpha=2.0, layers=1, experts=4, top_k=1, tokens=10, seed=3)"
    assert not table.loads.flags.writeable


def test_generate_names_all_bad_arguments_at_once() -> None:
    with pytest.raises(InstanceError) as caught:
        generate("zapf", layers=0, experts=True, top_k=1.5, tokens=-1, seed=-1, sigma=float("nan"), noise="pink")  # type: ignore[arg-type]
    message = str(caught.value)
    for field in ("kind = zapf", "layers = 0", "experts = True", "top_k = 1.5", "tokens = -1", "seed = -1"):
        assert field in message
    assert "sigma = nan" in message and "noise = pink" in message and "zipf, lognormal, topic, uniform" in message


def test_generate_refuses_the_parameter_of_another_kind() -> None:
    with pytest.raises(InstanceError, match="sigma = 1: does not belong to zipf"):
        generate("zipf", layers=1, experts=4, top_k=1, tokens=10, sigma=1)


def test_noise_redraws_counts_around_their_values_and_leaves_the_table_alone() -> None:
    table = generate("uniform", layers=20, experts=50, top_k=2, tokens=10_000)
    before = table.loads.copy()
    noisy = with_noise(table, "poisson", seed=4).loads
    assert (table.loads == before).all()
    deviation = (noisy - table.loads) / np.sqrt(table.loads)
    assert abs(deviation.mean()) < 0.15 and abs(deviation.std() - 1) < 0.1  # 1000 counts: over four standard errors


def test_noise_keeps_idle_experts_idle() -> None:
    table = LoadTable(np.array([[0, 0, 5]]), layers=(0,))
    assert with_noise(table).loads[0, :2].tolist() == [0, 0]


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_sampled_experts_of_a_token_differ_and_have_popularity(data: st.DataObject) -> None:
    popularity = data.draw(st.lists(st.sampled_from([0.0, 1e-300, 0.1, 1.0, 1e300]), min_size=1, max_size=20))
    possible = sum(value > 0 for value in popularity)
    if not possible:
        with pytest.raises(InstanceError, match="popularity > 0, 0"):
            sample_top_k(popularity, 1, 1)
        return
    top_k = data.draw(st.integers(1, possible))
    ids = sample_top_k(popularity, top_k, tokens=30, seed=data.draw(st.integers(0, 9)))
    assert ids.shape == (30, top_k)
    assert all(len(set(row)) == top_k for row in ids.tolist())
    assert all(popularity[expert] > 0 for expert in ids.ravel().tolist())


def test_sampling_has_the_chances_of_successive_draws() -> None:
    popularity, tokens = [0.5, 0.3, 0.15, 0.05], 40_000
    ids = sample_top_k(popularity, 2, tokens, seed=11)
    for first, second in itertools.permutations(range(4), 2):
        chance = popularity[first] * popularity[second] / (1 - popularity[first])
        seen = ((ids[:, 0] == first) & (ids[:, 1] == second)).mean()
        assert abs(seen - chance) < 5 * np.sqrt(chance / tokens)


def test_sampling_draws_the_first_tokens_alike_however_many_follow() -> None:
    popularity = np.ones(3000)
    few = sample_top_k(popularity, 2, tokens=5, seed=1)
    assert (sample_top_k(popularity, 2, tokens=400, seed=1)[:5] == few).all()


def test_sampling_names_all_bad_arguments_at_once() -> None:
    with pytest.raises(InstanceError) as caught:
        sample_top_k([1.0, -1.0, float("nan")], 0, 0)
    message = str(caught.value)
    assert "top_k = 0" in message and "tokens = 0" in message
    assert "popularity[expert 1] = -1.0" in message and "popularity[expert 2] = nan" in message


def test_shapes_have_equal_slots_on_every_gpu_and_room_for_every_expert() -> None:
    assert len(SHAPES) == 11
    for shape in SHAPES.values():
        assert shape.slots % shape.gpus == 0 and shape.gpus % shape.nodes == 0
        assert shape.slots >= shape.experts and shape.slots // shape.gpus <= shape.experts
        assert shape.groups is None or (shape.experts % shape.groups == 0 and shape.groups % shape.nodes == 0)
