"""The command line as users meet it: processes, streams, signals."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import LOADS, Run, start

SHAPE = ("--gpus", 16, "--slots", 80)
ESCAPE = "\x1b"


def test_verify_accepts_the_plan_that_place_wrote_and_names_a_changed_slot(process, tmp_path):
    file = tmp_path / "plan.json"
    made = process("place", LOADS, *SHAPE, "--layers", "0-3", "--method", "search", "--iterations", 0, "-o", file)
    assert (made.code, made.err.count("plan: ")) == (0, 1)
    assert process("verify", file, LOADS).code == 0

    document = json.loads(file.read_text())
    layer = document["solution"]["layers"][2]
    slots, replicas = layer["slot_expert"], layer["replicas"]
    slot = next(slot for slot, expert in enumerate(slots) if replicas[expert] == 1)
    lost, gpu = slots[slot], slots[slot // 5 * 5 : slot // 5 * 5 + 5]
    slots[slot] = next(expert for expert in range(64) if expert not in gpu)
    file.write_text(json.dumps(document))
    told = process("verify", file, LOADS)
    assert told.code == 5
    assert f"layer 2: expert {lost} has no replica" in told.out


def test_results_go_to_standard_output_and_the_rest_to_standard_error(process):
    run = process("place", LOADS, *SHAPE, "--layers", "0", "--method", "search", "--iterations", 0, "--json")
    assert run.code == 0
    assert run.document["schema"] == "moeopt/placement-result/1"
    assert "interpreted" in run.err and run.err.startswith("note: ")


def test_tables_in_a_pipe_have_no_colour_and_are_not_cut(process):
    methods = "contiguous,round_robin,snake,eplb,lpt,eplb_raw,fold"
    run = process("compare", LOADS, *SHAPE, "--layers", "0-1", "--methods", methods, COLUMNS="40", TERM="xterm")
    assert run.code == 0
    assert ESCAPE not in run.out + run.err and "…" not in run.out
    row = next(line for line in run.out.splitlines() if line.startswith(" fold"))
    assert row.endswith("fold does not apply: fold needs two slots on every GPU and equal speeds")


def test_no_color_is_obeyed_and_a_narrow_terminal_loses_no_digits(monkeypatch):
    from moeopt.cli.say import Common, Say

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    from moeopt.cli.tables import table

    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "20")
    for plain in (False, True):
        if plain:
            monkeypatch.setenv("NO_COLOR", "1")
        monkeypatch.setattr(sys, "stdout", terminal := Terminal())
        rows = table("", "method", "objective", "lower bound")
        rows.add_row("search", "40,669.7", "40,594.1", style="green")
        Say(Common()).show(rows)
        assert "40,669.7" in terminal.getvalue() and "…" not in terminal.getvalue()
        assert ("\x1b[32m" in terminal.getvalue()) is not plain


def test_loads_come_from_standard_input(process):
    run = process("place", "-", "--gpus", 2, "--slots", 4, "--method", "lpt", "--json", stdin="8,4,2,2\n")
    assert (run.code, run.document["objective"], run.document["instance"]["name"]) == (0, 10.0, "stdin")


def test_errors_are_lines_without_a_traceback(process, tmp_path):
    file = tmp_path / "bad.csv"
    file.write_text("1,nan\n-3,4\n")
    run = process("place", file, "--gpus", 2, "--slots", 2)
    assert (run.code, run.out) == (2, "")
    assert f"error: {file}: loads[layer 0, expert 1, line 1] = nan: " in run.err
    assert f"error: {file}: loads[layer 1, expert 0, line 2] = -3" in run.err
    assert "Traceback" not in run.err


def test_no_stdin_at_all_is_bad_input(process):
    run = process("place", "-", "--gpus", 2, "--slots", 2)
    assert (run.code, run.err) == (2, "error: -: input = '': standard input is empty. Pipe loads into it.\n")


def test_a_reader_that_goes_away_is_no_error():
    with start("info", "schema") as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.close()
        assert (child.wait(timeout=60), child.stderr.read()) == (0, "")


def test_a_policy_of_ones_own_is_found_in_the_current_folder(process: Callable[..., Run], tmp_path: Path):
    (tmp_path / "mine.py").write_text(
        "def good(instance, limits, seed):\n    return [[0, 1, 2, 3]]\n"
        "def bad(instance, limits, seed):\n    return [[0, 1, 2, 2]]\n"
        "def broken(instance, limits, seed):\n    return 1 / 0\n"
    )
    (tmp_path / "loads.csv").write_text("8,4,2,2\n")
    shape = ("loads.csv", "--gpus", 2, "--slots", 4)
    names = "eplb,mine:good,mine:bad,mine:broken"
    run = process("compare", *shape, "--methods", names, "--json", cwd=tmp_path)
    rows = {row["method"]: row for row in run.document["blocks"][0]["rows"]}
    assert (run.code, rows["mine:good"]["objective"]) == (2, 12.0)
    assert "expert 3 has no replica" in rows["mine:bad"]["reason"]
    assert "ZeroDivisionError" in rows["mine:broken"]["reason"]
    alone = process("place", *shape, "--method", "mine:broken", cwd=tmp_path)
    assert (alone.code, alone.err) == (
        2,
        "error: method mine:broken failed: ZeroDivisionError: division by zero\n",
    )


def test_version_and_help_without_numpy(process):
    assert process("--version").out.startswith("moeopt ")
    code = "import sys; from moeopt.cli import main; main(['place', '--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("numpy", "scipy", "matplotlib", "pulp", "numba"):
        assert f"'{heavy}'" not in done.stdout


# --- interrupts -------------------------------------------------------------------------------------------------------

posix = pytest.mark.skipif(os.name != "posix", reason="signals are sent as POSIX has them")


def works_for(child: subprocess.Popen[str], seconds: float) -> None:
    """Wait until a process has had so much of a processor, a second of it to load: a clock runs on regardless."""
    stat = Path(f"/proc/{child.pid}/stat")
    if not stat.exists():
        time.sleep(2 * seconds)
        return
    while child.poll() is None:
        ticks = stat.read_text().rpartition(")")[2].split()[11:13]
        if sum(map(int, ticks)) >= seconds * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.02)


def ends_with_its_best(number: int, file: Path, *words: object) -> None:
    """A verb that is interrupted while it searches; interpreted, each of these searches takes minutes."""
    with start(*words, "--method", "search", "-o", file) as child:
        works_for(child, 2.5)
        assert child.poll() is None
        child.send_signal(number)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "stopped by INTERRUPTED" in out
    assert "note: interrupted: this is the best plan so far" in err
    assert '"stop": "INTERRUPTED"' in file.read_text()


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_best_plan_so_far(tmp_path: Path, number: int):
    ends_with_its_best(number, tmp_path / "plan.json", "place", LOADS, "--gpus", 32, "--slots", 96)


@posix
def test_sigterm_keeps_the_best_collocation_so_far(tmp_path: Path):
    """It ended with 130 and no plan, whenever it was asked."""
    trace = tmp_path / "trace.npz"
    drawn = np.random.default_rng(0).random((4, 3000, 64))
    np.savez(trace, topk_ids=np.argsort(drawn, axis=2)[:, :, :6], layers=np.arange(4), num_experts=64)
    ends_with_its_best(signal.SIGTERM, tmp_path / "plan.json", "collocate", trace, "--nodes", 8, "--gpus", 32)


@posix
def test_ctrl_c_ends_a_comparison_after_the_method_being_run(tmp_path: Path):
    """Finished rows were lost, and an unfinished one looked like a finished one."""
    report = tmp_path / "report.md"
    methods = "contiguous,search,lpt,snake"
    with start(
        "compare", "--apart", LOADS, LOADS, "--gpus", 32, "--slots", 96, "--methods", methods, "-o", report
    ) as child:
        works_for(child, 2.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert next(line for line in out.splitlines() if line.startswith(" search")).endswith("best, interrupted")
    assert "note: interrupted: lpt, snake were not run" in err
    assert f"note: interrupted: {LOADS} was not compared" in err
    text = report.read_text()
    assert "- interrupted: lpt, snake were not run." in text and "was not compared" in text
    assert "lpt: not run: the comparison was interrupted" in text


@posix
@pytest.mark.parametrize("pause", [0.0, 0.02, 0.3])
def test_a_second_ctrl_c_claims_nothing(pause: float):
    """It said that there was no plan, which nobody knew."""
    with start("place", LOADS, "--gpus", 32, "--slots", 96, "--method", "search") as child:
        works_for(child, 2.0)
        child.send_signal(signal.SIGINT)
        time.sleep(pause)
        child.send_signal(signal.SIGINT)
        _, err = child.communicate(timeout=60)
    assert "Traceback" not in err and "before" not in err
    killed = child.returncode == -signal.SIGINT  # where it strikes within exec(), Python ends so; a shell says 130 too
    code = 130 if killed else child.returncode
    assert (code, "error: interrupted\n" in err) in [(0, False), (130, True)]


SLOW_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == NAME:
            os.kill(os.getpid(), SIGNAL)
        return None
sys.meta_path.insert(0, Finder())
sys.argv = ["moeopt", "inspect", FILE]
from moeopt.cli import main
sys.exit(main())
"""


