"""Whatever an engine hands over: a map, or the one error that is documented."""

from __future__ import annotations

import logging
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.engines import eplb
from moeopt.engines.policies import Options, ascend, guard, sglang, vllm
from moeopt.engines.policies.last import NoRoom
from moeopt.errors import InstanceError

ONES = np.ones((2, 8))


class Hostile:
    """A tensor-like whose every attribute raises, and the error cannot be printed."""

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("mute")

    def __getattribute__(self, name: str) -> Any:
        raise Hostile.Mute

    def _raise(self, *_: Any) -> Any:
        raise Hostile.Mute

    __len__ = __iter__ = __getitem__ = __int__ = __index__ = __bool__ = __str__ = __repr__ = __eq__ = _raise
    __hash__ = None  # type: ignore[assignment]


class NoShape:
    """Reads like an array, but its shape raises."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        return ONES

    @property
    def shape(self) -> Any:
        raise RuntimeError("no shape")


class Endless:
    """Says it is larger than anything."""

    shape = (2, 10**15)

    def __array__(self, *_: Any, **__: Any) -> Any:
        return ONES


def deep() -> list[Any]:
    out: list[Any] = []
    for _ in range(3000):
        out = [out]
    return out


def raises() -> Any:
    raise KeyError("running")


class Box:
    """Something that must not be printed where a test fails."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def __repr__(self) -> str:
        kind = type(self.inside)
        return f"Box({self.inside!r})" if kind not in (list, Hostile) else f"Box(a {kind.__name__})"


def inside(given: Any) -> Any:
    return given.inside if type(given) is Box else given


NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16, -1, 10**13, 10**20, 2**63 - 1, 2**64, 1.5, float("nan"), "12"])
TABLES = st.sampled_from(
    [Box(one) for one in (
        ONES, ONES[0], ONES[:0], ONES[:, :0], ONES[None], np.zeros((5, 0, 8)), np.zeros((1, 2, 4, 3)), np.float64(3),
        np.tile(np.arange(12) % 8, (2, 1)), np.arange(24).reshape(2, 4, 3) % 8, np.full((2, 12), 2**63 - 1),
        np.full((2, 12), 2**64 - 1, dtype=np.uint64), np.full((2, 4, 3), 2**62), np.full((2, 12), -(2**63)),
        np.full((2, 12), -1), np.full((2, 8), None), np.array([["a"] * 8] * 2), ONES.astype("M8[s]"), ONES.astype("S4"),
        ONES.astype(complex), ONES.astype(np.float16), ONES.astype(np.longdouble) * 1e300, ONES > 0, ONES * np.nan,
        np.zeros(3, dtype=[("a", int), ("b", float)]), np.broadcast_to(1.0, (1, 10**12)), ONES * 10.0**300,
        [[1, 2], [3]], [[10**30] * 8] * 2, [], [[]], {}, {1: 2}, b"bytes", "text", deep(), object(), NoShape(),
        Endless(), Hostile(), raises, lambda: ONES, range(3), np, int,
    )]
)  # fmt: skip
# Between the two are sizes that memory holds and that take seconds a map: they have a test of their own below.
WHOLE = st.one_of(st.integers(-1000, 1000), st.integers(10**13), st.integers(max_value=-(10**6)))
JUNK = st.one_of(st.none(), NUMBERS, TABLES, WHOLE, st.text(max_size=3), st.lists(WHOLE, max_size=3))
ANY_NUMBER = st.one_of(NUMBERS, NUMBERS, JUNK)
ANY_TABLE = st.one_of(TABLES, TABLES, JUNK)
NAMES = st.one_of(st.sampled_from(sglang.ALGORITHMS), JUNK)
QUIET = logging.getLogger("junk")
QUIET.addHandler(logging.NullHandler())
QUIET.propagate = False
OPTIONS = Options(time_limit_s=0.05, logger=QUIET)


def quietly(call: Any, *values: Any, **named: Any) -> Any:
    """What is given, or the one error."""
    try:
        return call(*values, **named)
    except NoRoom as error:
        assert isinstance(error, ValueError) and str(error)
        return None


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=300, deadline=None)
@given(
    tables=st.lists(ANY_TABLE, min_size=3, max_size=3),
    numbers=st.lists(ANY_NUMBER, min_size=4, max_size=4),
    others=st.tuples(NAMES, st.one_of(st.just(OPTIONS), st.just(OPTIONS), JUNK)),
)
def test_junk_never_raises_into_the_engine(tables: list[Any], numbers: list[Any], others: tuple[Any, Any]) -> None:
    weight, current, ranks = map(inside, tables)
    one, two, three, four = map(inside, numbers)
    name, options = map(inside, others)
    found = quietly(eplb.rebalance_experts, weight, one, two, three, four, current=current, options=options)
    assert found is None or [table.ndim for table in found] == [2, 3, 2]
    named = {"current": current, "active_ranks": ranks, "options": options}
    found = quietly(sglang.rebalance_experts, weight, one, two, three, four, name, **named)
    assert found is None or [table.ndim for table in found] == [2, 3, 2]
    policy: Any = type("Policy", (vllm.EplbPolicy,), {"options": options})
    held = quietly(policy.rebalance_experts, weight, one, two, three, four, current)
    assert held is None or held.ndim == 2
    npus = ascend.EplbPolicy(current, options=options)
    npus.set_new_ep_size(one)
    change, order, _ = npus.rebalance_experts(weight, current)  # never an error: there is a table to give back
    assert change in (0, 1) and order.ndim == 1


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_ids_that_cannot_be_do_not_make_experts(dtype: Any) -> None:
    huge = np.full((2, 12), np.iinfo(dtype).max, dtype=dtype)
    for loads in (None, np.ones(8), "loads", ONES):
        held = eplb.rebalance_experts(loads, 12, 1, 1, 4, current=huge)[0]
        assert held.shape == (2, 12)
        assert (vllm.EplbPolicy.rebalance_experts(loads, 12, 1, 1, 4, huge) == held).all()
    table = huge.reshape(2, 4, 3)
    change, order, same = ascend.EplbPolicy().rebalance_experts(table, table)
    assert change == 0 and order.tolist() == [0, 1] and same == table.tolist()


