"""Instances of every problem through processes: results equal to those of one after the other, times apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moeopt import collocation, mesh, microbatch, placement, routing
from moeopt.documents import read_json
from moeopt.errors import InstanceError
from moeopt.executors import make_executor, solve_many
from moeopt.limits import Limits
from tests.executors.data import TINY


def instances() -> dict[str, tuple[str, Any]]:
    loads = np.array([[9, 4, 2, 2, 1, 1]])
    return {
        "placement": ("lpt", placement.PlacementInstance(loads, gpus=2, slots=8)),
        "routing": ("auto", routing.RoutingInstance(loads, np.array([[0, 1, 2, 3, 4, 5, 0, 1]]), gpus=2)),
        "collocation": ("greedy", collocation.CollocationInstance([[0, 2], [1, 3], [0, 2]], nodes=2, gpus=2)),
        "microbatch": ("auto", microbatch.MicrobatchInstance.from_dict(read(TINY / "microbatch" / "waves.json"))),
        "mesh": ("auto", mesh.MeshInstance.from_dict(read(TINY / "mesh" / "thirty.json"))),
    }


def read(path: Any) -> Any:
    return read_json(path.read_bytes(), str(path))


def timeless(result: Any) -> dict[str, Any]:
    document: dict[str, Any] = result.to_dict()
    del document["runtime_s"], document["incumbents"]
    return document


def test_every_problem_gives_the_same_through_processes() -> None:
    with make_executor("processes:1")() as pool:  # type: ignore[misc]
        for name, (method, instance) in instances().items():
            alone = solve_many(name, [instance] * 2, method=method)
            spread = solve_many(name, [instance] * 2, method=method, executor=pool)
            assert [timeless(one) for one in spread] == [timeless(one) for one in alone], name


def test_what_is_wrong_is_raised_and_not_swallowed() -> None:
    _, instance = instances()["placement"]
    with pytest.raises(InstanceError, match="is not a method of placement"):
        solve_many("placement", [instance], method="no_such", executor=make_executor("threads:1"))
    with pytest.raises(InstanceError, match="is not a problem"):
        solve_many("placing", [instance], limits=Limits())
