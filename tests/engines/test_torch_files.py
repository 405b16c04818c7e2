"""Files of torch: what is read is what was written, everything else is refused by name and nothing is ever run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moeopt.engines.torch_files import LEGACY, TorchFile
from moeopt.engines.torch_tensors import Tensor
from moeopt.errors import InstanceError
from tests.engines.files import STORAGES, Pickled, Raw, View, torch_bytes, torch_file


def value_of(path: Path) -> Any:
    def read(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.read()
        if isinstance(value, dict):
            return {key: read(item) for key, item in value.items()}
        return [read(item) for item in value] if isinstance(value, list) else value

    with TorchFile(str(path)) as file:
        return read(file.value)


def refusal(path: Path) -> str:
    with pytest.raises(InstanceError) as caught, TorchFile(str(path)) as file:
        value = file.value
        for item in value.values() if isinstance(value, dict) else [value]:
            if isinstance(item, Tensor):
                item.read()
    return str(caught.value)


@pytest.mark.parametrize("kind", sorted(STORAGES))
def test_tensor_of_each_type_is_read(tmp_path: Path, kind: str) -> None:
    array = np.arange(12).reshape(3, 4).astype(kind)
    found = value_of(torch_file(tmp_path / "a b ü.pt", {"x": array}))["x"]
    assert found.dtype == array.dtype
    assert np.array_equal(found, array)


def test_plain_values_are_read(tmp_path: Path) -> None:
    value = {
        "a": [0, 255, 256, 70000, -1, 2**40, -(2**70), 2.5, None, True, False, "é\n"],
        "o": OrderedDict(k=(1,), m=(1, 2), n=(1, 2, 3), p=(1, 2, 3, 4), q=()),
        "s": np.float64(2.5),
        "i": np.int32(-7),
        5: [],
    }
    assert value_of(torch_file(tmp_path / "a.pt", value)) == value


def test_pickles_of_later_protocols_are_read(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, "text", None, True, (1, 2)], "b": {"c": 2**80}, "d": b"bytes"}
    for protocol in (2, 3, 4, 5):
        if protocol == 2:
            value = {key: item for key, item in value.items() if key != "d"}
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("x/data.pkl", pickle.dumps(value, protocol))
        path = tmp_path / f"{protocol}.pt"
        path.write_bytes(file.getvalue())
        assert value_of(path) == value


def test_views_are_read_by_their_strides(tmp_path: Path) -> None:
    storage = np.arange(24, dtype=np.int64)
    views = {
        "turned": View(storage, 0, (4, 6), (1, 4)),
        "cut": View(storage, 5, (3, 2), (6, 1)),
        "flat": View(storage, 7, (2, 3), (3, 1), location="cuda:3"),
        "one": View(storage, 23, (1, 1), (99, 7)),
        "none": View(storage, 24, (0, 5), (5, 1)),
        "number": View(storage, 4, (), ()),
    }
    found = value_of(torch_file(tmp_path / "a.pt", views))
    assert np.array_equal(found["turned"], storage.reshape(6, 4).T)
    assert found["cut"].tolist() == [[5, 6], [11, 12], [17, 18]]
    assert found["flat"].tolist() == [[7, 8, 9], [10, 11, 12]]
    assert found["one"].tolist() == [[23]]
    assert found["none"].shape == (0, 5)
    assert found["number"].item() == 4


def test_bfloat16_is_read_as_float(tmp_path: Path) -> None:
    bits = (np.array([1.0, -2.5, 256.0], dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)
    view = View(bits, 0, (3,), (1,), storage_type="BFloat16Storage")
    assert value_of(torch_file(tmp_path / "a.pt", [view]))[0].tolist() == [1.0, -2.5, 256.0]


def test_tensor_is_read_in_pieces(tmp_path: Path) -> None:
    array = np.arange(3 * 10 * 2, dtype=np.int32).reshape(3, 10, 2)
    with TorchFile(str(torch_file(tmp_path / "a.pt", [array]))) as file:
        parts = list(file.value[0].pieces(limit=4 * 8))
        assert [(row, part.shape) for row, part in parts[:3]] == [(0, (4, 2)), (0, (4, 2)), (0, (2, 2))]
        for row in range(3):
            assert np.array_equal(np.concatenate([part for at, part in parts if at == row]), array[row])


HOSTILE = {
    "posix.system": b"cposix\nsystem\nX\x0b\x00\x00\x00touch ownedR\x85R",
    "builtins.eval": b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R",
    "builtins.getattr": b"\x8c\x08builtins\x8c\x07getattr\x93",
    "torch.load": b"ctorch\nload\n",
    "torch._utils._rebuild_parameter": b"ctorch._utils\n_rebuild_parameter\n",
    "numpy.core.multiarray._reconstruct": b"cnumpy.core.multiarray\n_reconstruct\n",
    "collections.deque": b"ccollections\ndeque\n)R",
    "makes an object of a class": b"ccollections\nOrderedDict\n)\x81",
    "calls a registered extension": b"\x82\x01",
    "sets the inside of an object": b"ccollections\nOrderedDict\n)R}X\x01\x00\x00\x00aK\x01sb",
    "calls something that is no known function": b"X\x01\x00\x00\x00a)R",
    "holds a set": b"\x8f",
    "is no storage": b"X\x01\x00\x00\x00aQ",
    "is not in the file": b"(\x8c\x07storagectorch\nLongStorage\n\x8c\x019\x8c\x03cpuK\x04tQ",
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_pickle_that_does_anything_is_refused_by_name(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> int:
        raise AssertionError("a file ran code")

    monkeypatch.setattr(os, "system", never)
    monkeypatch.chdir(tmp_path)
    said = refusal(torch_file(tmp_path / "a.pt", {"x": Raw(HOSTILE[what])}))
    assert what in said
    assert "nothing in it was run" in said
    assert not (tmp_path / "owned").exists()


def test_object_that_calls_when_loaded_is_refused(tmp_path: Path) -> None:
    """The pickle that Python itself writes for an object with `__reduce__`."""

    class Hostile:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.system, (f"touch '{tmp_path}/owned'",)

    for protocol in range(6):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a/data.pkl", pickle.dumps({"records": [Hostile()]}, protocol))
        path = tmp_path / "a.pt"
        path.write_bytes(file.getvalue())
        assert ".system" in refusal(path) or protocol < 2
        assert not (tmp_path / "owned").exists()


BOMBS = {
    "nested more than 40 deep": b")" + b"\x85" * 100_000,
    "nested more than 40 deep ": b"]q\xc8h\xc8a",
    "has more than 100,000,000 values": b"]q\xc80"
    + b"".join(b"](" + b"h%c" % place * 100 + b"eq%c0" % (place + 1) for place in range(200, 206))
    + b"h\xce",
    "is broken": b"})" + b"\x85" * 100_000 + b"K\x01s",
    "is broken ": b")" + b"\x85" * 100_000 + b"\x8c\x01a\x93",
    "not a plain number": b"cnumpy\ndtype\n)\x85R",
}


@pytest.mark.parametrize("what", sorted(BOMBS))
def test_pickle_that_is_a_bomb_is_refused(tmp_path: Path, what: str) -> None:
    said = refusal(torch_file(tmp_path / "a.pt", {"x": Raw(BOMBS[what])}))
    assert what.strip() in said


BROKEN = {
    "beyond the end of its storage": View(np.arange(4), 2, (3,), (1,)),
    "repeats its storage": View(np.arange(4), 0, (2**40,), (0,)),
    "says 9 elements": View(np.arange(4), 0, (4,), (1,), claim=9),
    "names torch.ComplexFloatStorage": View(np.arange(4), 0, (4,), (1,), storage_type="ComplexFloatStorage"),
    "whose shape is not plain": View(np.arange(4), 0, (4,), (1, 1)),
}


@pytest.mark.parametrize("what", sorted(BROKEN))
def test_broken_tensor_is_refused_by_name(tmp_path: Path, what: str) -> None:
    assert what in refusal(torch_file(tmp_path / "a.pt", {"x": BROKEN[what]}))


def test_file_that_is_no_torch_zip_is_named_as_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    whole = torch_bytes({"x": np.arange(1000)})
    for content, said in (
        (LEGACY + b"\x80\x02M\xe9\x03.", "old format of torch"),
        (b"", "not a file of torch.save"),
        (b"hello", "not a file of torch.save"),
        (whole[:-30], "not a whole zip"),
        (whole[: len(whole) // 2], "not a whole zip"),
        (torch_bytes({}, byteorder="big"), "big-endian"),
    ):
        path.write_bytes(content)
        assert said in refusal(path)
    np.savez(tmp_path / "b.npz", a=np.ones(3))
    assert "array file of numpy" in refusal(tmp_path / "b.npz")
    assert "No such file" in refusal(tmp_path / "none.pt")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}.")
    assert "packed again" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}.")
        archive.writestr("a/constants.pkl", b"\x80\x02).")
    assert "TorchScript" in refusal(path)


def test_flipped_byte_of_a_storage_is_found(tmp_path: Path) -> None:
    array = np.arange(500, dtype=np.int64)
    data = bytearray(torch_bytes({"x": array}))
    at = bytes(data).index(array.tobytes()[:400])
    data[at + 200] ^= 1
    path = tmp_path / "a.pt"
    path.write_bytes(bytes(data))
    assert "CRC" in refusal(path)


@pytest.mark.filterwarnings("default")
@settings(max_examples=200)
@given(data=st.data())
def test_damaged_file_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.pt"
    pickled = Pickled()
    pickled.put({"records": [{"rank": 0, "x": np.arange(6).reshape(2, 3)}], "m": [1, 2.5, (3, "a")]})
    content = bytearray(pickled.out + b".")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", bytes(content))
        archive.writestr("a/data/0", np.arange(6).tobytes())
    try:
        with TorchFile(str(path)) as file:
            for item in (file.value or {}).values() if isinstance(file.value, dict) else ():
                if isinstance(item, Tensor):
                    item.read()
    except InstanceError:
        pass
