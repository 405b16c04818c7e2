"""`.pt` files of torch without torch: the zip, a whitelisted unpickler, and storages read when they are needed."""

from __future__ import annotations

import functools
import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from moeopt.archives import SEVERAL, joined
from moeopt.engines.bounds import plain_shape
from moeopt.engines.pickles import Name, Refused, Settable, unpickle
from moeopt.engines.torch_tensors import BFLOAT16, DTYPES, Tensor
from moeopt.errors import InstanceError, Violation

PICKLE_BYTES_MAX = 512 * 1024**2

LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How files begin that torch wrote before 1.6, or with `_use_new_zipfile_serialization=False`."""

_STORAGES = frozenset(f"torch.{name}" for name in (*DTYPES, BFLOAT16))


@dataclass(frozen=True, slots=True)
class _Storage:
    kind: str
    key: str
    count: int


class _DType(Settable):
    """The type of a scalar of numpy, as a pickle builds it."""

    __slots__ = ("order", "text")

    def __init__(self, text: str) -> None:
        self.text, self.order = text, "="

    def set_state(self, state: Any) -> None:
        if type(state) is not tuple or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
            raise Refused("has a type of numpy that is not a plain number")
        self.order = state[1]


class TorchFile:
    """A `.pt` file: its value with `Tensor` in place of tensors, which are read from the open file when asked.

    Parameters
    ----------
    path
        A file of `torch.save` from 1.6 on.

    Raises
    ------
    InstanceError
        It is no such file, or several one behind the other, was cut short, was written on a big-endian machine, or
        holds anything but dicts, lists, tuples, text, numbers, None and plain tensors; what it is, or what it holds, is
        named.

    Notes
    -----
    Where a tensor lay (``cuda:3``) does not matter. The format: torch's documentation, "Serialization semantics".
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file, self._archive = None, None
        try:
            with Path(path).open("rb") as head:
                start = head.read(len(LEGACY))
            if start == LEGACY:
                raise self.error(
                    "is of the old format of torch, which is not a zip",
                    "Write it again with torch.save(torch.load(FILE, weights_only=True), OTHER)",
                )
            if not start.startswith(b"PK"):
                raise self.error("is not a file of torch.save, which are zips", "Check the name, and the copy")
            self._archive = zipfile.ZipFile(path)
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})", "Check the name") from error
        except InstanceError:
            raise
        except Exception as error:  # bytes from anywhere: zipfile fails in more ways than it documents
            rule = f"is not a whole zip ({error})"
            raise self.error(rule, "The copy or the recording was cut short: copy or record it again") from error
        try:
            self.root = self._root(self._archive)
            self._sizes = {info.filename: info.file_size for info in self._archive.infolist()}
            self._pickle = self._bytes(self._archive)
        except InstanceError:
            self.close()
            raise
        except Exception as error:  # zipfile and zlib on bytes from anywhere
            self.close()
            raise self.error(f"is not a whole zip ({error})", "Copy or record it again") from error

    def error(self, rule: str, fix: str) -> InstanceError:
        """An error about this file."""
        return InstanceError([Violation("input", "", Path(self.path).name, rule, fix)], self.path)

    def close(self) -> None:
        """Close the file; tensors cannot be read any more."""
        if self._archive is not None:
            self._archive.close()

    def __enter__(self) -> TorchFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def member(self, key: str) -> Any:
        """A storage, opened for reading."""
        assert self._archive is not None
        return self._archive.open(f"{self.root}data/{key}")

    def _root(self, archive: zipfile.ZipFile) -> str:
        if several := joined(archive):
            raise self.error(several, SEVERAL)
        names = set(archive.namelist())
        if len(names) < len(archive.namelist()):
            twice = sorted(name for name in names if archive.namelist().count(name) > 1)
            raise self.error(f"has {twice[0]} twice: readers take one or the other", "Copy or record it again")
        roots = [name.removesuffix("data.pkl") for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
        if len(roots) != 1:
            kind = "an array file of numpy (.npz)" if any(name.endswith(".npy") for name in names) else "some other zip"
            raise self.error(f"is {kind}, not a file of torch.save", "Give it its own ending")
        root = roots[0]
        if f"{root}constants.pkl" in names or any(name.startswith(f"{root}code/") for name in names):
            raise self.error("is a TorchScript program, not data", "Give the file that torch.save wrote")
        packed = [info.filename for info in archive.infolist() if info.compress_type != zipfile.ZIP_STORED]
        if packed:
            raise self.error("was packed again by another program (torch never compresses)", "Give the file as written")
        order = archive.read(f"{root}byteorder").strip() if f"{root}byteorder" in names else b"little"
        if order != b"little":
            fix = "Load it with torch there or here, and save it on a little-endian machine"
            raise self.error(f"was written on a machine of {order.decode('latin1')[:10]}-endian numbers", fix)
        return root

    def _bytes(self, archive: zipfile.ZipFile) -> bytes:
        info = archive.getinfo(f"{self.root}data.pkl")
        if info.file_size > PICKLE_BYTES_MAX:
            raise self.error(f"has a pickle of {info.file_size:,} bytes", "Record fewer passes at a time")
        return archive.read(info)

    def mentions(self, *words: str) -> bool:
        """Whether the pickle has all these texts somewhere, found without reading it."""
        return all(word.encode() in self._pickle for word in words)

    @functools.cached_property
    def value(self) -> Any:
        """What the file holds, read once."""
        makers: dict[str, Callable[..., Any]] = {
            "torch._utils._rebuild_tensor_v2": self._tensor,
            "collections.OrderedDict": _ordered,
            "torch.Size": _size,
            "numpy.core.multiarray.scalar": _scalar,
            "numpy._core.multiarray.scalar": _scalar,
            "numpy.dtype": _dtype,
            "_codecs.encode": _encoded,
        }
        try:
            return unpickle(self._pickle, makers, self._stored, _STORAGES)
        except Refused as error:
            fix = "It may be hostile: do not load it with torch. A recorder's dump holds tensors and plain values only"
            raise self.error(f"{error}: nothing in it was run", fix) from error

    def _stored(self, key: Any) -> _Storage:
        if type(key) is not tuple or len(key) != 5 or key[0] != "storage" or not isinstance(key[1], Name):
            raise Refused("has a persistent id that is no storage")
        _, kind, name, _, count = key
        if type(name) is not str or type(count) is not int or count < 0:
            raise Refused("has a persistent id that is no storage")
        member = f"{self.root}data/{name}"
        if member not in self._sizes:
            raise Refused(f"names storage {name[:40]!r}, which is not in the file")
        itemsize = 2 if kind.name == BFLOAT16 else DTYPES[kind.name].itemsize
        if self._sizes[member] != count * itemsize:
            raise Refused(
                f"says {count} elements of {kind.name} in storage {name}, which has {self._sizes[member]} bytes"
            )
        return _Storage(kind.name, name, count)

    def _tensor(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Tensor:
        plain = isinstance(storage, _Storage) and type(offset) is int and type(size) is tuple and type(stride) is tuple
        if (
            not plain
            or len(size) != len(stride)
            or not all(type(n) is int and 0 <= n < 2**62 for n in (offset, *size, *stride))
            or not plain_shape(size)
        ):
            raise Refused("has a tensor whose shape is not plain")
        if math.prod(size) > storage.count:
            raise Refused(f"has a tensor of shape {size} that repeats its storage of {storage.count} elements")
        last = offset + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        if 0 not in size and last >= storage.count:
            raise Refused(f"has a tensor of shape {size} beyond the end of its storage of {storage.count} elements")
        return Tensor(self, storage.key, storage.kind, storage.count, offset, size, stride)


def _size(lengths: Any) -> tuple[Any, ...]:
    if type(lengths) not in (tuple, list):
        raise Refused("has a size that is no tuple")
    return tuple(lengths)


def _ordered(*pairs: Any) -> dict[Any, Any]:
    if pairs:
        raise Refused("makes an OrderedDict of values, which torch does not")
    return {}


def _dtype(text: Any, *_: Any) -> _DType:
    if type(text) is not str or text not in ("f8", "f4", "f2", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8", "b1"):
        raise Refused("has a type of numpy that is not a plain number")
    return _DType(text)


def _encoded(text: Any, codec: Any) -> bytes:
    if type(text) is not str or codec != "latin1":
        raise Refused("encodes text in another way than torch does")
    return text.encode("latin1")


def _scalar(kind: Any, data: Any) -> Any:
    if not isinstance(kind, _DType) or type(data) is not bytes:
        raise Refused("has a scalar of numpy that is not a plain number")
    order = "<" if kind.order in "|=" else kind.order
    return np.frombuffer(data, np.dtype(order + kind.text))[0].item()
