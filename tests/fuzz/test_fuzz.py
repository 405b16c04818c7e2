"""Whatever is in a file, reading it ends in an answer or in words, within a second and in little memory."""

from __future__ import annotations

import json
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moeopt.errors import InstanceError
from tests.fuzz.damage import damaged
from tests.fuzz.kinds import KINDS, run
from tests.fuzz.once import once, warm, watched

SEEDS = 3
"""A glance at each kind; ``python -m tests.fuzz`` goes on for as long as one likes."""


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MOEOPT_INTERPRET", "1")
    warm()
    yield


@pytest.mark.parametrize("name", KINDS)
def test_whatever_is_in_a_file_an_answer_or_words_come_out(name: str, tmp_path: Path) -> None:
    kind = KINDS[name]
    path = kind.make(tmp_path)
    whole = path.read_bytes()
    for verb in kind.verbs[:1]:  # the good file is good
        code, said = run(*(word.replace("@", str(path)).replace("%", str(tmp_path)) for word in verb.split()))
        assert code in (0, 3), said
    for call in kind.calls:
        call(path)
    first = zlib.crc32(name.encode()) % 10_000
    for seed in range(first, first + SEEDS):
        once(kind, path, whole, seed)


def test_damages_change_a_file_and_the_same_seed_makes_the_same() -> None:
    whole = b'{"a": [1, 2.5], "b": {"c": "x"}}\n'
    made = [damaged(whole, random.Random(seed)) for seed in range(200)]
    assert made == [damaged(whole, random.Random(seed)) for seed in range(200)]
    assert len(set(made)) > 100 and sum(one == whole for one in made) < 40


# --- what was found ---------------------------------------------------------------------------------------------------


def test_a_share_that_is_no_number_is_refused(tmp_path: Path) -> None:
    """It ended in a traceback."""
    path = KINDS["routing result"].make(tmp_path)
    text = path.read_text()
    start = text.index('"shares"')
    path.write_text(text[:start] + re.sub(r"\[0, ", "[NaN, ", text[start:], count=1))
    code, said = run("verify", path)
    assert code == 2 and "solution" in said and "finite number" in said


@pytest.mark.parametrize("value", [[], {}, ["zipf"], {"zipf": 1}, 3, None])
def test_a_generator_of_a_grid_that_is_no_name_is_refused(tmp_path: Path, value: object) -> None:
    """A list ended in a traceback."""
    path = KINDS["bench grid json"].make(tmp_path)
    document = json.loads(path.read_text())
    document["loads"]["one"]["generator"] = value
    path.write_text(json.dumps(document))
    with pytest.raises(InstanceError, match="is not a generator"):
        KINDS["bench grid json"].calls[0](path)


def test_half_a_character_in_constants_is_refused(tmp_path: Path) -> None:
    """It was read, and could be neither printed nor written."""
    path = KINDS["calibration"].make(tmp_path)
    document = json.loads(path.read_text())
    document["version"] = "\ud800"
    path.write_text(json.dumps(document))
    code, said = run("inspect", path)
    assert code == 2 and "half of a character" in said


@pytest.mark.parametrize("expert", ["2147483648", "1e300", "70000"])
@pytest.mark.parametrize("key", ["shares", "slot_expert"])
def test_an_expert_of_a_huge_id_costs_neither_time_nor_memory(tmp_path: Path, expert: str, key: str) -> None:
    """Verify made a table for every id up to it."""
    path = KINDS["routing result"].make(tmp_path)
    text = path.read_text()
    start = text.index(f'"{key}"')
    path.write_text(text[:start] + re.sub(r"\[0, ", f"[{expert}, ", text[start:], count=1))
    with watched("verify"):
        code, said = run("verify", path)
    assert code in (2, 5) and "fault of moeopt" not in said


@pytest.mark.parametrize("rows", [3, None, [3], [["x"]], [[[0]]], "x", {}])
def test_slots_of_a_routing_that_are_no_table_are_said(tmp_path: Path, rows: object) -> None:
    path = KINDS["routing result"].make(tmp_path)
    document = json.loads(path.read_text())
    document["instance"]["document"]["slot_expert"] = rows
    path.write_text(json.dumps(document))
    code, said = run("verify", path)
    assert code in (2, 5) and "fault of moeopt" not in said


