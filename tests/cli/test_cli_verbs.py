"""The small verbs: generate, export, info and warmup."""

from __future__ import annotations

import json

import pytest

from moeopt.placement import PlacementInstance


def test_generate_writes_loads_that_read_back(moeopt, tmp_path):
    words = ("generate", "zipf", "--experts", 8, "--top-k", 2, "--tokens", 100, "--seed", 3)
    file = tmp_path / "loads.json"
    assert moeopt(*words, "--layers", 2, "-o", file).code == 0
    assert moeopt(*words, "--layers", 2, "-o", file).code == 2
    table = json.loads(file.read_text())["loads"]
    assert [sum(row) for row in table] == [200, 200]
    assert moeopt(*words, "--layers", 2).out == "".join(",".join(map(str, row)) + "\n" for row in table)
    run = moeopt("generate", "lognormal", "--shape", "mixtral_12_g4", "--tokens", 50, "--layers", 3)
    assert [len(row.split(",")) for row in run.out.splitlines()] == [8, 8, 8]


def test_export_writes_the_model_of_one_layer(moeopt, tiny, tmp_path):
    words = ("export", tiny, "--gpus", 2, "--slots", 4, "--layer", 7)
    text = moeopt(*words).out
    assert "Minimize" in text and text.rstrip().endswith("End")
    file = tmp_path / "model.mps"
    assert moeopt(*words, "--format", "mps", "-o", file).code == 0
    assert "ROWS" in file.read_text()
    assert moeopt(*words, "--format", "mps", "-o", file).code == 2


@pytest.mark.parametrize("topic", ["schema", "methods", "backends", "shapes", "generators", "llms", "gpus", "versions"])
def test_info_has_something_on_every_topic(moeopt, topic):
    assert moeopt("info", topic).code == 0
    assert moeopt("info", topic, "--json").document


@pytest.mark.parametrize(
    ("hits", "misses", "said"),
    [({"one": 1}, {}, "kernels loaded, nothing had to be compiled"), ({}, {"one": 1}, "kernels compiled, ")],
)
def test_warmup_tells_loaded_from_compiled(monkeypatch, hits, misses, said):
    from importlib import import_module
    from types import SimpleNamespace

    module = import_module("moeopt.kernels.warmup")

    kernel = module.packing.improve
    monkeypatch.setattr(module, "has_numba", lambda: True)
    monkeypatch.setattr("moeopt.kernels._jit.has_numba", lambda: True)
    monkeypatch.setattr(module, "PLAIN", ())
    monkeypatch.setattr(module, "KERNELS", [kernel])
    compiled = SimpleNamespace(signatures=[1], stats=SimpleNamespace(cache_hits=hits, cache_misses=misses))
    monkeypatch.setattr(kernel, "compiled", compiled)
    assert said in module.warmup(plain=True)[0]


def test_the_note_on_compiling_names_what_is_compiled(monkeypatch, capsys):
    from moeopt.cli.options import Solving
    from moeopt.cli.say import Common, Say
    from moeopt.cli.solving import _say_if_compiling
    from moeopt.kernels import moving
    from moeopt.kernels._jit import Kernel

    monkeypatch.setattr("moeopt.kernels._jit.has_numba", lambda: True)
    monkeypatch.setattr(Kernel, "ready", lambda self: False)
    monkeypatch.setattr(Kernel, "on_disk", lambda self: self is not moving.sweep)
    instance = PlacementInstance([[4, 3, 2, 1]], gpus=2, slots=4, current=[[0, 1, 2, 3]])
    _say_if_compiling(instance, Solving(), Say(Common()))
    assert "compiling the search for moves, once on this machine: up to a minute" in capsys.readouterr().err


def test_an_unknown_generator_is_said_beside_the_missing_options(moeopt):
    run = moeopt("generate", "foo")
    assert run.code == 2 and "kind = foo: is not a generator" in run.err and "--experts = missing: must be" in run.err


def test_warmup_says_what_it_did(moeopt, monkeypatch):
    from moeopt.kernels import _jit

    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    _jit.has_numba.cache_clear()
    try:
        run = moeopt("warmup")
    finally:
        _jit.has_numba.cache_clear()
    assert run.code == 0 and "pip install 'moeopt[fast]'" in run.out
