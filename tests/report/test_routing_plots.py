"""Pictures of routings: their numbers are the referee's, whatever the number of GPUs and layers."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from moeopt.report import Block, Header, render_html
from moeopt.report.plots.routing import FEW_GPUS
from moeopt.routing import PROBLEM, RoutingInstance
from tests.report.conftest import frozen
from tests.report.page_check import Page


def block_of(gpus: int, layers: int, methods: list[str]) -> Block:
    rng = np.random.default_rng(gpus)
    experts = gpus
    slots = np.stack([np.concatenate([np.arange(experts), rng.permutation(experts)[:gpus]]) for _ in range(layers)])
    placed = slots.reshape(layers, 2, gpus).transpose(0, 2, 1).reshape(layers, -1)
    instance = RoutingInstance(rng.integers(1, 90, (layers, experts)), placed, gpus=gpus)
    return Block(instance, frozen(PROBLEM.compare(instance, methods)))


def top(block: Block, method: str) -> list[Any]:
    row = next(row for row in block.comparison.rows if row.method == method)
    assert row.result is not None and row.result.solution is not None
    return [layer["max_load"] for layer in row.result.solution["layers"]]


@pytest.mark.parametrize("gpus", [6, FEW_GPUS + 1])
def test_layers_and_gpus_are_drawn_with_the_means_of_the_referee(header: Header, gpus: int) -> None:
    block = block_of(gpus, 3, ["even", "newton"])
    page = Page(render_html([block], header))
    text = " ".join(" ".join(page.text).split())
    assert page.faults == [] and page.count("svg") == 2
    excess = np.array(top(block, "even")) / np.array(top(block, "newton")) - 1
    assert excess.max() > 0
    said = re.search(r"Lower is better\. Means over layers: even ([0-9.]+) %", text)
    assert said is not None and float(said[1]) == pytest.approx(100 * excess.mean(), rel=6e-3)
    assert "Not drawn, as they are on the bound everywhere: newton." in text
    assert f"layer {int(np.argmax(excess))}" in text


def test_splits_that_are_all_on_the_bound_have_no_layers_to_draw(header: Header) -> None:
    page = Page(render_html([block_of(6, 3, ["newton"])], header))
    assert page.faults == [] and page.count("svg") == 1
