"""Files are written whole or not at all, and broken JSON is refused with the place of the break."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt.documents import canonical_json, read_bytes, read_json, sha256, to_json, write_file
from moeopt.errors import InstanceError

# --- writing ----------------------------------------------------------------------------------------------------------


def test_a_file_is_written_and_never_overwritten_unasked(tmp_path: Path) -> None:
    target = tmp_path / "plan.json"
    write_file(target, "one")
    assert target.read_text() == "one"
    with pytest.raises(InstanceError, match=r"plan\.json: exists and is never overwritten.*--force"):
        write_file(target, b"two")
    assert target.read_text() == "one"
    write_file(target, b"two", force=True)
    assert target.read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("call", ["fsync", "link"])
def test_nothing_is_left_behind_when_the_disk_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, force: bool
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    if call == "link" and force:
        monkeypatch.setattr(Path, "replace", full)
    else:
        monkeypatch.setattr(os, call, full)
    old = tmp_path / "plan.json"
    if force:
        old.write_text("old")
    with pytest.raises(InstanceError, match="No space left on device"):
        write_file(old, "new", force=force)
    assert [path.name for path in tmp_path.iterdir()] == (["plan.json"] if force else [])
    if force:
        assert old.read_text() == "old"


def test_an_interrupt_while_writing_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "plan.json", "new")
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, fsync = tmp_path / "plan.json", os.fsync

    def somebody_else(handle: int) -> None:
        fsync(handle)
        target.write_text("theirs")

    monkeypatch.setattr(os, "fsync", somebody_else)
    with pytest.raises(InstanceError, match="exists"):
        write_file(target, "ours")
    assert target.read_text() == "theirs"


def test_a_missing_folder_and_a_folder_for_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="cannot be written"):
        write_file(tmp_path / "missing" / "plan.json", "x")
    with pytest.raises(InstanceError, match="cannot be written"):
        write_file(tmp_path, "x", force=True)
    assert list(tmp_path.iterdir()) == []


# --- strict JSON ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,\n "b": [1, 2', ["line 2, column 12", "broken JSON", "cut short"]),
        ("{'a': 1}", ["line 1, column 2", "broken JSON"]),
        ('{"a": 1}\n\n}', ["line 3, column 1"]),
        ("", ["the file is empty"]),
        (" \n", ["the file is empty"]),
        ('{"a": NaN}', ["NaN is not JSON"]),
        ("[-Infinity]", ["-Infinity is not JSON"]),
        ('{"a": 1, "a": 2}', ["a", "stands twice"]),
        ("[1e999]", ["1e999", "double"]),
        ("[" * 100_000, ["cannot be read"]),
        ("1" * 10_000, ["cannot be read"]),
        (b"\xff\xfe{}", ["not UTF-8", "byte 0"]),
        (b'{"a": "\x80"}', ["not UTF-8", "byte 7"]),
        ('{"a": ["\\ud800"]}', ["ud800 is half of a character"]),
        ('{"\\uDFFF\\ud83d": 1}', ["udfff is half of a character"]),
    ],
)
def test_broken_json_is_refused_with_its_place(text: str | bytes, words: list[str]) -> None:
    with pytest.raises(InstanceError) as caught:
        read_json(text, "plan.json")
    message = str(caught.value)
    assert message.startswith("plan.json: ")
    assert all(word in message for word in words), message


def test_a_byte_order_mark_is_taken_and_nan_where_a_caller_names_its_place() -> None:
    assert read_json(b"\xef\xbb\xbf[1]", "a") == read_json("\ufeff[1]", "a") == [1]
    assert repr(read_json("[NaN]", "a", allow_nan=True)) == "[nan]"


def test_both_halves_of_a_character_are_one() -> None:
    assert read_json('["\\ud83d\\ude00"]', "a") == ["\U0001f600"]


def test_text_with_half_a_character_is_written_all_the_same(tmp_path: Path) -> None:
    """The name of a file that is no UTF-8 comes as such text, and a plan with it in a note could not be written."""
    write_file(tmp_path / "note.txt", "loads of \udcff.csv")
    assert (tmp_path / "note.txt").read_text() == "loads of ?.csv"


def test_a_file_that_is_missing_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.json", tmp_path):
        with pytest.raises(InstanceError, match="cannot be read"):
            read_bytes(path)


@pytest.mark.parametrize("value", [float("nan"), [1.0, float("inf")], {"a": [[float("nan")]]}])
def test_what_strict_json_cannot_hold_is_not_written(value: object) -> None:
    for write in (to_json, canonical_json):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_writing_and_reading_json_is_the_identity(value: object) -> None:
    assert read_json(to_json(value), "a") == value
    assert sha256({"value": read_json(canonical_json(value), "a")}) == sha256({"value": value})


def test_whole_floats_and_key_order_do_not_change_the_digest() -> None:
    assert sha256({"a": 1.0, "b": [2, 3.0]}) == sha256({"b": [2.0, 3], "a": 1})
    assert sha256({"a": 0.5}) != sha256({"a": 0})
    assert canonical_json({"a": True, "b": 1e300}) == b'{"a":true,"b":1e+300}'


def test_what_is_no_regular_file_is_never_replaced(tmp_path: Path) -> None:
    """A device was once replaced by a file."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("folder", "pipe"):
        with pytest.raises(InstanceError, match="not a regular file"):
            write_file(tmp_path / name, "x", force=True)
    assert (tmp_path / "pipe").is_fifo()
