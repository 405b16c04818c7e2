"""Files of engines told apart by their content, never by their names alone."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np

from moeopt.documents import exists
from moeopt.engines import ascend, eplb_tensors, omni, parquet, sglang, trtllm, vllm
from moeopt.engines.torch_files import LEGACY, TorchFile
from moeopt.workload.numpy_loads import table_of
from moeopt.workload.readers import split_key

_SIGNS = re.compile(
    r'[{}\[\]]|"(?P<key>(?:[^"\\]|\\.)*+)"(?P<colon>\s*:(?:\s*"(?P<text>(?:[^"\\]|\\.)*+)")?)?', re.DOTALL
)
"""Brackets, and texts of JSON."""
HEAD_BYTES = 65536
"""How much of a text is looked at to say what it is."""
OWN = ("moeopt", "expert map")
"""A map that `convert --to moeopt` wrote."""
OWN_SCHEMA = "moeopt/expert-map/"
MAPS = {
    OWN,
    ("sglang", sglang.INIT_MAP),
    ("trtllm", trtllm.CONFIG),
    ("vllm-ascend", ascend.FORM),
    ("omni", omni.PATTERN),
    ("eplb", eplb_tensors.MAP),
}
"""What is a map; everything else that is known is a recording."""
WITH_MAP = MAPS | {
    ("sglang", sglang.PER_PASS),
    ("sglang", sglang.PER_TOKEN),
    ("eplb", eplb_tensors.BARE),
}
"""What `read_map` takes: maps, recordings that say which map was loaded, and a tensor without a name."""


def what_is(path: str) -> tuple[str, str] | None:
    """Engine and form of a file or folder by its content; ``None`` where it is no engine's.

    `path` may also be the JSON text that SGLang takes in place of a file.

    ``FILE.npz:KEY`` is one array of a file. Tables of numbers in CSV, JSON, `.npy` and `.npz` belong to nobody and give
    ``None``, as files that cannot be read do. Of a `.pt` the pickle is read and, of storages, only that of a tensor
    without a name; of a text its beginning.

    Raises
    ------
    InstanceError
        A `.pt` that is broken, hostile, of the old format or a program.

    Examples
    --------
    >>> what_is('{"physical_to_logical_map": [[0, 1]]}'), what_is("no such file")
    (('sglang', 'init-expert-location map'), None)
    """
    if is_text(path):
        return _json_kind(path)
    path, key = split_key(path)
    if key is not None:
        return _array_kind(path, key)
    place = Path(path)
    try:
        if place.is_dir():
            return _folder_kind(path)
        if not place.is_file():
            return None
        with place.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if omni.is_activations(path):
        return omni.ENGINE, omni.ACTIVATIONS
    if trtllm.is_statistics(path):
        return trtllm.ENGINE, trtllm.STATISTICS
    if head.startswith(parquet.MAGIC):
        return parquet.ENGINE, parquet.FORM_COUNTS
    if head.startswith(b"\x93NUMPY"):
        return (omni.ENGINE, omni.PATTERN) if _is_cube(path) else None
    if place.suffix.lower() in (".pt", ".pth") or head.startswith(LEGACY):
        return _torch_kind(path)
    if head.startswith(b"PK"):
        return _zip_kind(path)
    return _text_kind(path, head)


def is_text(path: str) -> bool:
    """Whether it is no path, but the JSON text that an engine takes in place of one."""
    return path.lstrip()[:1] == "{" and not exists(path)


def _json_kind(text: str) -> tuple[str, str] | None:
    """What a JSON object is, by the keys of its own that its beginning has."""
    keys = top_keys(text)
    if "schema" in keys:
        return OWN if keys["schema"].startswith(OWN_SCHEMA) else None
    if sglang.MAP in keys:
        return sglang.ENGINE, sglang.INIT_MAP
    if keys.keys() & {ascend.LAYERS, ascend.LAYER_COUNT}:
        return ascend.ENGINE, ascend.FORM
    if sglang.COUNTS in keys and not keys.keys() & {"layers", "steps", "names", "loads"}:
        return sglang.ENGINE, sglang.INIT_COUNTS
    return None


def top_keys(text: str) -> dict[str, str]:
    """The keys of a JSON object, which may be cut short, but not those of objects inside; with values that are text.

    >>> top_keys('{"a": {"b": 1}, "c": ["}", {"d": 2}], "e": "f", "g')
    {'a': '', 'c': '', 'e': 'f'}
    """
    found: dict[str, str] = {}
    depth = 0
    for match in _SIGNS.finditer(text):
        sign = match[0]
        if sign[0] in "{[":
            depth += 1
        elif sign[0] in "}]":
            depth -= 1
        elif depth == 1 and match["colon"]:
            found.setdefault(match["key"], match["text"] or "")
        if depth <= 0:
            break
    return found


def _folder_kind(path: str) -> tuple[str, str] | None:
    if trtllm.is_statistics(path):
        return trtllm.ENGINE, trtllm.STATISTICS
    if omni.is_activations(path):
        return omni.ENGINE, omni.ACTIVATIONS
    files = sorted(Path(path).glob("*.pt"))
    if files:
        kind = _torch_kind(str(files[0]))
        return kind if kind is not None and kind[1] in (sglang.PER_PASS, sglang.PER_TOKEN) else None
    return None


def _torch_kind(path: str) -> tuple[str, str] | None:
    with TorchFile(path) as file:
        if file.mentions(sglang.RECORDS, sglang.LAST_MAP):  # maybe a gigabyte: it is read once, later
            return sglang.ENGINE, sglang.PER_TOKEN if file.mentions(sglang.PASS_IDS) else sglang.PER_PASS
        form = sglang.form_of(file.value)
        parts = eplb_tensors.parts_of(file.value)
        if parts is not None and (form is None or len(parts) > 1):
            return eplb_tensors.ENGINE, eplb_tensors.form_of(parts)
        if form is not None:
            return sglang.ENGINE, form
        seen = sorted(map(str, file.value))[:6] if isinstance(file.value, dict) else type(file.value).__name__
        rule = f"is a file of torch that no engine's recorder writes: {', '.join(seen) if seen else 'empty'}"
        fix = "Known are SGLang's recorder, its --init-expert-location, and tensors of EPLB"
        raise file.error(rule if isinstance(file.value, dict) else f"is a file of torch that holds a {seen}", fix)


def _zip_kind(path: str) -> tuple[str, str] | None:
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
    except Exception:  # bytes from anywhere
        return None
    if any(name.endswith("data.pkl") for name in names):
        return _torch_kind(path)
    if "topk_ids" in names:
        return vllm.ENGINE, vllm.ARRAYS
    known = {eplb_tensors.NAMES[name] for name in names if name in eplb_tensors.NAMES}
    if "phy2log" in known:
        return eplb_tensors.ENGINE, eplb_tensors.MAP
    if "weight" in known and len(names) == 1:
        return eplb_tensors.ENGINE, eplb_tensors.WEIGHT
    return _array_kind(path, None)


def _array_kind(path: str, key: str | None) -> tuple[str, str] | None:
    """What one array of an `.npz` is, by its name or its content; without a key, the one that is read as its table."""
    if key == "topk_ids":
        return vllm.ENGINE, vllm.ARRAYS
    if key is not None and eplb_tensors.NAMES.get(key) == "phy2log":
        return eplb_tensors.ENGINE, eplb_tensors.MAP
    try:
        with zipfile.ZipFile(path) as archive:
            chosen = table_of([name.removesuffix(".npy") for name in archive.namelist()], key)[1]
            with archive.open(f"{chosen}.npy") as stream:
                major = np.lib.format.read_magic(stream)[0]
                lib = np.lib.format
                shape, _, dtype = (lib.read_array_header_1_0 if major == 1 else lib.read_array_header_2_0)(stream)
                if not omni.may_be_pattern(shape, dtype):
                    return None
                head = np.frombuffer(stream.read(HEAD_BYTES // 8 * 8)[: int(np.prod(shape)) * dtype.itemsize], dtype)
                if not ((head == 0) | (head == 1)).all():
                    return None
            with archive.open(f"{chosen}.npy") as stream:
                cube = lib.read_array(stream, allow_pickle=False)
    except Exception:  # bytes from anywhere: whoever reads the table says what is wrong
        return None
    return (omni.ENGINE, omni.PATTERN) if omni.is_pattern(cube) else None


def is_torch(path: str) -> bool:
    """Whether a file is a zip of `torch.save`."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except Exception:  # bytes from anywhere
        return False


def _is_cube(path: str) -> bool:
    try:
        return omni.is_pattern(np.load(path, mmap_mode="r", allow_pickle=False))
    except Exception:  # bytes from anywhere: a broken header fails in numpy, ast, tokenize or malloc
        return False


def _text_kind(path: str, head: bytes) -> tuple[str, str] | None:
    text = head.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace").lstrip()
    if vllm.form_of(path) is not None and not text.startswith("["):
        return vllm.ENGINE, vllm.LOG
    if text.startswith("{"):
        return _json_kind(text)
    if Path(path).suffix.lower() in (".yaml", ".yml") and trtllm.is_config(text):
        return trtllm.ENGINE, trtllm.CONFIG
    return None
