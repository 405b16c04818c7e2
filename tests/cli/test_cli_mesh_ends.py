"""``moeopt mesh`` at its ends: limits of time, Ctrl-C and SIGTERM, in whatever it is doing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from moeopt.mesh import covering, exact, partial
from moeopt.mesh.families import every
from moeopt.mesh.goodput import plans

posix = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")
SMALL = ("mesh", "--llm", "mixtral-8x7b", "--gpu", "h200", "--gpus", 16, "--input-tokens", 2048, "--output-tokens", 512,
         "--tpot", "30ms", "--families", "pools", "--most-pp", 1)  # fmt: skip
PLACES: dict[str, tuple[Any, str, tuple[object, ...]]] = {
    "enumeration": (every, "_serves", ()),
    "greedy": (partial, "conflicts", ()),
    "covering": (covering, "covering", ("--method", "covering")),
    "solver": (exact, "write", ("--method", "exact")),
    "simulation": (plans, "part_of", ("--simulate", "--requests", 50)),
}
"""Where a signal comes: module and function that is running, and the options that take it there."""


def signals(monkeypatch: pytest.MonkeyPatch, place: str, number: int, times: int = 1) -> None:
    """A signal from outside as soon as a function begins."""
    module, name, _ = PLACES[place]
    real, left = getattr(module, name), [times]

    def begins(*given: Any, **more: Any) -> Any:
        while left[0]:
            left[0] -= 1
            os.kill(os.getpid(), number)
        return real(*given, **more)

    monkeypatch.setattr(module, name, begins)


@posix
@pytest.mark.parametrize("place", PLACES)
def test_a_signal_keeps_the_best_plan_so_far(moeopt, monkeypatch, tmp_path: Path, place: str):
    number = signal.SIGTERM if place in ("greedy", "solver") else signal.SIGINT
    file = tmp_path / "plan.json"
    signals(monkeypatch, place, number)
    run = moeopt(*SMALL, *PLACES[place][2], "-o", file)
    monkeypatch.undo()
    assert "Traceback" not in run.err and "fault of moeopt" not in run.err
    if place == "enumeration":  # prefill was being looked at: nothing is served by it alone
        assert run.code == 4 and "no plan was found (INTERRUPTED)" in run.err
        return
    assert run.code == 0 and "interrupted" in run.err
    assert moeopt("verify", file).code == 0
    if place == "simulation":
        assert "interrupted before the rates of --simulate were found" in run.err and "simulated" not in run.out


@posix
def test_a_second_signal_claims_nothing(moeopt, monkeypatch):
    signals(monkeypatch, "solver", signal.SIGINT, times=2)
    run = moeopt(*SMALL, "--method", "exact")
    assert (run.code, run.out) == (130, "") and "error: interrupted" in run.err


def test_without_time_what_is_missing_is_said(moeopt):
    run = moeopt(*SMALL, "--time-limit", "1us", "--simulate")
    assert run.code == 4 and "no plan was found (TIME)" in run.err and "finished are none" in run.err
    assert "no plan was found (TIME); a longer --time-limit" in run.err


def test_an_answer_without_a_bound_or_runners_up_says_so(moeopt, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(partial, "GRACE_S", 0.0)
    signals(monkeypatch, "greedy", signal.SIGINT)
    file = tmp_path / "plan.json"
    run = moeopt(*SMALL, "-o", file)
    assert run.code == 0 and "stopped before a bound was proved" in run.out
    assert "so these are left out: ranking" in run.err and "runners-up" not in run.out
    for verb in ("verify", "inspect"):
        assert moeopt(verb, file).code == 0
    assert moeopt("mesh", *SMALL[1:], "--json", "-o", tmp_path / "front.svg").code == 0


def test_what_costs_nothing_is_proved_to_be_the_cheapest(moeopt):
    run = moeopt("mesh", "--llm", "mixtral-8x7b", "--gpu", "h100::0", "--rate", 10, "--families", "colocated")
    said = " ".join(run.out.split())  # lines break where the terminal does
    assert run.code == 0 and "price 0; no plan of these configurations costs less than 0 (certified)" in said
    assert "before a bound was proved" not in run.out