def test_no_layers_give_empty_maps() -> None:
    assert [t.shape for t in eplb.rebalance_experts(ONES[:0], 12, 1, 1, 4)] == [(0, 12), (0, 8, 0), (0, 8)]
    assert vllm.EplbPolicy.rebalance_experts(ONES[:0], 12, 1, 1, 4).shape == (0, 12)
    for name in sglang.ALGORITHMS:
        shapes = [t.shape for t in sglang.rebalance_experts(np.zeros((5, 0, 8)), 12, 3, 1, 1, name)]
        assert shapes == [(0, 12), (0, 8, 5 if "vec" in name else 0), (0, 8)]
    assert ascend.EplbPolicy().rebalance_experts(np.zeros((0, 4, 3)), np.zeros((0, 4, 3)))[2] == []


@pytest.mark.parametrize("slots", [10**13, 10**20])
def test_slots_that_no_memory_holds_leave_what_runs_or_raise_the_one_error(slots: int) -> None:
    running = np.tile(np.arange(12) % 8, (2, 1))
    assert (eplb.rebalance_experts(ONES, slots, 1, 1, 4, current=running)[0] == running).all()
    assert (vllm.EplbPolicy.rebalance_experts(ONES, slots, 1, 1, 4, running) == running).all()
    assert (sglang.rebalance_experts(ONES, slots, 3, 1, 1, current=running)[0] == running).all()
    for call in (eplb.rebalance_experts, vllm.EplbPolicy.rebalance_experts):
        with pytest.raises(NoRoom, match="has no room in memory, and no map runs"):
            call(ONES, slots, 1, 1, 4)
    for name in sglang.ALGORITHMS:
        with pytest.raises(NoRoom):
            sglang.rebalance_experts(ONES, slots, 4, 1, 1, name, active_ranks=[1, 0])
    policy, table = ascend.EplbPolicy(), running.reshape(2, 4, 3).tolist()
    policy.set_new_ep_size(slots)
    assert policy.rebalance_experts(table, ONES)[2] == table


def test_a_tensor_whose_shape_raises_is_read_as_far_as_can_be() -> None:
    assert eplb.rebalance_experts(NoShape(), 12, 1, 1, 4)[2].tolist() == [[2] * 4 + [1] * 4] * 2
    assert sglang.rebalance_experts(NoShape(), 12, 3, 1, 1)[0].shape == (2, 12)
    assert eplb.rebalance_experts(Hostile(), 12, 1, 1, 4)[0].tolist() == [list(range(12))]


def test_our_own_bug_outside_the_planner_costs_no_map(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(guard, "_full", broken)
    running = np.tile(np.arange(12) % 8, (2, 1))
    assert (eplb.rebalance_experts(ONES, 12, 1, 1, 4, current=running)[0] == running).all()
    assert (vllm.EplbPolicy.rebalance_experts(ONES, 12, 1, 1, 4, running) == running).all()
    assert (sglang.rebalance_experts(ONES, 12, 3, 1, 1, current=running)[0] == running).all()
    table = running.reshape(2, 4, 3).tolist()
    assert ascend.EplbPolicy().rebalance_experts(table, table)[2] == table


def test_a_million_slots_end_near_the_limit() -> None:
    alive = np.ones(250_000, dtype=bool)
    alive[3] = False
    begun = time.perf_counter()
    loads = np.arange(1, 9.0)[None]
    held = sglang.rebalance_experts(loads, 10**6, 4, None, 1, "elasticity_aware", active_ranks=alive)[0]
    assert held.shape == (1, 10**6)
    policy = ascend.EplbPolicy()
    policy.set_new_ep_size(10**5)
    table = policy.rebalance_experts([[[0, 1], [2, 3]]], [[[8, 4], [2, 2]]])[2]
    assert np.shape(table) == (1, 10**5, 2)
    assert time.perf_counter() - begun < 20  # it took 80 s


@pytest.mark.parametrize("configure", [eplb.configure, sglang.configure, vllm.configure, ascend.configure])
@pytest.mark.parametrize("limit", [0, -1, float("nan"), float("inf"), None, "1"])
def test_a_limit_of_no_time_is_refused_where_a_person_sets_it(configure: Any, limit: Any) -> None:
    with pytest.raises(InstanceError, match="must be finite seconds > 0"):
        configure(time_limit_s=limit)
