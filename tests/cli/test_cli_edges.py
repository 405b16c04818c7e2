"""Words at the edge of what can be meant: exit 2 with the rule by name, before anything is solved."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Run

SHAPE = ("--gpus", 2, "--slots", 2)


@pytest.fixture
def pair(tmp_path: Path) -> Path:
    file = tmp_path / "pair.csv"
    file.write_text("layer,e0,e1\n0,1,2\n1,3,4\n")
    return file


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--layers", "0,0"), "is given 2 times"),
        (("--layers", "0,0-1"), "is given 2 times"),
        (("--retire", "0,0"), "is given 2 times"),
        (("--layers", "0-99999999999"), "must be at most 1000000 ids"),
        (("--layers", "1-0"), "must run upwards"),
        (("--shared", "hosted", "--top-k", "9" * 29), "must be at most 65536"),
        (("--shared", "hosted", "--top-k", 2, "--num-shared", "9" * 10), "must be at most 65536"),
        (("-o", "k" * 300_000 + ".json"), "File name too long"),
        (("-o", "k" * 300 + ".json"), "File name too long"),
    ],
)
def test_what_cannot_be_meant_is_bad_input(
    pair: Path, moeopt: Callable[..., Run], words: tuple[object, ...], said: str
) -> None:
    run = moeopt("place", pair, *SHAPE, *words)
    assert run.code == 2 and said in run.err, run.err


@pytest.mark.parametrize("method", ["place", "check"])
def test_memory_in_units_that_cannot_be_is_bad_input_or_enough(
    pair: Path, moeopt: Callable[..., Run], method: str
) -> None:
    if method == "place":
        assert moeopt("place", pair, "--gpus", 2, "--memory-bytes", "1e300", "--expert-bytes", "1e-300").code == 0
        return
    words = ("--experts", 8, "--gpus", 4, "--slots", 8, "--expert-bytes", "1e300", "--layers", "9" * 41)
    run = moeopt("check", *words)
    assert run.code == 2 and "--layers" in run.err and "at most 1000000" in run.err


def test_a_name_as_long_as_can_be_is_written(pair: Path, moeopt: Callable[..., Run]) -> None:
    """The file beside it, which becomes it, had a longer name."""
    target = pair.with_name("k" * 250 + ".json")
    assert moeopt("place", pair, *SHAPE, "-o", target).code == 0
    assert target.exists()


@pytest.mark.parametrize("text", ["layer,e0,e1\n{},1,2\n", "layer,expert,tokens\n{0},0,2\n{0},1,2\n"])
def test_a_layer_id_beyond_64_bits_is_said_to_be(tmp_path: Path, moeopt: Callable[..., Run], text: str) -> None:
    file = tmp_path / "far.csv"
    file.write_text(text.format("9" * 20))
    run = moeopt("place", file, *SHAPE)
    assert run.code == 2 and "ids must be below 2**63" in run.err, run.err


def test_an_interrupt_while_the_command_is_loaded_is_no_traceback() -> None:
    program = """
import sys
class Interrupt:
    def find_spec(self, name, *rest):
        if name == "moeopt.cli":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from moeopt.__main__ import run
sys.exit(run())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")
