"""Options of one value that come twice: no value is dropped in silence, whatever the verb."""

from __future__ import annotations

import pytest

from moeopt.cli import main

VERBS = (
    ("place", "--gpus", "8", "16"),
    ("route", "--seed", "1", "2"),
    ("collocate", "--gpus", "8", "16"),
    ("mesh", "--llm", "dbrx", "mixtral-8x7b"),
    ("microbatch", "--tbt", "50ms", "60ms"),
    ("compare", "--time-limit", "1s", "2s"),
    ("verify", "--experts", "8", "16"),
    ("check", "--slots", "8", "16"),
    ("generate", "--seed", "1", "2"),
    ("bench", "--output", "a", "b"),
)


@pytest.mark.parametrize(("verb", "option", "first", "second"), VERBS, ids=[row[0] for row in VERBS])
def test_two_values_of_one_option_are_refused_with_both(capsys, verb, option, first, second):
    assert main([verb, option, first, f"{option}={second}"]) == 2
    err = capsys.readouterr().err
    assert f"{option} = {first} and {second}: has one value, and all but the last would be dropped" in err


def test_every_option_is_named_at_once_under_any_of_its_names(capsys):
    words = ["mesh", "--hf-config", "a", "--config", "b", "-o", "c", "-qod", "--output", "e", "--gpu", "h100:8"]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "--hf-config = a and b: has one value" in err and "--output = c, d and e: has one value" in err


def test_lists_flags_and_one_value_said_again_are_fine(capsys):
    assert main(["mesh", "--llm", "zebra", "--llm", "zebra", "--gpu", "h100:8", "--gpu", "h20:8", "-q", "-q"]) == 2
    err = capsys.readouterr().err
    assert "is not in the catalogue" in err and "one value" not in err
    assert main(["info", "gpus", "--json", "--json"]) == 0


def test_what_follows_two_dashes_is_no_option(capsys):
    assert main(["inspect", "--", "--llm", "--llm"]) == 2
    assert "one value" not in capsys.readouterr().err


def test_a_limit_that_is_none_names_its_option(capsys):
    assert main(["mesh", "--llm", "dbrx", "--gpu", "h100:8", "--time-limit", "0"]) == 2
    assert "limits.time_s (--time-limit) = 0.0: must be finite seconds > 0" in capsys.readouterr().err
