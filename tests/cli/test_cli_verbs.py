"""Every verb, its exit codes and what it prints."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
from conftest import LOADS

from moeopt.placement import PlacementInstance

VERBS = (
    "place",
    "compare",
    "convert",
    "verify",
    "inspect",
    "check",
    "generate",
    "export",
    "info",
    "warmup",
    "microbatch",
    "calibrate",
)
SHAPE = ("--gpus", 3, "--slots", 6)


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(moeopt, verb):
    run = moeopt(verb, "--help")
    assert run.code == 0
    assert "Example:" in run.out and f"moeopt {verb}" in run.out


def test_alone_the_command_prints_its_help(moeopt):
    run = moeopt()
    assert run.code == 0
    assert all(verb in run.out for verb in VERBS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nope",), "No such command 'nope'"),
        (("place",), "Missing argument 'INPUT"),
        (("place", "FILE", "--nope"), "No such option: --nope"),
        (("place", "FILE", "--gpus", "x"), "--gpus"),
        (
            ("place", "FILE", *SHAPE, "--time-limit", "5x"),
            "--time-limit = 5x: must be a number and a unit of ns, us, ms",
        ),
        (("place", "FILE", *SHAPE, "--gap", "2"), "limits.gap (--gap) = 2.0"),
        (("place", "FILE", *SHAPE, "--method", "serch"), "Did you mean search?"),
        (("place", "FILE", *SHAPE, "--layers", "3,4"), "--layers = 4: is not a layer of this file. It has 3 to 7."),
        (("place", "FILE", "--gpus", "4", "--slots", "6"), "slots = 6: must be a multiple of gpus = 4"),
        (("place", "FILE", *SHAPE, "--slots-per-gpu", "2"), "says the same as --slots"),
        (("place", "FILE", "--slots-per-gpu", "2"), "--gpus = missing"),
        (("place", "FILE", *SHAPE, "--method", "fold", "--speed", "1,1,0.5"), "fold does not apply"),
        (("place", "absent.csv", *SHAPE), "absent.csv: input = absent.csv: cannot be read"),
        (("compare", "FILE", *SHAPE, "--methods", "eplb,nope"), "'nope': is not a method of placement"),
        (("generate", "zipf", "--layers", "1"), "--experts = missing"),
        (("generate", "zipf", "--shape", "nope"), "--shape = nope: is not a known shape"),
        (("export", "FILE", *SHAPE), "--layer = missing: is needed"),
        (("export", "FILE", *SHAPE, "--layer", "3", "--format", "sav"), "--format = sav"),
        (("info", "nope"), "topic = nope"),
    ],
)
def test_bad_usage_is_exit_2_with_the_reason(moeopt, tiny, words, said):
    run = moeopt(*(str(tiny) if word == "FILE" else word for word in words))
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert all(line.startswith("error: ") for line in run.err.splitlines())


def test_several_slips_are_told_at_once(moeopt, tiny):
    run = moeopt("place", tiny, "--gpus", 3, "--slots", "x", "--expert-bytes", "4Gb", "--memory-bytes", "1GB")
    assert run.code == 2
    assert "--slots = x: must be a whole number" in run.err
    assert "--expert-bytes = 4Gb: must be a number and a unit" in run.err and "Did you mean 4GB?" in run.err


def test_place_prints_layers_and_a_summary(moeopt, tiny):
    run = moeopt("place", tiny, *SHAPE, "--method", "search", "--iterations", 50, "--split", "even")
    assert run.code == 0
    for word in ("imbalance", "lower bound", "status", "layers       2: "):
        assert word in run.out


def test_quiet_place_prints_nothing_and_json_all(moeopt, tiny):
    assert moeopt("place", tiny, *SHAPE, "--method", "lpt", "-q").out == ""
    document = moeopt("place", tiny, *SHAPE, "--method", "lpt", "-q", "--json").document
    assert [layer["layer"] for layer in document["solution"]["layers"]] == [3, 7]
    assert document["instance"]["document"]["names"] == ["a", "b", "c", "d"]


def test_options_reach_the_instance(moeopt, tiny):
    words = ("--slots-per-gpu", 2, "--gpus", 2, "--speed", "1,0.5", "--floor-tokens", 2, "--steps", 3, "--nodes", 2)
    more = ("--fill", "at_most", "--allow-doubles", "--phase", "decode", "--engine", "sglang", "--name", "n")
    document = moeopt("place", tiny, *words, *more, "--layers", 7, "--method", "lpt", "--json").document
    rules = document["instance"]["document"]
    assert rules["slots"] == [2, 2] and rules["speed"] == [1.0, 0.5] and rules["nodes"] == [0, 1]
    assert (rules["floor_tokens"], rules["steps"], rules["fill"], rules["distinct"]) == (2.0, 3, "at_most", False)
    assert (rules["phase"], rules["engine"], rules["name"], rules["layers"]) == ("decode", "sglang", "n", [7])


def test_sizes_keep_gb_and_gib_apart(moeopt, tiny):
    words = ("place", tiny, "--gpus", 2, "--expert-bytes", "1GB", "--method", "lpt", "--json")
    slots = {
        memory: moeopt(*words, "--memory-bytes", memory).document["instance"]["document"]["slots"]
        for memory in ("3GB,3.9GB", "2.8GiB")
    }
    assert slots == {"3GB,3.9GB": [3, 3], "2.8GiB": [3, 3]}


def test_infeasible_is_exit_3_with_the_rules_that_conflict(moeopt, tiny):
    words = ("place", tiny, "--gpus", 1, "--expert-bytes", "1GB", "--memory-bytes", "2GB", "--method", "lpt", "--json")
    run = moeopt(*words)
    assert run.code == 3
    assert run.document["status"] == "INFEASIBLE"
    assert "infeasible: 4 GB needed" in run.err


def test_output_is_not_overwritten_without_force(moeopt, tiny, plan):
    before = plan.read_bytes()
    run = moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", plan)
    assert (run.code, plan.read_bytes()) == (2, before)
    assert "exists and is never overwritten unasked. Choose another name or give --force" in run.err
    assert moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", plan, "--force").code == 0
    assert plan.read_bytes() != before
    assert sorted(file.name for file in plan.parent.iterdir()) == ["plan.json", "tiny.csv"]


def test_fail_if_worse_is_a_gate(moeopt, tiny):
    worse = moeopt("place", tiny, *SHAPE, "--method", "contiguous", "--fail-if-worse")
    assert worse.code == 5 and "worse than eplb" in worse.err
    assert moeopt("place", tiny, *SHAPE, "--method", "search", "--iterations", 0, "--fail-if-worse").code == 0


def test_an_instance_document_brings_its_own_shape(moeopt, tmp_path):
    file = tmp_path / "instance.json"
    file.write_text(json.dumps(PlacementInstance([[8, 4, 2, 2]], gpus=2, slots=4, name="mine").to_dict()))
    assert moeopt("place", file, "--method", "lpt", "--json").document["instance"]["name"] == "mine"
    run = moeopt("place", file, "--method", "lpt", "--gpus", 2, "--allow-doubles")
    assert run.code == 2 and "Leave out --gpus, --allow-doubles" in run.err
    assert moeopt("place", "-", "--method", "lpt", stdin=file.read_text()).code == 0
    file.write_text(file.read_text().replace("instance/1", "instance/9"))
    assert "is not a placement instance this version knows" in moeopt("place", file).err


def test_our_own_fault_is_exit_1_and_asks_for_a_report(moeopt, tiny, monkeypatch):
    from moeopt.placement import PROBLEM

    def fail(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr(PROBLEM, "conflicts", fail)
    run = moeopt("place", tiny, *SHAPE, "--method", "lpt")
    assert run.code == 1
    assert "please report it: RuntimeError: boom" in run.err and "Traceback" not in run.err
    assert "Traceback" in moeopt("place", tiny, *SHAPE, "--method", "lpt", "--debug").err


def test_ctrl_c_before_there_is_a_plan_is_quiet(moeopt, tiny, monkeypatch):
    from moeopt.placement import PROBLEM

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(PROBLEM, "conflicts", interrupt)
    run = moeopt("place", tiny, *SHAPE, "--method", "lpt")
    assert (run.code, run.err) == (130, "error: interrupted\n")


def test_compare_marks_the_best_and_the_bound(moeopt, tiny):
    run = moeopt("compare", tiny, *SHAPE, "--methods", "contiguous,eplb,eplb_raw,fold,lpt")
    assert run.code == 0
    assert "best" in run.out and "lower bound" in run.out and "proved" in run.out


def test_compare_takes_plans_and_several_inputs(moeopt, tiny, plan, tmp_path):
    other = tmp_path / "other.csv"
    other.write_text("1,2,3,4\n")
    words = ("compare", tiny, other, "--apart", *SHAPE, "--methods", "eplb", "--plans", plan, "--json")
    first, second = moeopt(*words).document["blocks"]
    assert [row["method"] for row in first["rows"]] == ["eplb", "plan.json"]
    assert first["rows"][1]["objective"] == json.loads(plan.read_text())["objective"]
    assert second["rows"][1]["reason"] == "the plan has no layer 0"


def test_compare_is_a_gate_for_plans(moeopt, tiny, tmp_path):
    bad = tmp_path / "bad.json"
    moeopt("place", tiny, *SHAPE, "--method", "contiguous", "-o", bad)
    run = moeopt("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "--plans", bad, "--fail-if-worse")
    assert run.code == 5 and "worse than eplb: bad.json has objective" in run.err
    assert moeopt("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "--fail-if-worse").code == 0


def test_compare_of_an_infeasible_instance_is_exit_3(moeopt, tiny):
    words = ("--gpus", 1, "--expert-bytes", "1GB", "--memory-bytes", "2GB", "--methods", "eplb,lpt")
    assert moeopt("compare", tiny, *words).code == 3


@pytest.mark.parametrize("ending", ["html", "md", "csv", "json"])
def test_compare_writes_a_report(moeopt, tiny, tmp_path, ending):
    file = tmp_path / f"report.{ending}"
    words = ("compare", tiny, *SHAPE, "--methods", "eplb,lpt", "-o", file)
    assert moeopt(*words).code == 0
    text = file.read_text()
    assert "eplb" in text
    again = moeopt(*words)
    assert again.code == 2 and "give --force" in again.err
    assert file.read_text() == text


def test_inspect_says_what_a_file_is(moeopt, tiny, plan):
    run = moeopt("inspect", tiny, plan)
    assert run.code == 0
    assert "layer ids 3, 7" in run.out and "1 of 8 cells is 0" in run.out and "structure  ok" in run.out
    loads, document = moeopt("inspect", tiny, plan, "--json").document["files"]
    assert (loads["what"], loads["hottest"][1]["experts"][0], document["what"]) == ("loads", 3, "plan")


def test_inspect_with_a_shape_says_what_any_plan_could_reach(moeopt, tiny):
    run = moeopt("inspect", tiny, *SHAPE)
    assert "no plan gets below" in run.out
    facts = moeopt("inspect", tiny, *SHAPE, "--json").document["files"][0]
    for row in facts["per_layer"]:
        assert 1 <= row["best_possible"] <= row["now"]


def test_inspect_shows_the_running_plan_beside_the_best_any_plan_could_reach(moeopt, tiny, plan):
    """--current was accepted and ignored."""
    placed = json.loads(plan.read_text())["solution"]
    facts = moeopt("inspect", tiny, *SHAPE, "--current", plan, "--json").document["files"][0]
    assert facts["now_mean"] == placed["imbalance_mean"] and facts["now_total"] == placed["imbalance_total"]
    assert [row["now"] for row in facts["per_layer"]] == [layer["imbalance"] for layer in placed["layers"]]
    run = moeopt("inspect", tiny, *SHAPE, "--current", plan)
    assert f"imbalance of the running plan {placed['imbalance_mean']:.4f}; no plan gets below" in run.out
    lost = moeopt("inspect", tiny, "--gpus", 3, "--slots", 6, "--current", plan, "--lost", 0)
    assert "of the running plan unknown, as it breaks today's rules: layer 3: expert" in lost.out


def test_inspect_refuses_options_that_say_nothing(moeopt, tiny, plan):
    run = moeopt("inspect", plan, "--gpus", 3)
    assert run.code == 2 and "is a plan, and options are for loads. Leave out --gpus" in run.err
    assert "the shape is that of the running plan" in moeopt("inspect", tiny, "--current", plan).err
    assert "--combine" in moeopt("inspect", tiny, *SHAPE, "--combine", "mean").err


@pytest.mark.parametrize("combine", ["worst", "mean"])
def test_several_files_mean_the_same_windows_to_every_verb(moeopt, tiny, tmp_path, combine):
    """They were windows to place, blocks to compare, and strangers to inspect."""
    other = tmp_path / "other.csv"
    other.write_text("layer,a,b,c,d\n3,1,9,2,4\n7,2,2,8,1\n")
    words = (tiny, other, *SHAPE, "--combine", combine)
    placed = moeopt("place", *words, "--method", "contiguous", "--json").document
    (block,) = moeopt("compare", *words, "--methods", "contiguous", "--json").document["blocks"]
    assert block["rows"][0]["objective"] == placed["objective"]
    together = moeopt("inspect", *words, "--json").document["together"]
    assert together["windows"] == 2 and together["combine"] == combine
    assert together["now_mean"] == placed["solution"]["imbalance_mean"]
    shown = moeopt("inspect", *words).out
    assert f"together, as 2 windows of which the {combine} counts" in shown
    unlike = tmp_path / "unlike.csv"
    unlike.write_text("1,2,3,4\n")
    strangers = moeopt("inspect", tiny, unlike, *SHAPE)
    assert strangers.code == 0 and "not windows of one plan:" in strangers.out
    refused = moeopt("compare", tiny, unlike, *SHAPE, "--methods", "eplb")
    assert refused.code == 2 and "compare --apart" in refused.err


def test_check_lists_feasible_totals_and_the_price_of_a_slot(moeopt):
    words = ("check", "--experts", 256, "--slots", 288, "--gpus", 72, "--nodes", 9)
    run = moeopt(*words, "--expert-bytes", "42MiB", "--layers", 58)
    assert run.code == 0
    assert "32 redundant experts" in run.out and "2.38 GiB" in run.out
    document = moeopt(*words, "--json").document
    assert document["ok"] and [row["slots"] for row in document["feasible_slots"]] == [288, 360, 432, 504]


def test_check_tells_all_violations_with_the_nearest_values(moeopt):
    run = moeopt("check", "--experts", 256, "--slots", 270, "--gpus", 72, "--nodes", 7, "--groups", 10)
    assert run.code == 2
    for said in ("nodes = 7: must divide gpus = 72. Use 6", "slots = 270", "groups = 10: must divide experts = 256"):
        assert said in run.err
    run = moeopt("check", "--experts", 8, "--slots", 16, "--gpus", 4, "--expert-bytes", "1GB", "--gpu-mem", "2GB")
    assert run.code == 2 and "At most 2 slots a GPU, 8 in all" in run.err


def test_generate_writes_loads_that_read_back(moeopt, tmp_path):
    words = ("generate", "zipf", "--experts", 8, "--top-k", 2, "--tokens", 100, "--seed", 3)
    file = tmp_path / "loads.json"
    assert moeopt(*words, "--layers", 2, "-o", file).code == 0
    assert moeopt(*words, "--layers", 2, "-o", file).code == 2
    table = json.loads(file.read_text())["loads"]
    assert [sum(row) for row in table] == [200, 200]
    assert moeopt(*words, "--layers", 2).out == "".join(",".join(map(str, row)) + "\n" for row in table)
    run = moeopt("generate", "lognormal", "--shape", "mixtral_12_g4", "--tokens", 50, "--layers", 3)
    assert [len(row.split(",")) for row in run.out.splitlines()] == [8, 8, 8]


def test_export_writes_the_model_of_one_layer(moeopt, tiny, tmp_path):
    words = ("export", tiny, "--gpus", 2, "--slots", 4, "--layer", 7)
    text = moeopt(*words).out
    assert "Minimize" in text and text.rstrip().endswith("End")
    file = tmp_path / "model.mps"
    assert moeopt(*words, "--format", "mps", "-o", file).code == 0
    assert "ROWS" in file.read_text()
    assert moeopt(*words, "--format", "mps", "-o", file).code == 2


@pytest.mark.parametrize("topic", ["schema", "methods", "backends", "shapes", "generators", "llms", "gpus", "versions"])
def test_info_has_something_on_every_topic(moeopt, topic):
    assert moeopt("info", topic).code == 0
    assert moeopt("info", topic, "--json").document


@pytest.mark.parametrize(
    ("hits", "misses", "said"),
    [({"one": 1}, {}, "kernels loaded, nothing had to be compiled"), ({}, {"one": 1}, "kernels compiled, ")],
)
def test_warmup_tells_loaded_from_compiled(monkeypatch, hits, misses, said):
    from importlib import import_module
    from types import SimpleNamespace

    module = import_module("moeopt.kernels.warmup")

    kernel = module.packing.improve
    monkeypatch.setattr(module, "has_numba", lambda: True)
    monkeypatch.setattr("moeopt.kernels._jit.has_numba", lambda: True)
    monkeypatch.setattr(module, "PLAIN", ())
    monkeypatch.setattr(module, "KERNELS", [kernel])
    compiled = SimpleNamespace(signatures=[1], stats=SimpleNamespace(cache_hits=hits, cache_misses=misses))
    monkeypatch.setattr(kernel, "compiled", compiled)
    assert said in module.warmup(plain=True)[0]


def test_the_note_on_compiling_names_what_is_compiled(monkeypatch, capsys):
    from moeopt.cli.options import Solving
    from moeopt.cli.say import Common, Say
    from moeopt.cli.solving import _say_if_compiling
    from moeopt.kernels import moving
    from moeopt.kernels._jit import Kernel
    from moeopt.placement import PlacementInstance

    monkeypatch.setattr("moeopt.kernels._jit.has_numba", lambda: True)
    monkeypatch.setattr(Kernel, "ready", lambda self: False)
    monkeypatch.setattr(Kernel, "on_disk", lambda self: self is not moving.sweep)
    instance = PlacementInstance([[4, 3, 2, 1]], gpus=2, slots=4, current=[[0, 1, 2, 3]])
    _say_if_compiling(instance, Solving(), Say(Common()))
    assert "compiling the search for moves, once on this machine: a minute or two" in capsys.readouterr().err


def test_an_unknown_generator_is_said_beside_the_missing_options(moeopt):
    run = moeopt("generate", "foo")
    assert run.code == 2 and "kind = foo: is not a generator" in run.err and "--experts = missing: must be" in run.err


def test_warmup_says_what_it_did(moeopt, monkeypatch):
    from moeopt.kernels import _jit

    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    _jit.has_numba.cache_clear()
    try:
        run = moeopt("warmup")
    finally:
        _jit.has_numba.cache_clear()
    assert run.code == 0 and "pip install 'moeopt[fast]'" in run.out


def test_the_shipped_loads_are_read_by_inspect(moeopt):
    assert "26 layers, 64 experts" in moeopt("inspect", LOADS).out


# --- names ------------------------------------------------------------------------------------------------------------


def test_arrays_of_one_file_are_told_apart(moeopt, tmp_path):
    """Two blocks of one file bore one name."""
    file = tmp_path / "loads.npz"
    np.savez(file, a=np.array([[8, 4, 2, 2]]), b=np.array([[1, 2, 3, 4]]))
    words = ("--gpus", 2, "--slots", 4)
    blocks = moeopt("compare", "--apart", f"{file}:a", f"{file}:b", *words, "--methods", "lpt", "--json").document[
        "blocks"
    ]
    assert [block["instance"]["name"] for block in blocks] == ["loads:a", "loads:b"]
    placed = moeopt("place", f"{file}:b", *words, "--method", "lpt", "--json").document
    assert placed["instance"]["name"] == "loads:b"


def test_files_of_one_name_in_two_folders_are_told_apart(moeopt, tmp_path):
    files = [tmp_path / folder / "loads.csv" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text("8,4,2,2\n")
    words = ("--gpus", 2, "--slots", 4, "--methods", "lpt", "--json")
    blocks = moeopt("compare", "--apart", *files, *words).document["blocks"]
    assert [block["instance"]["name"] for block in blocks] == [str(file) for file in files]


def test_plans_are_called_as_their_files(moeopt, tiny, plan, tmp_path):
    other = tmp_path / "b" / "plan.json"
    other.parent.mkdir()
    other.write_bytes(plan.read_bytes())
    words = ("compare", tiny, *SHAPE, "--methods", "lpt", "--json", "--plans")
    rows = moeopt(*words, f"{plan},{other}").document["blocks"][0]["rows"]
    assert [row["method"] for row in rows] == ["lpt", str(plan), str(other)]
    twice = moeopt(*words, f"{plan},{plan}")
    assert twice.code == 2 and f"--plans = {plan}: is given twice" in twice.err


def test_plans_that_all_fail_are_exit_2_and_some_a_note(moeopt, tiny, plan, tmp_path):
    wide = tmp_path / "wide.json"
    assert moeopt("place", tiny, "--gpus", 4, "--slots", 8, "--method", "lpt", "-o", wide).code == 0
    words = ("compare", tiny, *SHAPE, "--methods", "lpt", "--plans")
    alone = moeopt(*words, wide)
    assert alone.code == 2 and "8 slots, the instance 6" in alone.out
    assert "note: no plan for these loads: wide.json" in alone.err
    both = moeopt(*words, f"{wide},{plan}")
    assert both.code == 0 and "note: no plan for these loads: wide.json" in both.err


def test_an_infeasible_instance_without_a_name_is_called_by_its_file(moeopt, tmp_path):
    file = tmp_path / "tight.json"
    instance = PlacementInstance([[8, 4, 2, 2]], gpus=1, expert_bytes=10, memory_bytes=20)
    file.write_text(json.dumps(instance.to_dict() | {"name": ""}))
    run = moeopt("place", file, "--method", "lpt")
    assert run.code == 3 and f"error: {file}: infeasible: " in run.err
    assert "error: the instance: infeasible: " in moeopt("place", "-", "--method", "lpt", stdin=file.read_text()).err


# --- output files -----------------------------------------------------------------------------------------------------


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


# --- shapes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [(), ("--group-rule", "auto"), ("--group-rule", "hierarchical")])
@pytest.mark.parametrize("more", [(), ("--uneven-slots",), ("--allow-doubles",)])
@pytest.mark.parametrize(
    "shape",
    [(12, 16, 4, 2, 2), (12, 16, 4, 2, 3), (12, 14, 4, 1, None), (4, 24, 4, 1, None), (12, 8, 4, 1, None),
     (12, 16, 4, 2, 5), (12, 16, 4, 3, None), (12, 12, 4, 4, 2)],
)  # fmt: skip
def test_check_agrees_with_place(moeopt, tmp_path, shape, rule, more):
    experts, slots, gpus, nodes, groups = shape
    file = tmp_path / "loads.csv"
    file.write_text(",".join("1" * experts) + "\n")
    words = ["--slots", slots, "--gpus", gpus, "--nodes", nodes, *rule, *more]
    words += [] if groups is None else ["--groups", groups]
    checked = moeopt("check", "--experts", experts, *words, "--json")
    placed = moeopt("place", file, *words, "--method", "search", "--iterations", 0, "--json")
    assert checked.code == placed.code, checked.out + placed.err
    feasible = checked.document["feasible_slots"] if checked.code == 0 else []
    for row in (*feasible[:1], *feasible[-1:]):
        words[1] = row["slots"]
        again = moeopt("place", file, *words, "--method", "search", "--iterations", 0, "--json")
        assert again.code == 0, again.err


def test_check_says_that_groups_are_ignored(moeopt):
    words = ("check", "--experts", 12, "--slots", 16, "--gpus", 4, "--nodes", 2, "--groups", 3)
    run = moeopt(*words)
    assert run.code == 0 and "note: groups ignored (global placement)" in run.err
    refused = moeopt(*words, "--group-rule", "hierarchical")
    assert refused.code == 2 and "group_rule auto (--group-rule auto)" in refused.err


def test_check_leads_with_too_few_slots(moeopt):
    words = ("check", "--experts", 64, "--slots", 61, "--gpus", 4, "--groups", 7)
    first = moeopt(*words).err.splitlines()[0]
    assert first.startswith("error: slots = 61 in all: must hold each of 64 experts once. Use 64 (16 a GPU) or more")
    assert moeopt(*words, "--json").document["redundant_experts"] is None


@pytest.mark.parametrize(
    ("memory", "code", "said"),
    [
        ("8GB", 0, "8.00 GB (7.45 GiB) a GPU holds 8 slots, 32 in all: this shape fits"),
        ("3GB", 2, "3.00 GB (2.79 GiB) a GPU holds 3 slots, 12 in all: this shape does not fit"),
        ("1GB", 3, "1.00 GB (0.93 GiB) a GPU holds 1 slot, 4 in all: this shape does not fit"),
    ],
)
def test_check_says_how_many_slots_fit(moeopt, memory, code, said):
    words = ("check", "--experts", 12, "--slots", 16, "--gpus", 4, "--expert-bytes", "1GB", "--gpu-mem", memory)
    run = moeopt(*words)
    assert run.code == code and said in run.out
    assert ("infeasible: " in run.err) == (code == 3)
    assert moeopt(*words, "--json").document["fits"] == (code == 0)


def test_hints_name_options(moeopt, tiny):
    run = moeopt("place", tiny, "--gpus", 4, "--slots", 6)
    assert "set uneven_slots (--uneven-slots)" in run.err
    run = moeopt("place", tiny, *SHAPE, "--method", "eplb_raw")
    assert run.code == 2 and "(--allow-doubles)" in run.err


# --- words ------------------------------------------------------------------------------------------------------------


def test_place_says_which_gap_is_which_and_one_layer_is_one(moeopt, tiny):
    run = moeopt("place", tiny, *SHAPE, "--method", "lpt", "--layers", 3)
    assert "gap          of the sum " in run.out and "; of layers: mean " in run.out
    run = moeopt("inspect", tiny, *SHAPE, "--layers", 3)
    assert "1 layer, 4 experts; layer ids 3" in run.out and " 7 " not in run.out
    one = tiny.with_name("one.csv")
    one.write_text("8,4,2,2\n")
    assert "1 layer, 4 experts" in moeopt("inspect", one).out


def test_the_help_says_where_a_search_stops_and_what_130_means(moeopt):
    said = " ".join(moeopt("place", "--help").out.split())
    assert "0.1 %" in said and "2000 rounds" in said and "3 million slots" in said
    assert "130 interrupted without an answer" in " ".join(moeopt("--help").out.replace("│", " ").split())


def test_columns_say_what_they_are_the_worst_and_most_of(moeopt, tiny):
    head = moeopt("compare", tiny, *SHAPE, "--methods", "lpt").out.splitlines()[2]
    assert [name in head for name in ("imbalance mean", "imbalance worst", "replicas max")] == [True] * 3


def test_a_wall_of_faults_is_cut_and_each_is_told_once(moeopt, tmp_path, monkeypatch):
    from moeopt.placement import PROBLEM

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.setattr(PROBLEM, "methods", dict(PROBLEM.methods))  # what is registered here is not left behind
    (tmp_path / "wall.py").write_text(
        "def plan(instance, limits, seed):\n    return [[0] * instance.num_slots] * instance.num_layers\n"
    )
    (tmp_path / "loads.csv").write_text("\n".join(["9,9,3,4,5,6,7,8"] * 9) + "\n")
    words = ("--gpus", 4, "--slots", 8, "--method", "wall:plan")
    run = moeopt("place", "loads.csv", *words)
    lines = run.err.splitlines()
    assert run.code == 2 and len(lines) == 2
    assert all(line.endswith(" more of this kind)") for line in lines)
    everything = moeopt("place", "loads.csv", *words, "-v").err.splitlines()
    assert len(everything) > 21 and len(set(everything)) == len(everything)
    table = moeopt("compare", "loads.csv", *words[:-2], "--methods", "eplb,wall:plan").out
    assert max(map(len, table.splitlines())) < 400


@pytest.mark.parametrize("split", ["sglang-static", "sglang-static-node", "random"])
def test_place_says_what_an_engines_rule_costs_beside_even_parts(moeopt, tiny, tmp_path, split):
    plan = tmp_path / "plan.json"
    run = moeopt("place", tiny, *SHAPE, "--split", split, "-o", plan)
    assert run.code == 0
    assert [line for line in run.out.splitlines() if line.startswith(f"rule         {split}")]
    assert moeopt("verify", plan, tiny).code == 0
    document = json.loads(plan.read_text())
    document["solution"]["layers"][0]["max_load_even"] += 1.0
    plan.write_text(json.dumps(document))
    run = moeopt("verify", plan, tiny)
    assert run.code == 5 and "max_load_even" in run.err + run.out