@pytest.mark.parametrize("depth", [300, 900, 950, 20_000])
def test_lists_hundreds_deep_are_refused(tmp_path: Path, depth: int) -> None:
    """Shallow enough to be parsed, they were too deep for what came after."""
    path = KINDS["collocation result"].make(tmp_path)
    document = json.loads(path.read_text())
    document["instance"]["document"] = "deep"
    path.write_text(json.dumps(document).replace('"deep"', '{"schema": ' + "[" * depth + "]" * depth + "}"))
    code, said = run("verify", path)
    assert code in (2, 5) and "fault of moeopt" not in said


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("microbatch result", "notes", 1e-308),
        ("microbatch result", "gap", [2]),
        ("mesh result", "notes", 2**31),
        ("mesh result", "conflicts", [[]]),
        ("mesh result", "gap", {}),
        ("replay result", "scored", [0, 2**70]),
        ("replay result", "scored", [-1, 1]),
        ("replay result", "scored", [1, 3000]),
    ],
)
def test_a_result_of_another_form_is_described_all_the_same(tmp_path: Path, kind: str, key: str, value: object) -> None:
    """Inspect believed what a plan of meshes or micro-batches, or a replay, says of itself."""
    path = KINDS[kind].make(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    code, said = run("inspect", path)
    assert code in (0, 2) and key in said and "fault of moeopt" not in said


def test_a_plan_of_a_replay_with_layers_too_many_is_a_fault(tmp_path: Path) -> None:
    path = KINDS["replay result"].make(tmp_path)
    document = json.loads(path.read_text())
    replan = next(one for row in document["policies"] for one in row["replans"] if one.get("slot_expert"))
    replan["slot_expert"] *= 2
    path.write_text(json.dumps(document))
    code, said = run("verify", path, tmp_path / "history.npz")
    assert code == 5 and "the plan has 4 layers, the instance 2" in said


@pytest.mark.parametrize("value", [1e308, -1e308, 1e300])
def test_a_certificate_beyond_the_largest_double_shows_nothing(tmp_path: Path, value: float) -> None:
    path = KINDS["collocation result"].make(tmp_path)
    document = json.loads(path.read_text())
    found = [one for one in certificates(document) if one.get("diagonal")]
    for one in found:
        one["diagonal"][0] = value
    path.write_text(json.dumps(document))
    code, said = run("verify", path)
    assert found and code in (0, 5) and "fault of moeopt" not in said


def certificates(item: object) -> Iterator[dict[str, Any]]:
    """Every mapping in a document."""
    if isinstance(item, dict):
        yield item
    for one in item.values() if isinstance(item, dict) else item if isinstance(item, list) else ():
        yield from certificates(one)


def test_an_llm_of_billions_of_experts_is_refused(tmp_path: Path) -> None:
    """A table of them was made."""
    path = KINDS["config.json"].make(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "n_routed_experts": 2**31}))
    with watched("check"):
        code, said = run("check", "--hf-config", path, "--gpus", 2, "--slots", 8)
    assert code == 2 and "experts = 2147483648: must be at most 1,000,000" in said


@pytest.mark.parametrize("digits", [400, 5000])
def test_a_measurement_beyond_the_largest_double_is_refused(tmp_path: Path, digits: int) -> None:
    path = KINDS["table nccl"].make(tmp_path)
    head, first, *rest = path.read_text().splitlines()
    cells = first.split(",")
    cells[-2] = "9" * digits
    path.write_text("\n".join([head, ",".join(cells), *rest]))
    code, said = run("calibrate", path, "-q")
    assert code == 2 and "message_size[row 1]" in said


def test_loads_that_no_double_holds_together_are_refused(tmp_path: Path) -> None:
    (tmp_path / "loads.csv").write_text("1e308,1\n1e308,1\n")
    code, said = run("inspect", tmp_path / "loads.csv")
    assert code == 2 and "the sum of all must fit a double" in said
