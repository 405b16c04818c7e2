"""``moeopt mesh --slo-curve``: a table, JSON, figures, and what is refused."""

import json

import pytest

SMALL = ("--llm", "mixtral-8x7b", "--gpu", "h100:8", "--input-tokens", 1024, "--output-tokens", 128,
         "--families", "colocated", "--most-pp", 1, "--rate", 5)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("curve")


def test_tighter_and_looser_levels_are_priced(moeopt, folder):
    plan = folder / "plan.json"
    run = moeopt("mesh", *SMALL, "--tpot", "12ms", "--ttft", "1s", "--slo-curve", "-o", plan)
    out = " ".join(run.out.split())
    assert run.code == 0, run.err
    assert "other service levels, the other one as asked" in out
    assert "TPOT 6.00 ms" in out and "TPOT 12.0 ms" in out and "TTFT 2.00 s" in out and "asked" in out
    curve = json.loads(plan.read_text())["slo_curve"]
    assert len(curve) == 10 and {point["level"] for point in curve} == {"tpot_s", "ttft_s"}
    assert [point["objective"] for point in curve if point["factor"] == 1] == [
        json.loads(plan.read_text())["objective"]
    ] * 2
    run = moeopt("verify", plan)
    assert run.code == 0 and "slo_curve" in run.err


def test_the_curve_is_drawn_also_where_nothing_keeps_what_is_asked(moeopt, folder):
    svg, png = folder / "curve.svg", folder / "curve.png"
    run = moeopt("mesh", *SMALL, "--tpot", "2ms", "--slo-curve", "-o", svg)
    assert run.code == 3 and "no plan" in run.out
    text = svg.read_text()
    assert "TPOT at most" in text and "no plan" in text and "best plan" in text
    assert moeopt("mesh", *SMALL, "--tpot", "20ms", "--slo-curve", "-q", "-o", png).code == 0
    assert png.read_bytes().startswith(b"\x89PNG")


def test_without_a_level_there_is_nothing_to_vary(moeopt):
    run = moeopt("mesh", *SMALL, "--slo-curve")
    assert run.code == 2 and "--slo-curve = given: has nothing to vary: no service level is asked for" in run.err
