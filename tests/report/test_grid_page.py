"""A grid's table as a page and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moeopt.bench import Pivot, pivot
from moeopt.errors import InstanceError
from moeopt.report import Header
from moeopt.report.grid_file import FORMATS, write_pivot
from tests.report.page_check import Page


def table(means: dict[tuple[str, str], list[float]], axes: list[str], metric: str = "imbalance_mean") -> Pivot:
    """Cells by policy and shape; those without a number have a reason."""
    documents: list[dict[str, Any]] = []
    for (policy, shape), values in means.items():
        for seed, value in enumerate(values):
            cell = {"policy": policy, "shape": shape, "loads": "z", "seed": seed}
            documents.append({"cell": cell, metric: value, "status": "FEASIBLE", "reason": ""})
        if not values:
            cell = {"policy": policy, "shape": shape, "loads": "z", "seed": 0}
            documents.append({"cell": cell, metric: None, "status": "", "reason": "<no> room"})
    return pivot(documents, axes, metric)


MEANS = {("eplb", "a"): [1.5, 2.5], ("eplb", "b"): [1.25], ("lpt", "a"): [1.01, 1.03], ("lpt", "b"): []}


def text_of(found: Pivot, tmp_path: Path, ending: str = ".html") -> str:
    file = tmp_path / f"table{ending}"
    write_pivot(file, found, Header("moeopt bench g.yaml", seed=None), name="<g>", force=True)
    return file.read_text()


def test_a_page_says_who_is_best_where_and_why_cells_have_no_number(tmp_path: Path) -> None:
    page = Page(text_of(table(MEANS, ["policy", "shape"]), tmp_path))
    assert page.faults == []
    said = " ".join(page.text)
    assert "lpt has the least imbalance_mean in 1 of 2 columns." in " ".join(said.split())
    assert "1.0200 *" in said and "1.2500 (1) *" not in said  # nothing to compare it with
    assert "<g>" in said and "1 cell: <no> room" in said and "5 of 6 have it" in said
    assert "1.2500 (1)" in said and "2.0000" in said and "Seed" not in said


def test_only_a_policy_that_is_least_everywhere_is_marked(tmp_path: Path) -> None:
    shared = text_of(table(MEANS, ["policy", "shape"]), tmp_path)
    alone = text_of(table({**MEANS, ("lpt", "b"): [1.02]}, ["policy", "shape"]), tmp_path)
    assert ('<tr class="best">' in shared, alone.count('<tr class="best">')) == (False, 1)
    turned = text_of(table(MEANS, ["shape", "policy"]), tmp_path)
    assert '<tr class="best">' not in turned and "in 1 of 2 rows" in turned


@pytest.mark.parametrize("axes", [["policy"], ["policy", "shape"], ["seed", "loads"]])
@pytest.mark.parametrize(("metric", "factor"), [("imbalance_mean", 1.0), ("gap_worst", 0.01), ("runtime_s", 1e-6)])
def test_every_pivot_is_drawn(axes: list[str], metric: str, factor: float, tmp_path: Path) -> None:
    found = table({key: [factor * value for value in values] for key, values in MEANS.items()}, axes, metric)
    drawn = text_of(found, tmp_path, ".svg")
    assert drawn.startswith("<?xml") and metric in drawn and all(f">{name}<" in drawn for name in found.row_names)
    assert "mathdefault" not in drawn


def test_what_is_far_closer_to_even_than_the_rest_is_drawn_by_its_excess(tmp_path: Path) -> None:
    near = table({("eplb", "a"): [3.0], ("search", "a"): [1.001]}, ["policy"])
    assert "imbalance_mean - 1" in text_of(near, tmp_path, ".svg")
    even = table({("eplb", "a"): [3.0], ("search", "a"): [1.0]}, ["policy"])
    assert "imbalance_mean - 1" not in text_of(even, tmp_path, ".svg")


def test_a_grid_without_numbers_has_a_page_and_one_of_many_policies_a_picture(tmp_path: Path) -> None:
    none = table({("eplb", "a"): [], ("lpt", "a"): []}, ["policy", "shape"])
    said = " ".join(Page(text_of(none, tmp_path)).text)
    assert "no cell of it has this metric" in said and "2 cells: <no> room" in said
    assert text_of(none, tmp_path, ".svg")
    many = table({(f"p{place}", "a"): [1.0 + place] for place in range(20)}, ["policy"])
    assert "the first 16 of 20 along policy" in text_of(many, tmp_path)


def test_pictures_come_again_byte_for_byte_and_other_endings_are_refused(tmp_path: Path) -> None:
    found = table(MEANS, ["policy", "shape"])
    for ending in (".svg", ".png"):
        make = FORMATS[ending]
        assert make is not None and make(found) == make(found)
    with pytest.raises(InstanceError, match=r"Known: \.html, \.md, \.csv, \.tex, \.json, \.svg, \.png"):
        write_pivot(tmp_path / "a.pdf", found)
