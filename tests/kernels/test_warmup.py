"""Warming up: other processes compile, this one loads."""

from importlib import import_module

import pytest

from moeopt.kernels._jit import KERNELS, has_numba

warmup = import_module("moeopt.kernels.warmup")  # the package bears the function under this name


@pytest.mark.skipif(not has_numba(), reason="nothing is compiled without numba")
def test_another_process_compiles_and_the_next_one_finds_it(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kernel = warmup.LOADS[warmup.load_enumeration]
    assert "moeopt.kernels.enumerate.any_below" in warmup._compiled_beside([warmup.load_enumeration], 1)
    assert list(tmp_path.rglob("enumerate.any_below-*.nbi")) and kernel.on_disk()


def test_a_process_that_fails_leaves_the_work_to_this_one(monkeypatch):
    monkeypatch.setattr(warmup.sys, "executable", "/bin/false")
    assert warmup._compiled_beside([warmup.load_enumeration, warmup.load_counts], 2) == set()


def test_every_kernel_that_is_asked_for_has_a_load_that_makes_it(monkeypatch):
    assert set(warmup.PLAIN) < set(warmup.LOADS)
    assert set(warmup.LOADS.values()) < set(KERNELS)


@pytest.mark.skipif(has_numba(), reason="compiled by the warm-up before all tests")
@pytest.mark.parametrize("load", [None] if has_numba() else warmup.LOADS)
def test_what_is_compiled_runs_interpreted_too(load):
    load()
