"""The timeline: windows and lanes, the terminal's lines, and the drawing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import microbatch
from moeopt.cli.timeline import ASCII, Signs, timeline_lines
from moeopt.report.plots.timeline import said, timeline_plot, timeline_png, timeline_svg
from moeopt.report.timeline import WHOLE_LAYERS, Timeline

FOUR = {"attention": 0.4e-3, "dispatch": 0.3e-3, "experts": 0.5e-3}
SPLIT = {
    "chunks": {"dispatch": 0.25e-3, "experts": 0.3e-3, "rest": 0.4e-3},
    "waves": {"dispatch": 0.2e-3, "experts": 0.3e-3, "combine": 0.1e-3},
    "hop-b": {"attention": 2e-6, "exchange": 1.2e-6, "rest": 6e-6},
}


def solved(pattern: str = "ping-pong", layers: int = 40, m: int = 3, **times: float) -> dict:
    instance = microbatch.MicrobatchInstance(times or SPLIT.get(pattern, FOUR), layers=layers, m=m, pattern=pattern)
    solution = microbatch.solve(instance).solution
    assert solution is not None
    return dict(solution)


def test_short_steps_are_whole_and_long_ones_have_three_windows():
    assert len(Timeline.of(solved(layers=WHOLE_LAYERS)).windows()) == 1
    first, middle, last = Timeline.of(solved(layers=61)).windows()
    assert first.start == 0 and last.end == pytest.approx(Timeline.of(solved(layers=61)).span)
    assert first.end <= middle.start < middle.end <= last.start
    assert (middle.unseen, last.unseen) == ("layers 2-28", "layers 31-58")


@pytest.mark.parametrize("layers", range(WHOLE_LAYERS + 1, 14))
def test_windows_do_not_overlap_at_any_length(layers: int):
    windows = Timeline.of(solved(layers=layers)).windows()
    assert all(one.end <= two.start + 1e-15 for one, two in pairwise(windows))


def test_a_resource_that_serves_two_stages_has_two_lanes():
    step = Timeline.of(solved("dual", 2, 2))
    assert [(lane.resource, lane.stage) for lane in step.lanes] == [
        ("compute", "attention"),
        ("compute", "experts"),
        ("network", "dispatch"),
        ("network", "combine"),
    ]


def test_what_takes_no_time_has_no_lane():
    step = Timeline.of(solved(layers=2, m=2, attention=1.0, dispatch=0.0, experts=1.0))
    assert [lane.stage for lane in step.lanes] == ["attention", "experts"]


def test_the_cycle_that_is_marked_is_a_lap_of_that_length():
    step = Timeline.of(solved())
    found = step.cycle_shown(step.windows())
    assert found is not None and found[1] - found[0] == pytest.approx(step.cycle)
    assert Timeline.of(solved(layers=1)).cycle_shown([]) is None


@given(
    times=st.tuples(*[st.floats(1e-6, 1.0) | st.just(0.0)] * 4).filter(any),
    m=st.integers(1, 9),
    layers=st.integers(1, 30),
    width=st.integers(10, 160),
    plain=st.booleans(),
)
def test_lines_are_as_wide_as_they_may_be_and_no_wider(times, m, layers, width, plain):
    names = ("attention", "dispatch", "experts", "combine")
    instance = microbatch.MicrobatchInstance(dict(zip(names, times, strict=True)), layers=layers, m=m)
    step = Timeline.of(microbatch.solve(instance).solution)
    lines = timeline_lines(step, width, "ms", ASCII if plain else Signs())
    texts = ["".join(text for text, _ in line) for line in lines]
    assert all(len(text) <= width for text in texts)
    if texts:
        assert len(texts) == len(step.lanes) + 2
        assert not plain or all(text.isascii() for text in texts)


def test_no_step_at_all_draws_nothing():
    step = Timeline.of(solved(layers=2, m=2, attention=0.0, dispatch=0.0, experts=0.0))
    assert timeline_lines(step, 80, "ms", ASCII) == []
    assert timeline_svg(solved(layers=2, m=2, attention=0.0, dispatch=0.0, experts=0.0)).startswith("<?xml")


@pytest.mark.parametrize(
    ("pattern", "layers", "m"),
    [
        ("ping-pong", 2, 4),
        ("ping-pong", 1, 1),
        ("ping-pong", 61, 4),
        ("ping-pong", 61, 16),
        ("shared-link", 61, 3),
        ("dual", 58, 2),
        ("chunks", 40, 4),
        ("waves", 1, 12),
        ("hop-b", 3, 8),
    ],
)
def test_drawings_are_svg_with_names_utilisation_and_time(pattern: str, layers: int, m: int):
    solution = solved(pattern, layers, m)
    svg = timeline_svg(solution, "us")
    texts = [node.text or "" for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    step = Timeline.of(solution)
    assert set(step.resources) <= set(texts)
    assert {"busy", "idle", "time, µs", f"{step.span * 1e6:.6g}"} <= set(texts)
    assert sum(text.endswith(" %") for text in texts) == len(step.resources)
    if layers > WHOLE_LAYERS and step.cycle is not None:
        assert any(text.startswith("cycle ") for text in texts)
    assert any(text.startswith("layers ") for text in texts) == (layers > WHOLE_LAYERS)
    assert len(svg) < 400_000


def test_same_plan_same_bytes():
    solution = solved(layers=9)
    assert timeline_svg(solution) == timeline_svg(solution)
    assert timeline_png(solution)[:4] == b"\x89PNG"


def test_a_plot_for_a_page_says_what_it_shows():
    plot = timeline_plot(solved(), "t")
    assert plot.title == "A step of 40 layers with 3 micro-batches, ping-pong"
    assert plot.caption == said(Timeline.of(solved()))
    assert "It takes 61 ms" in plot.alt and "One more layer costs 1.5 ms" in plot.alt
    assert not re.search(r'\sid="(?!t-)', plot.svg)
