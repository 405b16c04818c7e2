"""``moeopt mesh``: what is refused, with its value, the reason and the next step."""

import pytest

from moeopt.documents import to_json

SMALL = ("--llm", "mixtral-8x7b", "--gpu", "h100:8", "--input-tokens", 1024, "--output-tokens", 128,
         "--families", "colocated", "--most-pp", 1)  # fmt: skip


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attainment", 0.9), "--attainment = 0.9: is for --simulate and has no effect without it"),
        (("--requests", 5), "--requests = 5: is for --simulate and has no effect without it"),
        (("--redundant", "1e12"), "--redundant[0] = 1000000000000: must be at most 56: 8 GPUs hold each of 8 experts"),
        (("--redundant", "0,1e12"), "--redundant[1] = 1000000000000: must be at most 56"),
        (("--redundant", "1.5"), "--redundant = 1.5: must be a whole number >= 0. Write 0,32"),
        (("--redundant", "inf"), "--redundant = inf: must be a whole number >= 0"),
    ],
)
def test_options_without_effect_or_beyond_their_limit_are_refused(moeopt, words, said):
    run = moeopt("mesh", *SMALL, *words)
    assert run.code == 2 and said in run.err and run.out == ""


@pytest.fixture
def constants(moeopt, tmp_path):
    """The file of constants that `moeopt calibrate` makes of a table."""

    def make(name, text):
        table, file = tmp_path / f"{name}.csv", tmp_path / f"{name}.json"
        table.write_text(text)
        run = moeopt("calibrate", table, "--gpu", "h100", "-o", file, "--force")
        assert run.code == 0, run.err
        return file

    return make


STEPS = "batch,time_ms\n" + "\n".join(f"{batch},{10 + batch / 8}" for batch in (1, 2, 4, 8, 16, 32))
LINKS = "op,ranks,bytes,time_us\n" + "\n".join(
    f"all_reduce,8,{size},{20 + size / 2e5}" for size in (1e4, 1e5, 1e6, 1e7, 1e8)
)


def test_constants_of_whole_steps_alone_say_what_is_needed(moeopt, constants):
    run = moeopt("mesh", *SMALL, "--calibration", constants("steps", STEPS))
    assert run.code == 2 and run.out == ""
    assert "has constants of whole steps alone, which change no answer" in run.err
    assert "tokens, hidden, width, experts, top_k" in run.err


def test_empty_constants_are_refused_and_links_count(moeopt, constants, tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text(to_json({"schema": "moeopt/calibration/1"}))
    run = moeopt("mesh", *SMALL, "--calibration", empty)
    assert run.code == 2 and "has no constants" in run.err
    run = moeopt("mesh", *SMALL, "--calibration", constants("links", LINKS), "--json")
    assert run.code == 0 and any("link by 5 measurements of all_reduce" in note for note in run.document["notes"])
