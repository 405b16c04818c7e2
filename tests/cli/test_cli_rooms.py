"""Documents of rooms among files of any kind: told by what they call themselves, read once for all rooms."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moeopt import documents
from moeopt.cli import calibration_files, room_files, rooms
from moeopt.errors import InstanceError
from tests.cli.conftest import ROOT, Run

Cli = Callable[..., Run]
TINY = ROOT / "instances" / "tiny"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes what is read and what is parsed for the rooms."""
    done: list[str] = []

    def noting(name: str) -> Callable[..., Any]:
        function = getattr(documents, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            done.append(name)
            return function(*args, **kwargs)

        return run

    for name in ("read_bytes", "read_json"):
        monkeypatch.setattr(room_files, name, noting(name))
    return done


@pytest.mark.parametrize(
    ("file", "what"),
    [("routing/chain.json", "routing instance"), ("mesh/two_types.json", "mesh instance"), ("two_threes.json", None)],
)
def test_a_file_is_read_once_for_all_rooms(counted: list[str], file: str, what: str | None) -> None:
    found = rooms.document_of(str(TINY / file))
    assert (None if found is None else found[0]) == what
    assert counted == ["read_bytes", *(["read_json"] if what else [])]


def test_every_kind_is_of_the_room_that_says_it() -> None:
    assert len({kind.schema for kind in rooms.KINDS}) == len(rooms.KINDS)
    for room in rooms.ROOMS:
        assert {kind.said for kind in room.KINDS} <= room.SAID.keys() and room.JUDGED in room.SAID
        assert all(rooms.room_of(kind.said) is room for kind in room.KINDS)


@pytest.mark.parametrize("kind", rooms.KINDS, ids=lambda kind: kind.schema)
def test_what_is_broken_or_no_number_is_refused_where_the_room_does_not_name_its_place(
    tmp_path: Path, kind: room_files.Kind
) -> None:
    file = tmp_path / "document.json"
    text = json.dumps({"schema": f"{kind.schema}1", "said": "NaN and Infinity", "value": 1})
    file.write_text(text[:-3])
    with pytest.raises(InstanceError, match="broken JSON"):
        rooms.document_of(str(file))
    file.write_text(text.replace("1}", "NaN}"))
    if kind.allow_nan:
        assert rooms.document_of(str(file)) is not None
    else:
        with pytest.raises(InstanceError, match="NaN is not JSON"):
            rooms.document_of(str(file))
    file.write_text(text)
    if kind.said != calibration_files.CALIBRATION_SAID:
        assert rooms.document_of(str(file)) == (kind.said, json.loads(text))
    file.write_text(json.dumps([text]))
    assert rooms.document_of(str(file)) is None
