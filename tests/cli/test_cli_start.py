"""What a command loads before it begins: nothing but what it needs itself."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import moeopt.cli
from moeopt.cli.app import VERBS, command_of


def loaded(*words: str) -> set[str]:
    """Modules that a process has loaded when its command is done."""
    code = f"import sys; from moeopt.cli import main; main({list(words)}); print('\\nloaded:', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("loaded:")[2].split())


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("nope",), ("warmup", "--help")])
def test_a_command_loads_no_verb_but_the_one_that_is_called(words):
    verbs = {f"moeopt.cli.{verb}" for verb in VERBS}
    assert loaded(*words) & verbs == ({f"moeopt.cli.{words[0]}"} & verbs)


@pytest.mark.parametrize("verb", VERBS)
def test_the_list_of_verbs_says_what_the_file_of_a_verb_says(verb):
    assert importlib.import_module(f"moeopt.cli.{verb}").__doc__ == VERBS[verb]
    assert command_of(verb).name == verb


def test_every_file_of_a_verb_is_in_the_list_of_verbs():
    files = [one.name for one in pkgutil.iter_modules(moeopt.cli.__path__)]
    assert {name for name in files if hasattr(importlib.import_module(f"moeopt.cli.{name}"), "EXAMPLE")} == set(VERBS)


def test_a_verb_that_is_mistyped_is_named(moeopt):
    assert "Did you mean 'place'?" in moeopt("plcae").err
