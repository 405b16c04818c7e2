"""Many solves at once: threads give what one after another gives, and a task of asyncio can be ended from outside."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from moeopt import collocation, mesh, microbatch, placement, routing
from moeopt.limits import Limits
from moeopt.result import Stop
from tests.fuzz.kinds import TINY

LIMITS = Limits(iterations=5)


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    yield


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns fifty times as often as they would."""
    every_s = sys.getswitchinterval()
    sys.setswitchinterval(every_s / 50)
    yield
    sys.setswitchinterval(every_s)


def _document(room: str, name: str) -> dict[str, Any]:
    from moeopt.documents import read_bytes, read_json

    found: dict[str, Any] = read_json(read_bytes(TINY / room / name), name)
    return found


def calls() -> list[Callable[[], bytes]]:
    """Solves of every problem, each building its own instance, some sharing one."""
    loads = [[8, 4, 2, 2, 1, 7], [5, 0, 1, 9, 3, 3]]
    shared = placement.PlacementInstance(loads, gpus=3, slots=9)
    ping = microbatch.MicrobatchInstance.from_dict(_document("microbatch", "ping_pong.json"))
    made: list[Callable[[], bytes]] = [
        lambda: placement.solve(shared, method="search", limits=LIMITS).canonical(),
        lambda: placement.solve(shared, method="auto", limits=LIMITS, seed=1).canonical(),
        lambda: placement.solve(placement.PlacementInstance(loads, gpus=3, slots=9), method="eplb").canonical(),
        lambda: microbatch.solve(ping).canonical(),
        lambda: routing.solve(routing.RoutingInstance.from_dict(_document("routing", "pair.json"))).canonical(),
        lambda: mesh.solve(mesh.MeshInstance.from_dict(_document("mesh", "pair.json"))).canonical(),
    ]
    pairs = _document("collocation", "two_pairs.json")
    made.append(
        lambda: collocation.solve(
            collocation.CollocationInstance.from_dict(pairs), method="search", limits=LIMITS
        ).canonical()
    )
    return made


def test_eight_threads_give_the_answers_of_one(restless: None) -> None:
    one_by_one = [call() for call in calls()]
    again = calls() * 3  # caches of shared instances are filled by whoever comes first
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda call: call(), again))
    assert together == one_by_one * 3


def test_a_task_is_ended_with_the_best_plan_so_far() -> None:
    """A task that is cancelled leaves its thread running: the event ends the solve, and its plan can be had."""
    loads = [[(7 * expert * expert + 13 * layer) % 97 + 1 for expert in range(24)] for layer in range(30)]
    instance = placement.PlacementInstance(loads, gpus=8, slots=32)
    enough = threading.Event()

    async def served() -> tuple[Any, int]:
        limits = Limits(gap=0.0, stop=enough.is_set)
        solving = asyncio.create_task(asyncio.to_thread(placement.solve, instance, method="search", limits=limits))
        beats = 0
        while beats < 10:  # the loop is free meanwhile
            await asyncio.sleep(0.005)
            beats += 1
        try:
            await asyncio.wait_for(asyncio.shield(solving), 0.05)
        except TimeoutError:
            enough.set()
        return await asyncio.wait_for(solving, 60), beats

    result, beats = asyncio.run(served())
    assert beats == 10 and result.stop in (Stop.INTERRUPTED, Stop.FINISHED) and result.plan is not None
    assert placement.faults(instance, result.plan) == []
