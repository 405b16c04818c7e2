"""Loads from a file of any known form, checked; the reverse is in `moeopt.workload.writers`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from moeopt import kinds
from moeopt.documents import read_bytes
from moeopt.errors import Violations
from moeopt.workload.assemble import Content, assemble, only
from moeopt.workload.csv_loads import parse_csv
from moeopt.workload.json_loads import parse_json
from moeopt.workload.numpy_loads import parse_npy, parse_npz
from moeopt.workload.table import LoadTable

ENDINGS = (".json", ".npz", ".npy", ".csv", ".tsv", ".txt")
"""The forms that are read, by the ending of the file's name."""

ENGINES_DO = "moeopt.engines.read_dump takes what engines record"
CONVERSIONS = {
    ".pt": f"{ENGINES_DO}; other counts go into .npz: numpy.savez(file, loads=tensor.numpy())",
    ".pth": f"{ENGINES_DO}; other counts go into .npz: numpy.savez(file, loads=tensor.numpy())",
    ".parquet": "moeopt.engines.read_dump takes tables of counts",
    ".safetensors": "a rank of TensorRT-LLM's statistics is read with its folder, where meta_info.json lies",
    ".yaml": "of YAML, maps of TensorRT-LLM are read, and they are no loads",
    ".yml": "of YAML, maps of TensorRT-LLM are read, and they are no loads",
}

_WITH_KEY = re.compile(rf"(-|.+?(?:{'|'.join(map(re.escape, ENDINGS))})):(.*)", re.IGNORECASE | re.DOTALL)


@kinds.expects(path=kinds.path)
def read_loads(path: str | Path, *, key: str | None = None, layers: Sequence[int] | None = None) -> LoadTable:
    """Read the loads of one window from a `.json`, `.npz`, `.npy` or `.csv` file (`.tsv` and `.txt` are CSV too).

    Parameters
    ----------
    path
        The file; ``FILE:KEY`` names an array of an `.npz`; ``-`` is standard input, told by its first bytes: `.npz`,
        `.npy`, JSON if its first sign is ``[`` or ``{``, else CSV.
    key
        The array of an `.npz`, instead of ``FILE:KEY``. Without one: its only array, else ``loads``.
    layers
        Of a file whose layers have different numbers of experts, only these are read; others are taken whole.

    Returns
    -------
    LoadTable
        Whole numbers as int64, others as float64; ``notes`` says what was filled in or left aside.

    Raises
    ------
    InstanceError
        The file is missing, broken or of another form, or any entry is not a finite number >= 0; every violation
        found, after the name of the file as given.

    Notes
    -----
    CSV is a plain matrix (a row per layer), the same under a header of expert names with an optional first column
    ``layer``, or long rows of ``layer, expert, count``. Names that are one prefix and numbers, such as ``expert_7``,
    are expert ids, whatever their order; cells are cut at tabs, semicolons or commas; sums among the loads are
    refused. JSON is rows of numbers, or an object with ``loads`` or
    ``logical_count`` and optional ``layers``, ``steps``, ``names``; an `.npz` may hold these beside its table, or be
    a matrix of scipy.sparse. Three axes, in all of these but CSV, are windows x layers x experts.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "loads.csv")
    ...     _ = file.write_text("layer,expert,count\\n3,0,10\\n3,1,30\\n")
    ...     table = read_loads(file)
    >>> table.loads.tolist(), table.layers
    ([[10, 30]], (3,))
    """
    name, key_in_name = split_key(str(path))
    check = Violations(name)
    if key is not None and key_in_name is not None and key != key_in_name:
        check.add("key", key, rule=f"the name of the file says {key_in_name!r}", fix="Give one of them")
    key = key_in_name if key is None else key
    ending = "" if name == "-" else Path(name).suffix.lower()
    if name != "-" and ending not in ENDINGS and _there(name) and not Path(name).is_dir():
        fix = CONVERSIONS.get(ending, f"Known endings are {', '.join(ENDINGS)}")
        check.add("input", ending or "no ending", rule="files of this kind are not read", fix=fix)
    if key is not None and name != "-" and ending != ".npz" and _there(name):
        check.add("key", key, rule="only an .npz file holds arrays by name", fix="Leave the key out")
    check.raise_if_any()
    data = b""
    with check.within():
        data = read_bytes(name)
    check.raise_if_any()
    return parse_loads(data, name, key=key, layers=layers)


def parse_loads(
    data: bytes, name: str = "-", *, key: str | None = None, layers: Sequence[int] | None = None
) -> LoadTable:
    """The loads in the bytes of a file, of the form its name ends in, or of standard input, told by its first bytes.

    >>> parse_loads(b"[[1, 2]]").loads.tolist()
    [[1, 2]]
    """
    check = Violations(name)
    ending = _told_by_bytes(data, check) if name == "-" else Path(name).suffix.lower()
    if key is not None and ending != ".npz":
        check.add("key", key, rule="only an .npz file holds arrays by name", fix="Leave the key out")
    check.raise_if_any()
    content = _parse(data, ending, key, check)
    if content is None:
        check.raise_if_any()
    assert content is not None  # a parser that finds no table says why
    if key is not None:
        check.source = f"{name}:{key}"
    return assemble(only(content, layers), check)


def _told_by_bytes(data: bytes, check: Violations) -> str:
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return ".npz"
    if data.startswith(b"\x93NUMPY"):
        return ".npy"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        rule = "standard input is neither UTF-8 text nor an array of numpy"
        check.add("input", f"{len(data)} bytes", rule=rule, fix="Pipe CSV, JSON, .npz or .npy into it")
    return ".json" if text.lstrip()[:1] in ("[", "{") else ".csv"


def _parse(data: bytes, ending: str, key: str | None, check: Violations) -> Content | None:
    if not data.strip():
        check.add("input", "''", rule="the file is empty", fix="Record again, or check that the copy finished")
        return None
    if ending == ".npz":
        return parse_npz(data, key, check)
    if ending == ".npy":
        return parse_npy(data, check)
    return parse_json(data, check) if ending == ".json" else parse_csv(data, check)


def _there(name: str) -> bool:
    """Whether a file is there, or may be; of one that is not, reading says so, whatever its name ends in."""
    try:
        return Path(name).exists()
    except OSError:
        return False


def split_key(name: str) -> tuple[str, str | None]:
    """A file and the array in it that ``FILE:KEY`` names; a file that is called so is a file.

    >>> split_key("a/x.npz:decode"), split_key("x.npz")
    (('a/x.npz', 'decode'), ('x.npz', None))
    """
    found = _WITH_KEY.fullmatch(name)
    if found is None or Path(name).exists():
        return name, None
    return found[1], found[2]
