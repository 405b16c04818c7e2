"""The matrix of ``nvidia-smi topo``: found in whatever surrounds it, cells that grew together taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from moeopt.cluster.readers.text import plain_lines, refuse
from moeopt.errors import Violations

FAILED = "Failed to run topology matrix"

PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")
"""From near to far; old drivers say SOC for SYS."""

_CELL = re.compile(r"[ \t|]*(NV\d{1,2}|PIX|PXB|PHB|NODE|SYS|SOC|C2C|X|N/A|NS|Disabled|OK|CNS|GNS|TNS|DR|U)(?![a-z])")
_NIC = r"(?:NIC|mlx\d+_|ibp|ibs|ib|roce\w*?|rdmap|bnxt_re|irdma|efa_|hns_|hsi|rocep|mlx5_bond_|cxi)\d+\w*?"
_LABEL = re.compile(rf"GPU\d{{1,6}}|NIC\d+|{_NIC}(?=[ \t]|$|GPU|NIC)")
_AFFINITY = re.compile(r"CPU[ \t]*Affinity|NUMA([ \t]*Affinity)?|GPU[ \t]+NUMA[ \t]+ID")
ACCESS = {"OK", "CNS", "GNS", "TNS", "DR", "U"}
"""Cells of ``-p2p``; NS and N/A stand in both."""


@dataclass
class Matrix:
    """What the matrix says: labels in the order of the columns, and a row of cells for each."""

    labels: list[str]
    cells: dict[str, dict[str, str]] = field(default_factory=dict)
    affinity: dict[str, str] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def gpus(self) -> list[str]:
        """Labels of the GPUs, by number."""
        return sorted((one for one in self.labels if one.startswith("GPU")), key=lambda one: int(one[3:]))

    @property
    def nics(self) -> list[str]:
        """Labels of the network ports, in the order of the columns."""
        return [one for one in self.labels if not one.startswith("GPU")]

    @property
    def is_access(self) -> bool:
        """Whether it is a matrix of peer access, of ``topo -p2p``."""
        words = {cell for row in self.cells.values() for cell in row.values()}
        return bool(words & ACCESS) or (bool(words) and words <= {"X", "NS", "N/A"})

    def cell(self, row: str, column: str) -> str | None:
        """A cell, or the one across the diagonal where the row is missing."""
        found = self.cells.get(row, {}).get(column)
        return found if found is not None else self.cells.get(column, {}).get(row)


def is_matrix(text: str) -> bool:
    """Whether there is such a matrix, or the message in its place.

    >>> is_matrix("GPU0 X NV18"), is_matrix("        GPU0    GPU1\\nGPU0     X      PHB"), is_matrix(FAILED)
    (False, True, True)
    """
    if FAILED in text:
        return True
    header = False
    for line in text.split("\n"):
        if header and re.search(r"GPU0[ \t|]+X\b", line):
            return True
        header = header or "GPU0" in line
    return False


def has_row(text: str) -> bool:
    """Whether some line is a row of such a matrix.

    >>> has_row("GPU3    NV12    X       SYS  0-23"), has_row("GPU3,12,0")
    (True, False)
    """
    return any(
        _CELL.match(text, match.end()) for match in re.finditer(r"^[ \t>|#$]*GPU\d+(?=[ \t|])", text, re.MULTILINE)
    )


def read_matrix(text: str, source: str) -> Matrix:
    """Find the matrix and read it.

    Raises
    ------
    InstanceError
        The command had failed, there is no header, a row has too few cells, no column, or its X in another column,
        rows of GPUs are missing or stand twice; every violation at once.

    >>> found = read_matrix(" GPU0 GPU1 CPU Affinity\\nGPU0 X SYS 0-7\\nGPU1 SYS X 8-15\\n", "topo.txt")
    >>> found.gpus, found.cell("GPU0", "GPU1"), found.affinity["GPU1"]
    (['GPU0', 'GPU1'], 'SYS', '8-15')
    """
    lines = plain_lines(text)
    at, labels = _header(lines)
    if not labels:
        if FAILED in text:
            rule = "nvidia-smi gave this message in place of the matrix (its exit status was 255)"
            fix = ("A software RDMA device, such as soft-iWARP, is known to cause it: remove it (rdma link show, "
                   "then rdma link delete NAME) and run nvidia-smi topo -m again")  # fmt: skip
            raise refuse(source, FAILED, rule, fix)
        rule = "has no line of column names, GPU0 GPU1 and so on"
        raise refuse(source, lines[0].strip(), rule, "Give the whole output of nvidia-smi topo -m")
    check = Violations(source)
    twice = sorted({label for label in labels if labels.count(label) > 1})
    if twice:
        check.add("columns", ", ".join(twice), rule="stand twice in the header", fix="Copy the matrix again")
        check.raise_if_any()
    matrix = Matrix(labels)
    for number, line in enumerate(lines[at:], at + 1):
        if re.match(r"\s*(NIC )?Legend", line) and matrix.cells:
            break
        _row(line, number, matrix, check)
    matrix.names = {label: name for label, name in re.findall(r"(NIC\d+)\s*:\s*([\w.\-]+)", text) if label in labels}
    missing = [label for label in matrix.gpus if label not in matrix.cells]
    if missing:
        rule = "no row is there for it" if len(missing) == 1 else "no rows are there for them"
        check.add("rows", ", ".join(missing), rule=rule, fix="The end was cut off: copy the whole matrix")
    check.raise_if_any()
    gone = [label for label in matrix.nics if label not in matrix.cells]
    if gone:
        matrix.notes.append(f"rows of {', '.join(gone)} are missing: their columns are used")
    return matrix


def _header(lines: list[str]) -> tuple[int, list[str]]:
    """Where rows begin, and the labels of the columns; a first label alone on its line goes with the next one."""
    for at, line in enumerate(lines):
        cut = _AFFINITY.search(line)
        head = line[: cut.start()] if cut else line
        labels = _LABEL.findall(head)
        if not labels or not labels[0].startswith("GPU") or _CELL.match(_after(head, labels[-1])):
            continue
        if len(labels) == 1 and at + 1 < len(lines) and "X" not in lines[at + 1].split()[1:2]:
            cut = _AFFINITY.search(lines[at + 1])
            more = _LABEL.findall(lines[at + 1][: cut.start()] if cut else lines[at + 1])
            if more:
                return at + 2, [*labels, *more]
        first = head.index(labels[0])
        if re.search(r"[A-Za-z0-9_]$", head[:first]) or any(_is_row(one, labels) for one in (line,)):
            continue
        return at + 1, labels
    return 0, []


def _after(line: str, label: str) -> str:
    return line[line.rindex(label) + len(label) :]


def _is_row(line: str, labels: list[str]) -> bool:
    return bool(_CELL.match(line[line.index(labels[0]) + len(labels[0]) :]))


def _row(line: str, number: int, matrix: Matrix, check: Violations) -> None:
    for match in re.finditer(r"[A-Za-z]\w*", line):
        label = match[0]
        if label in matrix.labels and _CELL.match(line, match.end()):
            break
    else:
        alone = re.match(r"[ \t>|#$]*(GPU\d+)(?=[ \t|])", line)
        if alone and _CELL.match(line, alone.end()):
            fix = "A column name is missing: copy the whole matrix"
            check.add("rows", alone[1], rule="has no column of its name", fix=fix, where=f"line {number}")
        return
    cells: list[str] = []
    at = match.end()
    while len(cells) < len(matrix.labels):
        found = _CELL.match(line, at)
        if found is None:
            break
        cells.append("SYS" if found[1] == "SOC" else found[1])
        at = found.end()
    where = f"line {number}, row {label}"
    if label in matrix.cells:
        check.add("rows", label, rule="stands twice", fix="Give one matrix", where=where)
    elif len(cells) < len(matrix.labels):
        rest = line[at:].strip() or "the end of the line"
        rule = f"has {len(cells)} of {len(matrix.labels)} cells, and then {rest[:30]}"
        check.add("rows", label, rule=rule, fix="Copy the whole matrix, every column", where=where)
        matrix.cells[label] = {}
    elif cells[matrix.labels.index(label)] != "X" and "X" in cells:
        rule = f"has X in the column of {matrix.labels[cells.index('X')]}, and not in its own"
        fix = "A column name is missing or out of place: copy the whole matrix"
        check.add("rows", label, rule=rule, fix=fix, where=where)
        matrix.cells[label] = {}
    else:
        matrix.cells[label] = dict(zip(matrix.labels, cells, strict=True))
        if label.startswith("GPU") and line[at:].strip():
            matrix.affinity[label] = line[at:].strip()
