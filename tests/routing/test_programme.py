"""`lp` where the clock or the solver gives no answer, and where a programme does not apply."""

from __future__ import annotations

import pytest

from moeopt import backends, routing
from moeopt.errors import NotApplicable
from moeopt.limits import Limits
from moeopt.result import Status, Stop
from moeopt.routing import RoutingInstance

TWO = RoutingInstance([[8, 4, 2], [9, 1, 5]], [[0, 1, 0, 2], [0, 1, 2, 0]], gpus=2)


def test_without_time_layers_are_split_evenly_and_it_is_said() -> None:
    found = routing.solve(TWO, method="lp", limits=Limits(stop=lambda: True))
    assert found.status is Status.FEASIBLE and found.stop is not Stop.FINISHED
    assert any("no answer for 2 of 2 layers: they are split evenly" in note for note in found.notes)
    assert found.objective == routing.solve(TWO, method="even").objective


def test_an_answer_that_is_no_optimum_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(model, **options):  # type: ignore[no-untyped-def]
        return backends.solve_model(model, **{**options, "limits": Limits(time_s=1e-9), "worker": None})

    solve = backends.solve_model
    monkeypatch.setattr(backends, "solve_model", cut)
    monkeypatch.setitem(cut.__globals__, "backends", type("Now", (), {"solve_model": staticmethod(solve)}))
    found = routing.solve(TWO, method="lp")
    assert found.stop is Stop.TIME and "2 of 2 layers" in " ".join(found.notes)


def test_whole_tokens_are_not_cut() -> None:
    whole = RoutingInstance([[8, 4, 2]], [[0, 1, 0, 2]], gpus=2, whole=True)
    with pytest.raises(NotApplicable, match="it cuts tokens; integer has whole ones"):
        routing.solve(whole, method="lp")
