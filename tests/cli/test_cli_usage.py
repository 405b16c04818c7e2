"""Help, slips, faults of ours and signals: what every verb does with them."""

from __future__ import annotations

import sys

import pytest

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


def test_hints_name_options(moeopt, tiny):
    run = moeopt("place", tiny, "--gpus", 4, "--slots", 6)
    assert "set uneven_slots (--uneven-slots)" in run.err
    run = moeopt("place", tiny, *SHAPE, "--method", "eplb_raw")
    assert run.code == 2 and "(--allow-doubles)" in run.err


def test_the_help_says_where_a_search_stops_and_what_130_means(moeopt):
    said = " ".join(moeopt("place", "--help").out.split())
    assert "0.1 %" in said and "2000 rounds" in said and "3 million slots" in said
    assert "130 interrupted without an answer" in " ".join(moeopt("--help").out.replace("│", " ").split())


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
