"""Files that verbs write: refused before the work, never overwritten unasked."""

from __future__ import annotations

import pytest

SHAPE = ("--gpus", 3, "--slots", 6)


def test_output_is_not_overwritten_without_force(moeopt, tiny, plan):
    before = plan.read_bytes()
    run = moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", plan)
    assert (run.code, plan.read_bytes()) == (2, before)
    assert "exists and is never overwritten unasked. Choose another name or give --force" in run.err
    assert moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", plan, "--force").code == 0
    assert plan.read_bytes() != before
    assert sorted(file.name for file in plan.parent.iterdir()) == ["plan.json", "tiny.csv"]


def _writing(tiny):
    return {
        "place": ("place", tiny, *SHAPE, "--method", "lpt"),
        "compare": ("compare", tiny, *SHAPE, "--methods", "lpt"),
        "export": ("export", tiny, "--gpus", 2, "--slots", 4, "--layer", 7),
        "generate": ("generate", "zipf", "--experts", 8, "--top-k", 2, "--tokens", 100, "--layers", 2),
    }


ENDINGS = {"place": "json", "compare": "md", "export": "lp", "generate": "csv"}


@pytest.mark.parametrize("verb", ENDINGS)
def test_a_bad_output_file_is_refused_before_the_work(moeopt, tiny, tmp_path, monkeypatch, verb):
    from moeopt import workload
    from moeopt.placement import PROBLEM

    def worked(*_, **__):
        raise AssertionError("the work began")

    for owner, name in ((PROBLEM, "solve"), (PROBLEM, "compare"), (workload, "generate")):
        monkeypatch.setattr(owner, name, worked)
    monkeypatch.setattr("moeopt.cli.inputs.read_instance", worked)
    words, ending = _writing(tiny)[verb], ENDINGS[verb]
    taken = tmp_path / f"taken.{ending}"
    taken.write_text("mine")
    (tmp_path / f"folder.{ending}").mkdir()
    for name, said in (
        (f"absent/x.{ending}", "there is no folder"),
        (f"taken.{ending}/x.{ending}", "there is no folder"),
        (f"taken.{ending}", "never overwritten unasked"),
        (f"folder.{ending}", "is a folder"),
        ("x.pdf", "ends in .pdf"),
        ("x", "has no ending"),
    ):
        run = moeopt(*words, "-o", tmp_path / name)
        assert (run.code, run.out) == (2, "") and said in run.err, name
    monkeypatch.setattr("os.access", lambda *_: False)
    run = moeopt(*words, "-o", tmp_path / f"x.{ending}")
    assert run.code == 2 and "is not writable" in run.err
    assert taken.read_text() == "mine"


def test_a_dash_is_standard_output_or_refused(moeopt, tiny, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = _writing(tiny)
    assert moeopt(*words["place"], "-o", "-").document["schema"] == "moeopt/placement-result/1"
    assert moeopt(*words["place"], "-o", "-", "--json").document["method"] == "lpt"
    assert moeopt(*words["export"], "-o", "-").out == moeopt(*words["export"]).out
    assert moeopt(*words["generate"], "-o", "-").out == moeopt(*words["generate"]).out
    run = moeopt(*words["compare"], "-o", "-")
    assert (run.code, run.out) == (2, "") and "output = -: cannot be standard output" in run.err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["tiny.csv"]


def test_place_writes_plans_and_compare_reports(moeopt, tiny, tmp_path):
    run = moeopt(*_writing(tiny)["place"], "-o", tmp_path / "x.html")
    assert run.code == 2 and "Name it with .json; moeopt compare writes reports" in run.err


def test_the_ending_chooses_the_form_of_a_model(moeopt, tiny, tmp_path):
    words = _writing(tiny)["export"]
    for ending, sign in (("mps", "ROWS"), ("lp", "Minimize")):
        assert moeopt(*words, "-o", tmp_path / f"m.{ending}").code == 0
        assert sign in (tmp_path / f"m.{ending}").read_text()
    run = moeopt(*words, "--format", "lp", "-o", tmp_path / "n.mps")
    assert run.code == 2 and "contradicts the ending" in run.err and not (tmp_path / "n.mps").exists()


def test_a_plan_that_is_not_kept_is_told_unless_quiet(moeopt, tiny, tmp_path):
    words, hint = _writing(tiny)["place"], "the plan was not written: -o plan.json"
    assert hint in moeopt(*words).err
    assert hint not in moeopt(*words, "-q").err + moeopt(*words, "--json").err
    assert hint not in moeopt(*words, "-o", tmp_path / "kept.json").err
