"""Files, policies and ranges that ``moeopt microbatch`` is given: refused by name, or narrowed with a note."""

from __future__ import annotations

import random

import pytest

ONES = ("--ta", "1+0n", "--te", 1, "--tc", 1, "--layers", 5)
TABLE = "batch,ta,te,tc\n64,1,1,1\n128,2,2,2\n256,3,3,3\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "ok.csv").write_text(TABLE)
    return tmp_path


def measured(moeopt, folder, data: bytes):
    (folder / "file.csv").write_bytes(data)
    return moeopt("microbatch", "--times", "file.csv", "--layers", 3, "--batch", 128)


def test_old_line_ends_blank_lines_and_semicolons_are_read(moeopt, folder):
    for text in (TABLE.replace("\n", "\r"), TABLE.replace("\n", "\r\n\r\n"), TABLE.replace(",", ";")):
        assert measured(moeopt, folder, text.encode()).code == 0


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"batch,ta,te,tc\n64," + b"1" * 140_000 + b",1,1\n", "line 2] = ...: broken CSV (field larger"),
        (random.Random(1).randbytes(5000), "is not UTF-8 text"),
        (b'batch,ta,te,tc\n64,"1,1,1\n', "broken CSV"),
        (b"batch,ta,te,tc\n" + b"9" * 5000 + b",1,1,1\n", "must be whole tokens >= 1"),
        (b"batch,ta,te,tc\n64,1e999999999,1,1\n", "line 2] = 1e999999999: is beyond any step"),
        (b"batch,ta,ta_us,te,tc\n64,1,1,1,1\n", "ta_us: is a second column of one time"),
        (b"", "the file is empty"),
    ],
)
def test_a_broken_table_is_refused_by_name_and_nothing_else_is_said(moeopt, folder, data, said):
    run = measured(moeopt, folder, data)
    assert (run.code, run.out) == (2, "")
    assert said in run.err
    assert all(line.startswith("error: --times[file.csv") for line in run.err.splitlines())


def test_any_bytes_are_read_or_refused(moeopt, folder):
    rng = random.Random(7)
    for _ in range(60):
        data = bytearray(TABLE.encode())
        for _ in range(rng.randint(1, 5)):
            data[rng.randrange(len(data))] = rng.choice(b'\r\n",;\t\x00\xff1eE-n ')
        assert measured(moeopt, folder, bytes(data)).code in (0, 2)


def test_a_policy_that_fails_is_named(moeopt, folder):
    (folder / "microbatch_policies.py").write_text(
        "def breaks(instance, limits, seed):\n    raise KeyError('x')\n\n"
        "def leaves(instance, limits, seed):\n    raise SystemExit(0)\n\n"
        "def wrong(instance, limits, seed):\n    return (99, 1)\n"
    )
    for name in ("breaks", "leaves", "wrong"):
        run = moeopt("microbatch", *ONES, "--method", f"microbatch_policies:{name}")
        assert (run.code, run.out) == (2, "")
        assert f"microbatch_policies:{name}" in run.err and "fault of moeopt" not in run.err
    assert "method os:system failed: TypeError" in moeopt("microbatch", *ONES, "--method", "os:system").err


def test_m_of_the_default_outside_the_measured_sizes_is_left_out(moeopt, folder):
    run = moeopt("microbatch", "--times", "ok.csv", "--layers", 10, "--batch", 128)
    assert run.code == 0
    assert "m = 4 is left out: 32 tokens lie outside the measured 64 to 256 of ok.csv" in run.err
    assert "m = 3 is left out: it divides no batch" in run.err


def test_m_that_was_listed_is_refused_once_with_the_file(moeopt, folder):
    run = moeopt("microbatch", "--times", "ok.csv", "--layers", 10, "--batch", 128, "--m", "2,4")
    assert run.code == 2
    assert run.err == (
        "error: --times[ok.csv] = m = 4: 32 tokens lie outside the measured 64 to 256. Measure there, leave it out, "
        "or give --extend.\n"
    )


def test_without_a_batch_measured_times_ask_for_one(moeopt, folder):
    run = moeopt("microbatch", "--times", "ok.csv", "--layers", 10)
    assert run.code == 2 and run.err.count("error: ") == 1
    assert "--batch = missing" in run.err and "Give --batch 256, or --micro-batch 64" in run.err


def test_a_column_that_was_not_given_is_not_named(moeopt, folder):
    run = moeopt("microbatch", "--times", "ok.csv", "--layers", 10, "--batch", 8)
    assert run.code == 2 and "--tb" not in run.err and "--td" not in run.err


@pytest.mark.parametrize("words", [("--max-m", 8), ("--m", "1-8"), ("--m", "1-4,8")])
def test_m_of_a_range_that_divides_no_batch_is_left_out(moeopt, words):
    run = moeopt("microbatch", *ONES, *words, "--batch", 64)
    assert run.code == 0
    assert "left out" in run.err and "m = 3" in run.err


def test_m_that_was_listed_beside_a_range_is_refused(moeopt):
    run = moeopt("microbatch", *ONES, "--m", "1-4,7", "--batch", 64)
    assert run.code == 2 and "--m = 7: divides none" in run.err and "--m = 3" not in run.err


@pytest.mark.parametrize("text", ["1e300", "1e9999999999", "1e13"])
def test_a_time_beyond_any_step_is_said_in_its_own_unit(moeopt, text):
    run = moeopt("microbatch", "--ta", text, *ONES[2:])
    assert run.code == 2
    assert f"--ta = {text}: is beyond any step, 1e9 s. It is in ms: give another unit" in run.err


@pytest.mark.parametrize("text", ["nan", "inf", "infinity"])
@pytest.mark.parametrize("option", ["--ta", "--tbt"])
def test_what_is_not_finite_is_said_in_one_wording(moeopt, text, option):
    run = moeopt("microbatch", *ONES[2:], "--ta", 1, option, text)
    symbol = "T_a " if option == "--ta" else ""
    assert f"{option} = {text}: {symbol}must be a finite time >= 0. Give a number." in run.err


def test_a_file_that_is_not_there_is_that_of_times(moeopt, folder):
    run = moeopt("microbatch", "--times", "nofile.csv", "--layers", 3)
    assert run.err == "error: --times = nofile.csv: cannot be read (No such file or directory). Check the name.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "cannot be read"),
        ('{"schema": "moeopt/microbatch-instance/1", "layers": 1e400}', "1e400 is beyond"),
        ('{"schema": "moeopt/microbatch-instance/1"}', "layers = missing: is needed"),
    ],
)
def test_documents_are_refused_with_their_name(moeopt, folder, text, said):
    (folder / "x.json").write_text(text)
    run = moeopt("microbatch", "x.json")
    assert run.code == 2 and said in run.err
    assert all(line.startswith("error: x.json: ") for line in run.err.splitlines())


def test_verify_says_what_it_takes(moeopt, folder):
    (folder / "x.json").write_text("{}")
    run = moeopt("verify", "x.json")
    assert run.code == 2
    assert "is no placement plan, micro-batch plan, mesh plan or map of an engine" in run.err
    (folder / "x.json").write_text('{"schema": "moeopt/microbatch-instance/1"}')
    assert "is a micro-batch instance, not a plan" in moeopt("verify", "x.json").err
