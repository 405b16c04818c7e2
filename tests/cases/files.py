"""Files as they come: from a spreadsheet, from a recording that never began, from a disk that was full."""

from __future__ import annotations

from typing import Any

from moeopt.workload import read_loads
from tests.cases.case import Case, Desk, Refusal, Run


def loads_in(desk: Desk, name: str, content: bytes) -> Any:
    file = desk.write(name, content)
    assert desk.moeopt("inspect", file).code == 0
    return read_loads(str(file)).loads.tolist()


def planned_from(desk: Desk, name: str, content: bytes) -> Run:
    return desk.moeopt("place", desk.write(name, content), "--gpus", 2, "--slots", 2)


CASES = [
    Case(
        "csv-bom-crlf",
        "Spreadsheets put a mark in front of the first name, which then matches nothing.",
        {"name": "loads.csv", "content": b"\xef\xbb\xbflayer_id,expert_id,count\r\n0,0,10\r\n0,1,30\r\n"},
        [[10, 30]],
        loads_in,
    ),
    Case(
        "empty-file",
        "The recording ended before a request came.",
        {"name": "loads.json", "content": b""},
        Refusal(2, ("loads.json", "the file is empty")),
        planned_from,
    ),
    Case(
        "truncated-json",
        "The disk was full, or the file was read while it was written.",
        {"name": "loads.json", "content": b'{"logical_count": [[1, 2, 3'},
        Refusal(2, ("loads.json", "line 1, column 28", "cut short")),
        planned_from,
    ),
]
