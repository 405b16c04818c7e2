"""The ending chooses the format; files are written whole or not at all, and never over another unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from moeopt.errors import InstanceError
from moeopt.report import FORMATS, Block, Header, write_report


@pytest.mark.parametrize("ending", FORMATS)
def test_ending_chooses_the_format(block: Block, header: Header, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"report{ending.upper()}"
    write_report(target, [block], header)
    assert target.read_text(encoding="utf-8") == FORMATS[ending]([block], header)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


@pytest.mark.parametrize("name", ["report.pdf", "report", "html"])
def test_other_endings_are_refused_with_the_known_ones(block: Block, header: Header, tmp_path: Path, name: str) -> None:
    with pytest.raises(InstanceError, match=r"Known: \.html, \.md, \.csv, \.tex, \.json"):
        write_report(tmp_path / name, [block], header)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_overwritten_only_with_force(block: Block, header: Header, tmp_path: Path) -> None:
    target = tmp_path / "report.md"
    target.write_text("mine")
    with pytest.raises(InstanceError, match="exists and is never overwritten unasked"):
        write_report(target, [block], header)
    assert target.read_text() == "mine"
    write_report(target, [block], header, force=True)
    assert target.read_text(encoding="utf-8").startswith("# Expert placement compared: small")


def test_a_report_needs_an_instance(header: Header, tmp_path: Path) -> None:
    with pytest.raises(InstanceError, match="a report needs an instance"):
        write_report(tmp_path / "report.md", [], header)
