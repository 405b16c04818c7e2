"""Sources of tokens and counts of pairs at the command line, from every kind of file, and every slip in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt.cli import main
from moeopt.workload.token_ids import read_token_ids
from moeopt.workload.token_sources import read_sources

IDS = np.array([[0, 1], [2, 3], [-1, -1], [0, 3], [1, 2], [0, 1]])
SOURCE = [0, 1, 1, 0, 1, 0]
WHERE = ("--nodes", 2, "--gpus", 2, "--held-out", 0, "--method", "id_order")
PAIRS = [[4, 2, 0, 1], [2, 3, 1, 0], [0, 1, 3, 2], [1, 0, 2, 3]]


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(word) for word in words])
    told = capsys.readouterr()
    return code, told.out, told.err


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.npz"
    np.savez(path, topk_ids=IDS[None], layers=np.array([0]), num_experts=4, home=np.array(SOURCE))
    return path


def written(folder: Path, ending: str, values: Any, name: str) -> Path:
    """The same array in a file of any kind."""
    path = folder / f"{name}.{ending}"
    if ending == "npy":
        np.save(path, np.array(values))
    elif ending == "npz":
        np.savez(path, **{name: np.array(values)})
    elif ending == "json":
        path.write_text(json.dumps({name: values}))
    else:
        rows = values if isinstance(values[0], list) else [[value] for value in values]
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("ending", ["npy", "npz", "json", "csv"])
def test_sources_count_and_rows_left_out_are_left_out_of_them(
    trace: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slots 0, 1 are on GPU 0: tokens 0, 3 (one copy), 5 lie there, tokens 1 and 4 (one copy) on GPU 1."""
    path = written(tmp_path, ending, SOURCE, "source")
    code, out, err = run(capsys, "collocate", trace, *WHERE, "--source", path, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["objective"] == 2.0 and found["instance"]["document"]["source"] == [0, 1, 0, 1, 0]
    assert "sources of tokens are those of" in err and "not given" not in err


def test_sources_may_lie_in_the_trace(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "collocate", trace, *WHERE, "--source", ":home", "--json")
    assert code == 0 and json.loads(out)["objective"] == 2.0
    named = tmp_path / "named.npz"
    np.savez(named, topk_ids=IDS[None], layers=np.array([0]), num_experts=4, source=np.array(SOURCE))
    code, out, err = run(capsys, "collocate", named, *WHERE, "--json")
    assert code == 0 and json.loads(out)["objective"] == 2.0 and "named.npz:source" in err
    lines = [{"type": "meta", "num_experts": 4}] + [
        {"type": "route", "layer": layer, "topk_ids": ids.tolist(), "source": source}
        for ids, source in zip(IDS, SOURCE, strict=True) if ids[0] >= 0 for layer in (0, 1)
    ]  # fmt: skip
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, out, _ = run(capsys, "collocate", log, *WHERE, "--json")
    assert code == 0 and json.loads(out)["instance"]["document"]["source"] == [0, 1, 0, 1, 0]
    del lines[3]["source"]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, err = run(capsys, "collocate", log, *WHERE)
    assert code == 2 and "lacks in 1" in err


def test_columns_of_a_table_and_keys(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "home.csv"
    path.write_text("token,rank,node\n" + "".join(f"{t},{gpu},{9}\n" for t, gpu in enumerate(SOURCE)))
    found = read_token_ids(trace)
    assert read_sources(str(path), str(trace), found)[0].tolist() == [0, 1, 0, 1, 0]
    code, _, err = run(capsys, "collocate", trace, *WHERE, "--source", f"{path}:node")
    assert code == 2 and "must be a GPU from 0 to 1" in err and "token 0" in err
    code, _, err = run(capsys, "collocate", trace, *WHERE, "--source", f"{path}:home")
    assert code == 2 and "which holds token, rank, node" in err


@pytest.mark.parametrize(("content", "text"), [
    ("0\n1\n1\n0\n1\n", "must be one GPU for each of the 6 rows"),
    ("0\n1\nx\n0\n1\n0\n", "must be a whole number"),
    ("0\n1\n1.5\n0\n1\n0\n", "must be a whole number"),
    ("0\n1\n1\n2\n1\n7\n", "source[token 2] = 2: must be a GPU from 0 to 1"),
    ("0\n1\n1\n-1\n1\n0\n", "source[token 2] = -1"),
    ("0,1\n1,0\n1,1\n", "must be one GPU for each"),
    ("", "the file is empty"),
])  # fmt: skip
def test_sources_that_do_not_fit_are_named(
    trace: Path, tmp_path: Path, content: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "source.csv"
    path.write_text(content)
    code, out, err = run(capsys, "collocate", trace, *WHERE, "--source", path)
    assert code == 2 and text in err and not out


@pytest.mark.parametrize(("name", "data", "text"), [
    ("s.npy", b"\x93NUMPY nothing", "not a whole .npy"),
    ("s.npz", b"PK", "not a whole .npz"),
    ("s.json", b'{"source": [0, 1', "broken JSON"),
    ("s.json", b'{"source": [0, [1], 2]}', "rows of equal length"),
    ("s.json", b'{"source": ["a", "b"]}', "must be whole numbers"),
    ("s.json", b"3", "must be a list of numbers"),
    ("s.txt", b"0\n", "is read from .npy"),
])  # fmt: skip
def test_broken_files_are_refused(
    trace: Path, tmp_path: Path, name: str, data: bytes, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    code, _, err = run(capsys, "collocate", trace, *WHERE, "--source", path)
    assert code == 2 and text in err, err


@pytest.mark.parametrize("ending", ["npy", "npz", "json", "csv"])
def test_pairs_name_the_approximation(tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, ending, PAIRS, "pairs")
    words = ("collocate", path, "--pairs", "--nodes", 2, "--gpus", 2)
    code, out, err = run(capsys, *words, "--method", "exact", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert found["objective"] == 2.0 and found["unit"] == "pairs apart" and found["status"] == "OPTIMAL"
    assert "an approximation of copies" in err
    code, out, _ = run(capsys, *words, "--method", "greedy", "-o", tmp_path / "plan.json")
    assert code == 0 and "pairs apart" in out and "to units besides" not in out
    code, out, _ = run(capsys, "verify", tmp_path / "plan.json", path)
    assert code == 0, out


def test_pairs_of_an_npz_need_no_option_and_have_layers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pairs.npz"
    np.savez(path, pairs=np.array([PAIRS, PAIRS]), layers=np.array([3, 5]))
    code, out, _ = run(capsys, "collocate", path, "--nodes", 2, "--gpus", 2, "--method", "greedy", "--json")
    assert code == 0 and [layer["layer"] for layer in json.loads(out)["solution"]["layers"]] == [3, 5]
    code, _, err = run(capsys, "compare", path, "--transport", "deepep-normal", "--nodes", 2, "--gpus", 2)
    assert code == 0 and "approximation" in err


@pytest.mark.parametrize(("pairs", "words", "text"), [
    ([[1, 2], [2, 1], [0, 0]], (), "must be layers x experts x experts"),
    ([[1, 2], [3, 1]], (), "must be symmetric"),
    ([[1, -2], [-2, 1]], (), "must be finite counts >= 0"),
    (PAIRS, ("--source", "x.csv"), "pairs have none"),
    (PAIRS, ("--held-out", "0.5"), "pairs have none"),
    (PAIRS, ("--experts", "9"), "pairs has 4 of them"),
    (PAIRS, ("--objective", "time"), "needs a link graph"),
])  # fmt: skip
def test_pairs_that_cannot_be_are_named(
    tmp_path: Path, pairs: Any, words: Any, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, "json", pairs, "pairs")
    code, _, err = run(capsys, "collocate", path, "--pairs", "--nodes", 2, "--gpus", 2, *words)
    assert code == 2 and text in err, err


@pytest.mark.parametrize(("ids", "experts", "text"), [
    ([[1, 1], [1, 2]], None, "stands twice in one token"),
    ([[0, 9], [1, 2]], 4, "expert ids run from 0 to 3"),
    ([[0, 1, 2, 3, 4], [1, 0, 4, 3, 2]], 4, "expert ids run from 0 to 3"),
    ([[0, 1], [1, -2]], None, "-1 is padding"),
    ([[0, 1], [2, -1]], None, "every token must have top_k = 2"),
    ([[0, -1], [2, 1], [1, 0]], None, "row 0] = 1 experts: every token must have top_k = 2"),
    (np.array([[0, 2**64 - 1], [1, 2]], np.uint64), 4, "row 0] = 18446744073709551615: expert ids run from 0 to 3"),
    (np.array([[2**64 - 1] * 2, [1, 2]], np.uint64), None, "expert ids run from 0 to 65535 at most"),
    ([[-1, -1], [-1, -1]], None, "no routed tokens"),
])  # fmt: skip
def test_traces_that_cannot_be_are_named(
    tmp_path: Path, ids: Any, experts: int | None, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.npz"
    np.savez(path, topk_ids=np.array([ids]), layers=np.array([0]))
    more = () if experts is None else ("--experts", experts)
    code, _, err = run(capsys, "collocate", path, *WHERE, *more)
    assert code == 2 and text in err, err
