"""``moeopt microbatch``: what it prints, what it refuses, and its files in the other verbs."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
from conftest import ROOT

from moeopt.cli.microbatch import EXAMPLE

FORTY = ("--ta", "0.4", "--te", "0.5", "--tc", "0.3", "--layers", 40)
TWO = ("--ta", 1, "--te", 1, "--tc", 0.5, "--layers", 2, "--m", 4, "--unit", "s")


@pytest.fixture
def plan(moeopt, tmp_path):
    file = tmp_path / "plan.json"
    assert moeopt("microbatch", *FORTY, "--name", "forty", "-o", file).code == 0
    return file


@pytest.fixture
def instance(plan):
    file = plan.with_name("instance.json")
    file.write_text(json.dumps(json.loads(plan.read_text())["instance"]["document"]))
    return file


def test_forty_layers_as_json(moeopt):
    run = moeopt("microbatch", *FORTY, "--json")
    assert (run.code, run.err) == (0, "note: m = 4 is the largest m tried; m = 5 may be better\n")
    solution = run.document["solution"]
    times = {row["m"]: row["time_s"] for row in solution["sweep"]}
    assert [times[m] for m in (2, 3, 4)] == pytest.approx([0.0605, 0.061, 0.081], rel=1e-12)
    assert (solution["fewest_m"]["ours"], solution["fewest_m"]["published"]) == (3, 4)


def test_two_layers_take_ten_and_both_sides_are_busy_for_80_per_cent(moeopt):
    run = moeopt("microbatch", *TWO, "--json")
    solution = run.document["solution"]
    assert solution["time_s"] == 10.0
    assert [solution["utilisation"][side] for side in solution["sides"]] == [0.8, 0.8]
    text = moeopt("microbatch", *TWO).out
    assert "10 s a step" in text and "attention 80.0 %, experts 80.0 %" in text


def test_text_has_the_answer_the_rules_the_bound_and_the_second_best(moeopt):
    out = moeopt("microbatch", *FORTY).out
    assert "m = 4: 4 micro-batches" in out
    assert "3 keep the busiest resource busy; the published rule says 4" in out
    assert "81 ms by MegaScale-Infer (arXiv 2504.02263), equation 5: valid here" in out
    assert "m = 3: 61 ms" in out
    assert "20.25 ms a micro-batch, certified" in out


def test_why_the_second_best_is_behind_is_said_in_the_unit_of_the_answer(moeopt, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = [" ".join(line.split()) for line in moeopt("microbatch", *FORTY).out.splitlines()]
    assert "why second with 3 parts of 1 token filling and draining the pipeline weigh more" in out
    assert "second best m = 3: 61 ms, 49.18 micro-batches/s; 0.412 % longer a token" in out
    steps = ("microbatch", *FORTY, "--m", "3,4", "--objective", "time")
    for unit, size in (("ms", 1e-3), ("us", 1e-6)):  # of bare times too
        why = moeopt(*steps, "--unit", unit, "--json").document["solution"]["runner_up"]["why"]
        theirs, ours = (f"{why[whose] / size:.6g} {unit}" for whose in ("theirs", "ours"))
        said = f"why second a layer costs {theirs} with 4 parts of 1 token, not {ours}"
        assert said in " ".join(moeopt(*steps, "--unit", unit).out.split())
    assert "why second" not in moeopt("microbatch", *FORTY, "--m", 2).out


def test_why_overlap_is_not_known_is_said(moeopt):
    words = ("microbatch", *FORTY, "--m")
    for m, reason in ((1, "only m = 1 was looked at"), (2, "m = 1 was not looked at")):
        assert moeopt(*words, m, "--json").document["solution"]["overlap_reason"] == reason
        assert f"overlap not known: {reason}" in " ".join(moeopt(*words, m).out.split())
    assert "not known" not in moeopt(*words, "1,2").out


def test_a_published_value_that_is_wrong_is_marked(moeopt):
    out = moeopt("microbatch", *FORTY, "--m", 2).out
    assert "not valid here, 32.2 % too low" in " ".join(out.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), ["--ta = missing", "--te = missing", "--tc = missing", "--layers = missing"]),
        (
            ("--ta", "-1", "--te", "x", "--tc", "0.3+", "--layers", "0", "--m", "a", "--tbt", "5k", "--unit", "h"),
            ["--ta = -1: T_a must be a finite time", "--te = x", "--tc = 0.3+", "--layers = 0", "--m = a", "--tbt = 5k",
             "--unit = h"],
        ),
        ((*FORTY, "--m", 8, "--batch", 4), ["--m = 8: there are more micro-batches than tokens"]),
        ((*FORTY, "--m", 3, "--batch", 7), ["--m = 3: divides none", "give --uneven"]),
        ((*FORTY[2:], "--ta", "nan"), ["--ta = nan: T_a must be a finite time"]),
        ((*FORTY[2:], "--ta", "inf"), ["--ta = inf: T_a must be a finite time"]),
        ((*FORTY[2:], "--ta", "5us+10B*n/0GB/s"), ["a bandwidth must be finite and > 0"]),
        ((*FORTY, "--td", "0.3"), ["--tc = 0.3: dispatch has a time of its own"]),
        ((*FORTY, "--t0", "1"), ["--t0 = 1: is not a time of ping-pong. Its times: --ta, --te, --tc"]),
        ((*FORTY, "--latency", "amortised"), ["--latency = amortised: is for the pattern hop-b"]),
        ((*FORTY, "--pattern", "foo"), ["--pattern = foo: is not known. Known: ping-pong"]),
        ((*FORTY, "--kv-bytes", "1MB"), ["--memory = missing"]),
        ((*FORTY, "--m", "2", "--max-m", "4"), ["--max-m = 4: says the same as --m"]),
        ((*FORTY, "--times", "absent.csv"), ["absent.csv: cannot be read"]),
        ((*FORTY, "--method", "nope"), ["'nope': is not a method of microbatch"]),
        ((*FORTY, "-o", "plan.txt"), ["ends in .txt; a plan or a timeline is written as .json, .svg or .png"]),
        (("loads.csv",), ["is no instance document. Give a table of measured times as --times loads.csv"]),
        (("--gpu", "H800", "--ta", "1"), ["--llm = missing: is needed", "--context = missing"]),
        (
            ("--llm", "dbrx", "--gpu", "A800", "--context", 651, "--tp-a", 3),
            ["--tp-a = 3: must divide kv_heads"],
        ),
        (
            ("--llm", "dbrx", "--gpu", "A800", "--context", 651, "--pattern", "waves"),
            ["times of waves are not modelled"],
        ),
    ],
)  # fmt: skip
def test_bad_input_is_exit_2_with_every_fault(moeopt, words, said):
    run = moeopt("microbatch", *words)
    assert (run.code, run.out) == (2, "")
    assert all(line.startswith("error: ") for line in run.err.splitlines())
    for part in said:
        assert part in run.err


def test_an_slo_below_the_best_possible_is_infeasible_and_says_the_best(moeopt):
    run = moeopt("microbatch", *FORTY, "--tbt", "50")
    assert (run.code, run.out) == (3, "")
    assert "--tbt 50ms is below the best possible, 60 ms with m = 1" in run.err


def test_memory_that_is_too_small_is_infeasible(moeopt):
    run = moeopt("microbatch", *FORTY, "--batch", "64", "--kv-bytes", "1GB", "--memory", "40GB")
    assert run.code == 3
    assert "needs 64 GB, --memory is 40 GB: room for 40 sequences" in run.err


def test_no_plan_is_exit_4(moeopt, tmp_path, monkeypatch):
    """The limit lies between what an order could reach by its bound, and what the one looked at takes."""
    words = ("--pattern", "shared-link", "--ta", "0.4", "--te", "0.5", "--tc", "0.3", "--layers", 61, "--m", 4)
    best = moeopt("microbatch", *words, "--json").document["solution"]
    between = (best["bound"]["seconds"] + best["time_s"]) / 2
    run = moeopt("microbatch", *words, "--tbt", f"{between}s", "--method", "simulate")
    assert (run.code, run.out) == (4, "")
    assert "no plan that keeps the limits was found" in run.err
    assert "--method exact also looks at other orders" in run.err
    advice = {
        (): "no other method looks at more orders",
        ("--time-limit", "1us"): "a longer --time-limit lets exact go on",
    }
    for more, said in advice.items():
        run = moeopt("microbatch", *words, "--tbt", f"{between}s", "--method", "exact", *more)
        assert run.code == 4 and said in run.err and "--method exact" not in run.err


def test_limits_bind(moeopt):
    words = ("--ta", "0.1+0.002n", "--te", "0.2+0.001n", "--tc", "5us+14336B*n/50GB/s", "--layers", 61)
    free = moeopt("microbatch", *words, "--batch", "64-512:64", "--json").document["solution"]
    held = moeopt("microbatch", *words, "--batch", "64-512:64", "--tbt", "50ms", "--json").document["solution"]
    assert free["time_s"] > 0.05 >= held["time_s"]
    assert held["batch"] < free["batch"] == 512


def test_bare_numbers_are_in_the_unit(moeopt):
    micro = moeopt("microbatch", "--ta", 400, "--te", "0.5ms", "--tc", "300", "--unit", "us", "--layers", 40, "--json")
    assert micro.document["solution"] == moeopt("microbatch", *FORTY, "--json").document["solution"]


def test_measured_times(moeopt, tmp_path):
    file = tmp_path / "measured.csv"
    file.write_text("batch,ta_us,te,tc\n16,90,0.12,0.04\n64,100,0.13,0.06\n256,180,0.26,0.19\n")
    run = moeopt("microbatch", "--times", file, "--layers", 61, "--batch", 128, "--m", "2,4", "--json")
    assert run.code == 0
    assert run.document["solution"]["stages"]["attention"][0] == pytest.approx(100e-6)
    assert any("were not measured" in note for note in run.document["notes"])
    outside = moeopt("microbatch", "--times", file, "--layers", 61, "--batch", "1024", "--m", "2")
    assert (outside.code, "or give --extend" in outside.err) == (2, True)
    assert moeopt("microbatch", "--times", file, "--layers", 61, "--batch", 1024, "--m", 2, "--extend").code == 0


def test_faults_of_a_table_are_said_at_once(moeopt, tmp_path):
    file = tmp_path / "measured.csv"
    file.write_text("batch,ta,te,nope\n16,x,1,1\n0,1,1,1\n16,1\n64,-1,1,1\n")
    run = moeopt("microbatch", "--times", file, "--tc", 1, "--layers", 2)
    assert run.code == 2
    for said in ("nope: is not a column", "line 2] = x", "line 3] = 0", "line 4] = 16,1", "line 5] = -1"):
        assert said in run.err


def test_modelled_times(moeopt):
    run = moeopt("microbatch", "--llm", "dbrx", "--gpu", "A800", "--context", 651, "--attention-nodes", 3, "--tp-a", 2,
                 "--batch", 3852, "--m", 3, "--memory", "500GB", "--json")  # fmt: skip
    assert run.code == 0
    document = run.document
    assert document["instance"]["document"]["layers"] == 40
    assert document["solution"]["stages"]["attention"][0] == pytest.approx(451e-6, abs=1e-6)
    assert any("a model of dbrx on A800" in note for note in document["notes"])
    dual = moeopt("microbatch", "--llm", "deepseek-v3", "--gpu", "H800", "--context", 4096, "--pattern", "dual", "--ep",
                  64, "--weights", "fp8", "--batch", "16-128:16", "--m", "1,2", "--json")  # fmt: skip
    assert dual.document["solution"]["m"] == 2


def test_constant_times_with_batches_are_remarked(moeopt):
    run = moeopt("microbatch", *FORTY, "--batch", "64")
    assert "times do not depend on the size of a micro-batch" in run.err


@pytest.mark.parametrize(
    "words",
    [
        ("--pattern", "shared-link", *FORTY),
        ("--pattern", "dual", *FORTY),
        ("--pattern", "chunks", "--tc", 0.2, "--te", 0.3, "--t0", 0.4, "--layers", 40),
        ("--pattern", "waves", "--td", 0.2, "--te", 0.3, "--tb", 0.1, "--layers", 3),
        ("--pattern", "hop-b", "--ta", "2us", "--tc", "1.2us", "--layers", 61, "--m", "1-8"),
    ],
)
@pytest.mark.parametrize("width", [40, 79, 200])
def test_every_pattern_and_the_timeline_is_never_wider_than_the_terminal(moeopt, monkeypatch, words, width):
    monkeypatch.setenv("COLUMNS", str(width))
    run = moeopt("microbatch", *words)
    assert run.code == 0
    drawn = run.out.rpartition("\n\n")[2].splitlines()
    assert "layer 0" in drawn[0] or "0" in drawn[0]
    assert max(map(len, drawn)) <= width


def test_plain_ascii_where_the_terminal_cannot(process):
    run = process("microbatch", *FORTY, PYTHONIOENCODING="ascii")
    assert run.code == 0 and run.out.isascii()
    assert "~" in run.out and "." in run.out


def test_files_of_the_answer(moeopt, tmp_path):
    for name in ("a.svg", "a.png", "a.json"):
        file = tmp_path / name
        assert moeopt("microbatch", *TWO, "-o", file).code == 0
        assert file.stat().st_size > 1_000
        assert moeopt("microbatch", *TWO, "-o", file).code == 2  # never overwritten unasked
        assert moeopt("microbatch", *TWO, "-o", file, "--force").code == 0


def test_quiet_says_nothing(moeopt):
    run = moeopt("microbatch", *FORTY, "-q")
    assert (run.code, run.out, run.err) == (0, "", "")


def test_instance_documents(moeopt, instance):
    run = moeopt("microbatch", instance, "--json")
    assert run.document["solution"]["m"] == 4
    assert moeopt("microbatch", "-", "--json", stdin=instance.read_text()).document["solution"]["m"] == 4
    beside = moeopt("microbatch", instance, "--tbt", 5)
    assert (beside.code, "Leave out --tbt" in beside.err) == (2, True)


def test_a_plan_is_no_instance(moeopt, plan):
    run = moeopt("microbatch", plan)
    assert (run.code, "is a plan, not an instance" in run.err) == (2, True)


def test_verify_takes_plans_and_finds_every_damage(moeopt, plan, instance, tmp_path):
    assert moeopt("verify", plan, instance).out.endswith("ok (structure, numbers and bounds)\n")
    assert moeopt("verify", "-", stdin=plan.read_text()).code == 0
    whole = json.loads(plan.read_text())

    def damaged(*path, value):
        document = json.loads(json.dumps(whole))
        inner = document
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        file = tmp_path / "damaged.json"
        file.write_text(json.dumps(document))
        return moeopt("verify", file)

    cases = [
        (("solution", "time_s"), 0.08, "solution.time_s = 0.08, recomputed 0.081"),
        (("solution", "m"), 3, "is not among the candidates"),
        (("solution", "timeline", "items", 5, 4), 1.0, "solution.timeline[items][5][4] = 1.0"),
        (("solution", "utilisation", "experts"), 1.0, "solution.utilisation[experts] = 1.0"),
        (("solution", "sweep", 0, "time_s"), 0.05, "[time_s] = 0.05, recomputed 0.06"),
        (("objective",), 0.01, "objective = 0.01"),
        (("lower_bound",), 0.0203, "lower_bound = 0.0203, recomputed 0.02025"),
        (("certificate", "candidates", 0, 4), "1/2", "certificate[candidates][0][4] = '1/2', recomputed"),
        (("certificate",), None, "certificate = null with a plan"),
        (("solution",), None, "status = OPTIMAL without a solution"),
        (("status",), "INFEASIBLE", "status = INFEASIBLE with a plan beside it"),
        (("status",), "OPTIMALx", "status = 'OPTIMALx': input should be"),
        (("solution", "sweep"), [], "solution.sweep = ...: list should have at least 1 item"),
        (("solution", "utilisation"), {}, "solution.utilisation[attention] = missing"),
        (("instance", "sha256"), "0", "instance.sha256 says 0"),
    ]
    for path, value, said in cases:
        run = damaged(*path, value=value)
        assert run.code == 5, path
        assert said in run.out, path


def test_verify_refuses_options_of_placements(moeopt, plan):
    run = moeopt("verify", plan, "--gpus", 3)
    assert (run.code, "is a micro-batch plan, which says it itself" in run.err) == (2, True)


def test_inspect_says_what_files_are(moeopt, plan, instance):
    out = moeopt("inspect", plan, instance).out
    assert "micro-batch plan" in out and "m = 4, batch 4: 81 ms a step" in out
    assert "no m and no order gets below 60 ms a step" in out
    assert [file["what"] for file in moeopt("inspect", plan, instance, "--json").document["files"]] == [
        "micro-batch plan",
        "micro-batch instance",
    ]


def test_export_writes_the_programme(moeopt, instance):
    out = moeopt("export", instance).out
    assert "z_3_3" in out and "Minimize" in out
    assert moeopt("export", instance, "--layer", 0).code == 2


def test_compare_runs_the_methods_of_the_room(moeopt, instance):
    run = moeopt("compare", instance, "--methods", "simulate,closed_form,nope")
    assert (run.code, "'nope': is not a method of microbatch" in run.err) == (2, True)
    out = moeopt("compare", instance, "--methods", "lpt,simulate,closed_form").out
    assert all(name in out for name in ("lpt", "simulate", "closed_form", "best"))
    document = moeopt("compare", instance, "--methods", "simulate", "--json").document
    assert document["blocks"][0]["rows"][0]["time_s"] == pytest.approx(0.081)


def test_compare_judges_plans_as_rows(moeopt, plan, instance, monkeypatch):
    monkeypatch.chdir(plan.parent)
    run = moeopt("compare", instance, "--methods", "simulate,lpt", "--plans", plan.name)
    assert run.code == 0
    row = next(line for line in run.out.splitlines() if "plan.json" in line)
    assert " 81 " in row and "ms a micro-batch" in run.out
    bound = next(line for line in run.out.splitlines() if line.startswith(" bound"))
    assert " 20.25 " in bound and "proven: no plan is below" in bound
    document = moeopt("compare", instance, "--methods", "simulate", "--plans", plan, "--json").document
    assert [one["time_s"] for one in document["blocks"][0]["rows"]] == pytest.approx([0.081, 0.081])
    assert document["blocks"][0]["bound_kind"] == "certified"


def test_compare_refuses_what_is_no_plan_and_shows_a_broken_one(moeopt, plan, instance, tmp_path):
    assert "is no micro-batch plan" in moeopt("compare", instance, "--plans", instance).err
    broken = json.loads(plan.read_text())
    broken["solution"]["m"] = 99
    file = tmp_path / "broken.json"
    file.write_text(json.dumps(broken))
    run = moeopt("compare", instance, "--methods", "simulate", "--plans", f"{plan},{file}")
    assert run.code == 2 and "99" in run.err and "simulate" in run.out


def test_extreme_numbers_are_short_and_in_a_sensible_unit(moeopt):
    tiny = moeopt("microbatch", "--ta", "1e-300", "--te", "1e-300", "--tc", "1e-300", "--layers", 5, "--m", 2)
    assert tiny.code == 0 and max(map(len, tiny.out.splitlines())) < 200
    long = moeopt("microbatch", "--ta", "1h", "--te", "2min", "--tc", "1s", "--layers", 5, "--m", 1)
    assert long.code == 0 and "310.167 min a step" in long.out


@pytest.mark.parametrize("width", [20, 30, 45])
def test_a_narrow_terminal_gets_fewer_columns(moeopt, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    out = moeopt("microbatch", *FORTY).out
    assert "m  time, ms" in out
    assert max(map(len, (line.rstrip() for line in out.splitlines()))) <= width


def test_thin_stages_of_dual_have_a_cell_each(moeopt, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    words = ("--pattern", "dual", "--ta", 1, "--te", 0.02, "--tc", 0.5, "--layers", 3, "--m", 2)
    lines = moeopt("microbatch", *words).out.splitlines()
    experts = next(line for line in lines if "experts  " in line)
    assert experts.count("0") >= 3 and experts.count("1") >= 3


def test_one_token_is_no_tokens(moeopt):
    assert "1 tokens" not in moeopt("microbatch", "--ta", 1, "--te", 1, "--tc", 1, "--layers", 5).out


def test_the_examples_of_the_help_run(moeopt, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "16,90,120,40\n64,100,130,60\n256,180,260,190\n"
    (tmp_path / "measured.csv").write_text("batch,ta,te,tc\n" + rows)
    lines = [line for line in EXAMPLE.splitlines() if line.startswith("moeopt ")]
    assert len(lines) == 5
    for line in lines:
        assert moeopt(*shlex.split(line)[1:]).code == 0, line


def test_nothing_heavy_is_imported():
    words = ["microbatch", *map(str, TWO)]
    heavy = ("scipy", "matplotlib", "pulp", "networkx", "numba")
    code = f"""import sys
from moeopt.cli import main
main({words})
print([name for name in {heavy} if name in sys.modules])"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
