"""One test for each way in which a solver's answer has been seen to mislead."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from moeopt.backends import BACKENDS, Worker, available_backends, solve_model
from moeopt.backends.judge import fault
from moeopt.errors import BackendUnavailable, InstanceError
from moeopt.limits import Limits
from moeopt.result import Status, Stop

from .conftest import dense, knapsack, partition

NAMES = available_backends()
MISSPELT = {"highs": "mip_feasiblity_tolerance", "cbc": "presolv", "scipy": "presolv"}
NEAREST = {"highs": "mip_feasibility_tolerance", "cbc": "presolve", "scipy": "presolve"}


@pytest.fixture(scope="module")
def worker():
    with Worker() as shared:
        yield shared


@pytest.mark.parametrize("name", NAMES)
def test_node_limit_is_never_optimal(name, hard, worker):
    answer = solve_model(hard, backend=name, limits=Limits(nodes=20), worker=worker)
    assert (answer.status, answer.stop) == (Status.FEASIBLE, Stop.NODES)
    assert answer.bound is not None and answer.bound < answer.objective
    assert fault(hard, answer.values) is None


@pytest.mark.parametrize("name", NAMES)
def test_time_limit_is_never_optimal(name, hard, worker):
    answer = solve_model(hard, backend=name, limits=Limits(time_s=1.0), worker=worker)
    assert answer.status in (Status.FEASIBLE, Status.UNKNOWN) and answer.stop is Stop.TIME
    assert (answer.values is None) == (answer.status is Status.UNKNOWN)


@pytest.mark.parametrize("name", NAMES)
def test_gap_limit_stops_with_a_gap(name, worker):
    model = partition(items=14, dimensions=2)
    answer = solve_model(model, backend=name, limits=Limits(gap=0.99, nodes=10_000), worker=worker)
    assert (answer.status, answer.stop) in ((Status.FEASIBLE, Stop.GAP), (Status.OPTIMAL, Stop.FINISHED))
    assert answer.bound is not None and answer.bound <= answer.objective


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("in_process", [True, False])
def test_misspelt_option_is_refused_with_the_nearest_name(name, in_process, easy, worker):
    with pytest.raises(InstanceError, match=f"{MISSPELT[name]}.*Nearest:.*{NEAREST[name]}"):
        solve_model(easy, backend=name, options={MISSPELT[name]: 1}, in_process=in_process, worker=worker)


@pytest.mark.parametrize(
    ("name", "option", "value", "text"),
    [
        ("highs", "mip_feasibility_tolerance", "tight", "HiGHS refuses"),
        ("highs", "presolve", 3, "HiGHS refuses"),
        ("highs", "time_limit", 3.0, "limits.time_s"),
        ("cbc", "integerTolerance", "tight", "CBC refuses"),
        ("cbc", "allowableGap", -5, "CBC refuses"),
        ("cbc", "presolve", "perhaps", "CBC refuses"),
        ("cbc", "maxNodes", 3, "limits.nodes"),
        ("scipy", "presolve", "perhaps", "true or false"),
    ],
)
def test_impossible_option_value_is_refused(name, option, value, text, easy):
    if name not in NAMES:
        pytest.skip(f"{name} is not available")
    with pytest.raises(InstanceError, match=text):
        solve_model(easy, backend=name, options={option: value}, in_process=True)


@pytest.mark.parametrize(("name", "options"), [("highs", {"presolve": "off"}), ("cbc", {"presolve": "off"})])
def test_proper_option_is_accepted(name, options, easy):
    if name not in NAMES:
        pytest.skip(f"{name} is not available")
    assert solve_model(easy, backend=name, options=options, in_process=True).status is Status.OPTIMAL


def test_highs_survives_a_change_of_threads_in_one_process():
    pytest.importorskip("highspy")
    script = (
        "import highspy, numpy as np\n"
        "from moeopt.backends import solve_model\n"
        "from moeopt.limits import Limits\n"
        "from tests.backends.conftest import knapsack\n"
        "free = highspy.Highs(); free.setOptionValue('output_flag', False); free.addBinary(-1.0); free.run()\n"
        "for threads in (1, 2, 1):\n"
        "    answer = solve_model(knapsack(), backend='highs', limits=Limits(threads=threads), in_process=True)\n"
        "    print(answer.status, answer.objective)\n"
    )
    out = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    expected = solve_model(knapsack(), backend="scipy", in_process=True).objective
    assert out.splitlines()[-3:] == [f"OPTIMAL {expected}"] * 3


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", NAMES)
def test_no_incumbent_means_no_values(name, hard, worker):
    limits = Limits(nodes=0) if name == "highs" else Limits(time_s=1e-6)
    answer = solve_model(hard, backend=name, limits=limits, worker=worker)
    assert (answer.status, answer.values, answer.objective) == (Status.UNKNOWN, None, None)
    assert answer.stop in (Stop.NODES, Stop.TIME)


def test_cbc_continuous_values_are_no_incumbent(hard):
    from moeopt.backends.cbc import _read

    head = "Stopped on time (no integer solution - continuous used) - objective value 0.0\n"
    claim = _read(hard, head + "      0 x0      1      0\n", "Lower bound:      0.000\n")
    assert claim.values is None and claim.stop is Stop.TIME and claim.bound == pytest.approx(0.0, abs=1e-3)


def test_child_writes_nothing_to_our_output():
    script = (
        "from moeopt.backends import BACKENDS, Worker, available_backends, solve_model\n"
        "from tests.backends.conftest import knapsack\n"
        "with Worker() as worker:\n"
        "    for name in available_backends():\n"
        "        print(name, solve_model(knapsack(), backend=name, worker=worker).status)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "".join(f"{name} OPTIMAL\n" for name in NAMES)
    assert done.stderr == ""


def test_import_brings_in_no_solver():
    script = "import sys, moeopt.backends; print({'pulp', 'highspy', 'scipy.optimize'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


INFEASIBLE = {
    "bounds of the row": dense([1, 1], [[1, 1]], 12, 12, 5.0),
    "no whole number fits": dense([1, 1], [[2, 2]], 3, 3, 5.0),
    "continuous": dense([1, 1], [[1, 1]], 12, 12, 5.0, integral=False),
    "crossed bounds": dense([1, 1], [[1, 1]], 0, 9, -1.0),
    "empty row": dense([1, 1], [[0, 0]], 1, 2, 5.0),
    "fails in scipy 1.17 unless presolve is off": dense([0, 0, 0, 0], [[0, 1, 2, 2]], 1, 1, [0, 0, 0, 2]),
    "without an end": dense([-1, -1], [[2, -2]], 1, 1, math.inf),
}


@pytest.mark.parametrize("case", INFEASIBLE)
@pytest.mark.parametrize("name", NAMES)
def test_infeasible_is_infeasible(name, case, worker):
    limits = Limits(nodes=1000, time_s=1.0 if case == "without an end" else None)
    answer = solve_model(INFEASIBLE[case], backend=name, limits=limits, worker=worker)
    if case == "without an end":  # no finite tree proves it: any answer but a solution will do
        assert answer.values is None
    else:
        assert answer.status is Status.INFEASIBLE, answer.notes
    assert answer.values is None and answer.bound is None


@pytest.mark.parametrize("integral", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_unbounded_is_said_in_a_note(name, integral, worker):
    model = dense([-1, -1], [[1, -1]], -1, 1, math.inf, integral=integral)
    answer = solve_model(model, backend=name, worker=worker)
    assert (answer.status, answer.values, answer.bound) == (Status.UNKNOWN, None, None)
    assert any("unbounded" in note for note in answer.notes)


@pytest.mark.parametrize("name", NAMES)
def test_start_is_never_made_worse(name, hard, worker):
    good = solve_model(hard, backend="highs" if "highs" in NAMES else name, limits=Limits(nodes=200), worker=worker)
    answer = solve_model(hard, backend=name, limits=Limits(nodes=0), start=good.values, worker=worker)
    assert answer.status is Status.FEASIBLE and answer.objective <= good.objective


def test_highs_is_shown_the_start(hard):
    pytest.importorskip("highspy")
    good = solve_model(hard, backend="highs", limits=Limits(nodes=200), in_process=True)
    answer = solve_model(hard, backend="highs", limits=Limits(nodes=0), start=good.values, in_process=True)
    assert answer.objective <= good.objective + 1e-9 and "the answer is the given start" not in answer.notes


@pytest.mark.skipif("cbc" not in NAMES, reason="CBC is not available")
def test_cbc_is_shown_the_start(hard):
    good = solve_model(hard, backend="cbc", limits=Limits(nodes=200), in_process=True)
    answer = solve_model(hard, backend="cbc", limits=Limits(nodes=0), start=good.values, in_process=True)
    assert answer.objective <= good.objective + 1e-6


def test_scipy_says_that_it_takes_no_start(easy):
    answer = solve_model(easy, backend="scipy", start=np.zeros(12), in_process=True)
    assert answer.status is Status.OPTIMAL and any("no MIP start" in note for note in answer.notes)


@pytest.mark.parametrize("name", NAMES)
def test_infeasible_start_is_noted_and_not_used(name, easy, worker):
    answer = solve_model(easy, backend=name, start=np.full(12, 1.0), worker=worker)
    assert answer.status is Status.OPTIMAL
    assert any("start is not used: row r0" in note for note in answer.notes)


def test_given_bound_ends_the_search_when_met(hard):
    pytest.importorskip("highspy")
    good = solve_model(hard, backend="highs", limits=Limits(nodes=50), in_process=True)
    answer = solve_model(hard, backend="highs", start=good.values, bound=good.objective, in_process=True)
    assert (answer.status, answer.stop) == (Status.OPTIMAL, Stop.FINISHED)
    assert answer.objective == answer.bound == pytest.approx(good.objective)


def test_wrong_given_bound_is_found_out(easy):
    answer = solve_model(easy, backend="scipy", bound=0.0, in_process=True)
    assert answer.bound < 0 and any("given lower bound 0 is wrong" in note for note in answer.notes)


def test_unknown_backend_names_the_nearest(easy):
    with pytest.raises(InstanceError, match=r"backend = hihgs.*Nearest: highs"):
        solve_model(easy, backend="hihgs")


def test_missing_backend_names_the_command(easy, monkeypatch):
    monkeypatch.setattr("moeopt.backends.highs.why_not", lambda: "highspy is not installed")
    with pytest.raises(BackendUnavailable, match="pip install highspy"):
        solve_model(easy, backend="highs")
    answer = solve_model(easy, in_process=True)
    assert answer.backend.startswith("scipy ") and "pip install highspy" in answer.notes[0]
    assert "highs" not in available_backends() and BACKENDS["highs"].version() is None


def test_bad_seed_start_and_bound_are_refused_together(easy):
    with pytest.raises(InstanceError) as caught:
        solve_model(easy, seed=-1, start=[1.0], bound=math.nan)
    assert [violation.field for violation in caught.value.violations] == ["seed", "bound", "start"]


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_gives_the_same_answer(name, hard, worker):
    first, second = (solve_model(hard, backend=name, limits=Limits(nodes=30), seed=7, worker=worker) for _ in range(2))
    assert first.values.tolist() == second.values.tolist()
    assert (first.objective, first.bound, first.nodes) == (second.objective, second.bound, second.nodes)
