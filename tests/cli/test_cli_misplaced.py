"""Words in a place where something else is meant: the first thing said is what they are."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def counts(tmp_path):
    """Loads in each of their forms, of four experts; none of the numbers is an id."""
    table = np.array([[800, 450, 210, 25], [500, 70, 190, 990]])
    (tmp_path / "loads.csv").write_text("800,450,210,25\n500,70,190,990\n")
    (tmp_path / "named.csv").write_text("layer,a,b,c,d\n3,800,450,210,25\n7,500,70,190,990\n")
    (tmp_path / "rows.json").write_text(json.dumps(table.tolist()))
    (tmp_path / "object.json").write_text(json.dumps({"loads": table.tolist()}))
    (tmp_path / "windows.json").write_text(json.dumps([table.tolist(), table.tolist()]))
    np.save(tmp_path / "loads.npy", table)
    np.savez(tmp_path / "parts.npz", loads=table / 7)
    return tmp_path


FORMS = ("loads.csv", "named.csv", "rows.json", "object.json", "windows.json", "loads.npy", "parts.npz")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("place", "TINY", "--gpus", 3, "--slots", 6, "--current", "FORM"), "--current"),
        (("compare", "TINY", "--gpus", 3, "--slots", 6, "--methods", "lpt", "--plans", "FORM"), "--plans"),
        (("verify", "FORM"), "PLAN"),
        (("route", "FORM", "TINY"), "PLAN"),
    ],
)
def test_loads_in_the_place_of_a_plan_are_called_so_in_one_line(moeopt, counts, tiny, form, words, field):
    words = [{"TINY": tiny, "FORM": counts / form}.get(word, word) for word in words]
    run = moeopt(*words)
    assert run.code == 2 and run.err.count("error:") == 1
    assert f"{field} = {counts / form}: is a file of loads, not a plan" in run.err


def test_a_slot_table_with_a_slip_is_still_one(moeopt, tmp_path, tiny):
    (tmp_path / "slots.csv").write_text("0,1,2,9\n0,1,2,3\n")
    run = moeopt("place", tiny, "--gpus", 2, "--slots", 4, "--current", tmp_path / "slots.csv")
    assert run.code == 2 and "= 9: expert ids run from 0 to 3" in run.err and "file of loads" not in run.err


@pytest.mark.parametrize("words", [("TINY", "--plans", "A", "B"), ("--plans", "A", "B"), ("--plans", "A", "B", "TINY")])
def test_plans_with_a_space_between_them_are_told_the_comma(moeopt, plan, tiny, words):
    other = plan.with_name("other.json")
    other.write_bytes(plan.read_bytes())
    run = moeopt("compare", *[{"A": plan, "B": other, "TINY": tiny}.get(word, word) for word in words])
    assert run.code == 2 and run.err.count("error:") == 1
    assert f"input = {other}: is a plan beside --plans" in run.err and f"Write --plans {plan},{other}." in run.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("drift", "--windows", 12), "is not a generator. Loads that drift are walk, shift, hotspot, burst."),
        (("drift", "--drift", 0.1), "is not a generator. Loads that drift are walk, shift, hotspot, burst."),
        (("hotspots", "--windows", 12), "is not a generator. Did you mean hotspot? Loads that drift are"),
        (("zip", "--alpha", 1), "is not a generator. Did you mean zipf? Known are zipf, lognormal,"),
    ],
)
def test_a_generator_that_is_none_is_said_first(moeopt, words, said):
    run = moeopt("generate", *words)
    assert run.code == 2 and run.err.startswith(f"error: kind = {words[0]}: {said}")
    assert "does not belong" not in run.err


@pytest.mark.parametrize(
    "verb", [("check", "--experts", 32, "--slots", 48, "--gpus", 8), ("generate", "zipf", "--experts", 4, "--top-k", 1)]
)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0-57", "is the number of layers here, not their ids. Write --layers 58."),
        ("3,5-8", "is the number of layers here, not their ids. Write --layers 5."),
        ("0", "must be a whole number >= 1"),
        ("five", "must be a whole number >= 1"),
    ],
)
def test_ids_where_the_number_of_layers_is_meant_are_told_apart(moeopt, verb, text, said):
    run = moeopt(*verb, "--layers", text)
    assert run.code == 2 and f"--layers = {text}: {said}" in run.err


def test_an_option_of_another_verb_is_told_whose_it_is(moeopt, plan):
    assert "No such option: --to" in moeopt("export", plan, "--to", "sglang").err
    assert "It is an option of moeopt convert." in moeopt("export", plan, "--to", "sglang").err
    assert "It is an option" not in moeopt("export", plan, "--xyzzy", 1).err


def test_the_table_of_a_grid_is_called_by_its_option_and_its_axes_as_the_grid_calls_them(moeopt, tmp_path):
    grid = tmp_path / "grid.json"
    loads = {"steep": {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 1, "tokens": 100}}
    known = {"policies": ["lpt"], "shapes": {"two": {"gpus": 2, "slots": 4}}, "loads": loads, "seeds": [0]}
    grid.write_text(json.dumps(known))
    run = moeopt("bench", grid, "-o", tmp_path / "out", "--table", "rt.pdf")
    assert run.code == 2 and "error: --table = rt.pdf: ends in .pdf" in run.err
    assert "error: --table = -: cannot be" in moeopt("bench", grid, "-o", tmp_path / "out", "--table", "-").err
    run = moeopt("bench", grid, "-o", tmp_path / "out", "--pivot", "policies,seeds", "--json")
    same = moeopt("bench", grid, "-o", tmp_path / "out", "--resume", "--pivot", "policy,seed", "--json")
    assert run.code == same.code == 0 and run.document["pivot"] == same.document["pivot"]
    run = moeopt("bench", grid, "-o", tmp_path / "out", "--pivot", "polices")
    assert "pivot = polices: is no axis of a grid. Did you mean policy?" in run.err


def test_windows_that_stay_together_with_apart_are_said(moeopt, counts, tiny):
    words = ("--gpus", 3, "--slots", 6, "--methods", "lpt")
    run = moeopt("compare", "--apart", counts / "windows.json", tiny, *words)
    assert run.code == 0 and f"{counts / 'windows.json'}: its 2 windows stay one comparison" in run.err
    assert "stay one comparison" in moeopt("compare", "--apart", counts / "windows.json", *words).err
    assert "stay one" not in moeopt("compare", counts / "windows.json", *words).err


def test_windows_are_generated_as_json(moeopt, tmp_path):
    words = ("--windows", 3, "--layers", 2, "--experts", 4, "--top-k", 1, "--tokens", 100)
    assert moeopt("generate", "walk", *words, "-o", tmp_path / "w.json").code == 0
    assert moeopt("generate", "walk", *words, "-o", tmp_path / "w.npy").code == 0
    assert json.loads((tmp_path / "w.json").read_text())["loads"] == np.load(tmp_path / "w.npy").tolist()
    shape = ("--gpus", 2, "--slots", 6, "--json")
    one, other = (moeopt("inspect", tmp_path / name, *shape).document["files"][0] for name in ("w.json", "w.npy"))
    assert one["per_layer"] == other["per_layer"]
    assert moeopt("generate", "walk", *words, "-o", tmp_path / "w.csv").code == 2
