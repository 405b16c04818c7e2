"""The heat map has 1 in the middle of its lightness: neither good plans nor bad ones are one dark block."""

from __future__ import annotations

import base64
import io
import re

import matplotlib.image
import numpy as np
import pytest

from moeopt.placement import PlacementInstance
from moeopt.report.plots.heat import before, heat_map, relative_cost
from moeopt.report.summary import summarise
from moeopt.workload import generate
from tests.report.conftest import compared


def greys(svg: str) -> list[np.ndarray]:
    """Lightness of the panels, 0 to 1; the colour bar is drawn otherwise or is last."""
    found = [matplotlib.image.imread(io.BytesIO(base64.b64decode(re.sub(r"\s", "", one)))) for one in
             re.findall(r"base64,([A-Za-z0-9+/=\s]+)\"", svg)]  # fmt: skip
    return [picture[..., :3] @ np.array([0.2126, 0.7152, 0.0722]) for picture in found]


@pytest.mark.parametrize(
    ("methods", "slots"), [("eplb,lpt", 80), ("contiguous,round_robin", 80), ("contiguous,lpt", 80)]
)
def test_the_scale_has_one_in_its_middle(methods: str, slots: int) -> None:
    loads = generate("zipf", layers=6, experts=64, top_k=6, tokens=20000, seed=1, alpha=0.7).loads
    summary = summarise(compared(PlacementInstance(loads, gpus=16, slots=slots), methods.split(",")))
    plot = heat_map(summary, "x")
    best = summary.best
    assert plot is not None and best is not None
    first = before(summary, best)
    assert first is not None
    tables = [relative_cost(summary, row) for row in (first, best)]
    low, top = min(map(np.min, tables)), max(map(np.max, tables))
    shown = [float(one) for one in re.findall(r"from (\d\.\d+) to (\d\.\d+) \(line", plot.caption)[0]]
    assert shown == pytest.approx([min(low, 0.99), max(top, 1.01)], abs=0.006)
    panel = greys(plot.svg)[0]
    assert panel.max() - panel.min() > 0.4  # light and dark in the plan before, in grey too
    assert 0.15 < np.median(panel) < 0.75


def test_what_is_nearly_perfect_is_not_drawn_as_contrast() -> None:
    summary = summarise(compared(PlacementInstance([[1000, 1001, 1000, 1001]], gpus=2, slots=4), ["lpt"]))
    plot = heat_map(summary, "x")
    assert plot is not None and "from 0.990 to 1.010" in plot.caption
    panel = greys(plot.svg)[0]
    assert panel.max() - panel.min() < 0.1
