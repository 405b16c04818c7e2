"""Reports of routing and micro-batches, and of several problems: the same numbers in every format, none too good."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from moeopt.microbatch import MicrobatchInstance
from moeopt.registry import PROBLEMS, problem
from moeopt.report import Block, Header, render_csv, render_html, render_json, render_markdown, render_tex
from moeopt.report.sheet import sheets_of
from moeopt.routing import RoutingInstance, evaluate
from tests.microbatch.strategies import instances as micro_batches
from tests.report.conftest import HOSTILE, compared, frozen, instance_of
from tests.report.page_check import Page
from tests.routing.strategies import instances as routings

TINY = Path(__file__).parents[2] / "instances" / "tiny"
RENDERS = (render_html, render_markdown, render_csv, render_tex, render_json)
PLAIN = {"routing": ["even", "waterfill", "newton", "integer"], "microbatch": ["lpt", "simulate", "closed_form"]}


def words_of(page: Page) -> str:
    """All text, evenly spaced."""
    return " ".join(" ".join(page.text).split())


def block_of(instance: Any, name: str, methods: list[str] | None = None, **options: Any) -> Block:
    return Block(instance, frozen(problem(name).compare(instance, methods or PLAIN[name], **options)))


def tiny(name: str, file: str, methods: list[str] | None = None) -> Block:
    document = json.loads((TINY / name / f"{file}.json").read_text())
    return block_of(problem(name).instance_type.from_dict(document), name, methods)


FILES = [("routing", "pair_whole"), ("routing", "floor"), ("microbatch", "waves"), ("microbatch", "weights_twice")]


@pytest.mark.parametrize(("name", "file"), FILES)
def test_every_format_has_the_numbers_of_the_comparison(header: Header, name: str, file: str) -> None:
    """The best value is that solved by hand; all methods are rows of every format, with the same numbers."""
    block = tiny(name, file)
    optimum = json.loads((TINY / name / "optima.json").read_text())["optima"][file]
    texts = {render: render([block], header) for render in RENDERS}
    document = json.loads(texts[render_json])["blocks"][0]
    rows = list(csv.DictReader(texts[render_csv].splitlines()))
    assert [row["method"] for row in rows] == [row.method for row in block.comparison.rows]
    for row, other, own in zip(rows, document["rows"], block.comparison.rows, strict=True):
        for key in ("objective", "lower_bound", "gap", "runtime_s"):
            assert (float(row[key]) if row[key] else None) == other[key]
        assert other["objective"] == (own.result.objective if own.result is not None else None)
        assert all(row["method"].replace("_", "") in texts[one].replace("\\_", "").replace("_", "") for one in RENDERS)
    least = min(row["objective"] for row in document["rows"] if row["objective"] is not None)
    assert least >= optimum * (1 - 1e-9) and document["lower_bound"] <= optimum * (1 + 1e-9)
    page = Page(texts[render_html])
    assert page.faults == [] and page.count("figure") == page.count("svg") >= 1
    assert document["problem"] == name and rows[0]["problem"] == name


@settings(max_examples=8)
@given(routings())
def test_every_routing_has_a_sheet(instance: RoutingInstance) -> None:
    _is_sound(block_of(instance, "routing"))


@settings(max_examples=8)
@given(micro_batches())
def test_every_micro_batch_instance_has_a_sheet(instance: MicrobatchInstance) -> None:
    _is_sound(block_of(instance, "microbatch"))


def _is_sound(block: Block) -> None:
    """As many cells as heads, no gap below 0, no number that is none, no verdict without an end."""
    (sheet,) = sheets_of([block])
    assert all(len(line.cells) in (0, len(sheet.heads)) for line in sheet.lines)
    assert all("".join(sentence).endswith(".") for sentence in sheet.verdict) and sheet.verdict
    for line in sheet.lines:
        assert line.cells or line.remark
        assert not any(cell in ("nan", "inf", "None") or cell.startswith("-") for cell in line.cells)
    for record in sheet.records:
        assert set(record) == set(sheet.columns)
        assert record["gap"] is None or 0 <= record["gap"] <= 1
        assert all(math.isfinite(value) for value in record.values() if isinstance(value, float))
    assert render_json([block], Header("x")) and render_markdown([block], Header("x"))


def test_the_loads_drawn_are_those_of_the_referee(header: Header) -> None:
    block = tiny("routing", "pair")
    text = render_html([block], header)
    assert text == render_html([block], header)
    page = words_of(Page(text))
    tops = {row.method: max(evaluate(block.instance, row.result.plan).gpu_cost[0])
            for row in block.comparison.rows if row.result is not None}  # fmt: skip
    assert tops["newton"] == 7.5 and tops["even"] == 8.5
    assert "Busiest GPU: waterfill 7.5, even 8.5" in page and "all 2 GPUs have so much that lies nowhere else" in page
    assert "Over even it wins 11.8 %. No dispatch rule does better on these replicas." in page


def test_limits_and_orders_are_said_of_micro_batches(header: Header) -> None:
    """A plan in a better order than first come, first served; and a limit that nothing keeps."""
    methods = ["simulate", "search", "exact"]
    page = words_of(Page(render_html([tiny("microbatch", "better_order", methods)], header)))
    assert "The shortest step: 15 s, by" in page and "takes 6.67 % longer" in page
    times = {"attention": 1.0, "dispatch": 0.5, "experts": 1.0}
    slow = block_of(MicrobatchInstance(times, layers=2, m=[1, 2], tbt_slo_s=1.0, name="slow"), "microbatch")
    text = render_markdown([slow], header)
    assert "No plan exists: no candidate keeps the limits" in text and "INFEASIBLE" in text
    assert Page(render_html([slow], header)).count("figure") == 0


def test_an_expert_without_a_replica_is_said_of_routing(header: Header) -> None:
    block = block_of(RoutingInstance([[4, 2]], [[0, 0]], gpus=2, name="lost"), "routing")
    page = Page(render_html([block], header))
    assert page.faults == [] and page.count("figure") == 0
    assert "No split exists" in " ".join(page.text) and "expert 1 has 2 tokens and no replica" in " ".join(page.text)


def test_one_page_has_blocks_of_all_problems(header: Header) -> None:
    blocks = [
        compared(instance_of(), ["lpt"]),
        tiny("routing", "home"),
        tiny("collocation", "two_pairs", ["id_order", "load_only"]),
        tiny("microbatch", "pair"),
        tiny("mesh", "mixed", ["recipe", "per_price"]),
        tiny("microbatch", "hop_b"),
    ]
    assert {block.comparison.problem for block in blocks} == set(PROBLEMS)
    texts = {render: render(blocks, header) for render in RENDERS}
    page = Page(texts[render_html])
    assert page.faults == [] and page.count("table") == len(blocks) and page.count("h1") == 1
    said = words_of(page)
    assert "5 problems compared on 6 instances" in said and "Routing: home" in said and "Micro-batches: pair" in said
    assert page.count("h3") == 6  # both micro-batch instances have words of their own for what a step is cut into
    assert len(texts[render_html].encode()) < 1_000_000
    rows = list(csv.DictReader(texts[render_csv].splitlines()))
    assert [row["problem"] for row in rows] == [block.comparison.problem for block in blocks
                                                for _ in block.comparison.rows]  # fmt: skip
    assert [block["problem"] for block in json.loads(texts[render_json])["blocks"]] == [
        block.comparison.problem for block in blocks
    ]


@pytest.mark.parametrize("name", PLAIN)
def test_hostile_names_are_text_in_every_problem(header: Header, name: str) -> None:
    file = {"routing": "pair", "microbatch": "pair"}[name]
    instance = problem(name).instance_type.from_dict(
        json.loads((TINY / name / f"{file}.json").read_text()) | {"name": HOSTILE}
    )
    page = Page(render_html([block_of(instance, name)], Header(HOSTILE)))
    assert page.faults == [] and len(page.scripts) == 1 and " ".join(page.text).count(HOSTILE) >= 3
