"""Small comparisons of cheap methods, so that nothing is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from moeopt import placement
from moeopt.placement import PlacementInstance
from moeopt.registry import Comparison
from moeopt.report import Block, Header, render_html
from moeopt.workload import generate

BLOCK_METHODS = ("contiguous", "eplb", "eplb_raw", "lpt", "fold")
HOSTILE = "<script>alert('x')</script> & \"quoted\" | pipe, `tick` $x$ _u_ </svg>"


def frozen(comparison: Comparison) -> Comparison:
    """The same with every measured time set to one second."""
    rows = [
        row if row.result is None else replace(row, result=replace(row.result, runtime_s=1.0))
        for row in comparison.rows
    ]
    return replace(comparison, rows=tuple(rows))


def compared(instance: PlacementInstance, methods: Iterable[str], **options: object) -> Block:
    return Block(instance, frozen(placement.compare(instance, methods, **options)))  # type: ignore[arg-type]


def instance_of(layers: int = 6, experts: int = 16, **options: object) -> PlacementInstance:
    loads = generate("lognormal", layers=layers, experts=experts, top_k=2, tokens=1000, seed=3).loads
    fields = {"gpus": 4, "slots": 24, "name": "small", **options}
    return PlacementInstance(loads, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def header() -> Header:
    return Header("moeopt compare small.csv --gpus 4", 7, {"moeopt": "0.0", "numpy": "0.0"})


@pytest.fixture(scope="session")
def block() -> Block:
    return compared(instance_of(), BLOCK_METHODS)


@pytest.fixture(scope="session")
def page_text(block: Block, header: Header) -> str:
    """The page of `block`, drawn once."""
    return render_html([block], header)