@posix
@pytest.mark.parametrize("name", ["typer", "moeopt.cli.inspect", "numpy", "moeopt.workload"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_packages_are_loaded_is_no_traceback(tiny: Path, name: str, number: int):
    code = f"NAME, SIGNAL, FILE = {name!r}, {int(number)}, {str(tiny)!r}\n{SLOW_IMPORT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: interrupted\n")


def test_the_handler_of_sigterm_is_put_back(moeopt):
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    moeopt("info", "versions")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


# --- policies of others -----------------------------------------------------------------------------------------------


def test_what_a_policy_prints_does_not_reach_standard_output(process: Callable[..., Run], tmp_path: Path):
    (tmp_path / "loud.py").write_text(
        "import os\nprint('while imported')\n"
        "def loud(instance, limits, seed):\n"
        "    print('by python')\n    os.system('echo by a child')\n    return [[0, 1, 2, 3]]\n"
        "def leaves(instance, limits, seed):\n    raise SystemExit(0)\n"
    )
    (tmp_path / "loads.csv").write_text("8,4,2,2\n")
    shape = ("loads.csv", "--gpus", 2, "--slots", 4, "--json")
    for run in (
        process("place", *shape, "--method", "loud:loud", cwd=tmp_path),
        process("compare", *shape, "--methods", "eplb,loud:loud", cwd=tmp_path),
    ):
        assert run.code == 0 and run.document
        for said in ("while imported", "by python", "by a child"):
            assert said in run.err
    gone = process("place", *shape, "--method", "loud:leaves", cwd=tmp_path)
    assert (gone.code, gone.out) == (2, "")
    assert "error: method loud:leaves failed: RuntimeError: it raised SystemExit(0)\n" in gone.err


def test_a_policy_that_takes_too_long_is_told(process: Callable[..., Run], tmp_path: Path):
    (tmp_path / "slow.py").write_text(
        "import time\ndef slow(instance, limits, seed):\n    time.sleep(0.4)\n    return [[0, 1, 2, 3]]\n"
    )
    (tmp_path / "loads.csv").write_text("8,4,2,2\n")
    words = ("--gpus", 2, "--slots", 4, "--time-limit", "100ms")
    run = process("compare", "loads.csv", *words, "--methods", "slow:slow", cwd=tmp_path)
    assert run.code == 0 and "stopped by TIME" in run.out
    assert "note: slow:slow: the policy took 0.4 s of 0.1 s allowed" in run.err


@pytest.mark.skipif(os.name != "posix", reason="shells close streams as POSIX has them")
@pytest.mark.parametrize(("command", "code"), [("--version >&-", 0), ("place - --gpus 2 --slots 4 <&-", 2)])
def test_closed_streams_are_no_fault_of_ours(command, code):
    line = f"{sys.executable} -m moeopt {command}"
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (run.returncode, "Traceback" in run.stderr) == (code, False)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_standard_output_is_said_and_is_no_fault_of_ours():
    line = f"{sys.executable} -m moeopt info methods > /dev/full"
    run = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "standard output cannot be written" in run.stderr and "Traceback" not in run.stderr
