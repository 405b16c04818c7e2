"""Warming up: other processes compile, this one loads."""

from importlib import import_module

import pytest

from moeopt.kernels._jit import KERNELS, has_numba

warmup = import_module("moeopt.kernels.warmup")  # the package bears the function under this name


@pytest.mark.skipif(not has_numba(), reason="nothing is compiled without numba")
def test_another_process_compiles_and_the_next_one_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    first = warmup._compiled_beside([warmup.load_enumeration], 1)
    assert "moeopt.kernels.enumerate.any_below" in first
    assert not warmup._compiled_beside([warmup.load_enumeration], 1)


def test_a_process_that_fails_leaves_the_work_to_this_one(monkeypatch):
    monkeypatch.setattr(warmup.sys, "executable", "/bin/false")
    assert warmup._compiled_beside([warmup.load_enumeration, warmup.load_counts], 2) == set()


def test_every_kernel_that_is_asked_for_has_a_load_that_makes_it(monkeypatch):
    assert set(warmup.PLAIN) < set(warmup.LOADS)
    assert set(warmup.LOADS.values()) < set(KERNELS)


@pytest.mark.parametrize("load", warmup.LOADS, ids=lambda load: load.__name__)
def test_what_is_compiled_runs_interpreted_too(load):
    load()
