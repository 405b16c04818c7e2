"""What a verb says of itself stands in its help, brackets and all."""

from __future__ import annotations

import importlib
import re

import pytest

from moeopt.cli.app import VERBS, command_of


def _words(text: str) -> str:
    """A text without what a terminal does to it: frames, and lines that end where it ends."""
    return re.sub(r"[\s│]+", "", text)


@pytest.mark.parametrize("verb", VERBS)
def test_help_says_all_that_is_written(verb, moeopt, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 1000)
    module = importlib.import_module(f"moeopt.cli.{verb}")
    run = moeopt(verb, "--help")
    shown = _words(run.out)
    written = [getattr(module, verb).__doc__, module.EXAMPLE]
    for param in command_of(verb).params:
        metavar = getattr(param, "metavar", None) or ""
        written += [*param.opts[:1], metavar] if param.param_type_name == "option" else [metavar]
        written.append((param.help or "").replace("\\[", "["))
    assert run.code == 0
    assert [text for text in written if text and _words(text) not in shown] == []


def test_the_grid_in_the_help_of_bench_is_one(moeopt, tmp_path):
    from moeopt.bench import read_grid

    shown = moeopt("bench", "--help").out.partition("A grid: ")[2]
    file = tmp_path / "grid.yaml"
    file.write_text("{" + " ".join(shown.split()) + "}\n")
    assert read_grid(file).policies == ("eplb", "lpt", "search")
