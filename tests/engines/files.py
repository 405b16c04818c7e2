"""Files of engines written byte by byte, without torch or any engine: what their own code would have left behind.

`torch_file` writes a `.pt` as `torch.save` does (a zip with a pickle of protocol 2 and one member a storage), and
`safetensors_file` a `.safetensors`. The others build one engine's content with these.
"""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORAGES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
}
SAFE_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8"}


@dataclass(frozen=True)
class View:
    """A tensor that shows a part of its storage; `claim` stands in for the stored number of elements."""

    storage: NDArray[Any]
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    location: str = "cpu"
    storage_type: str | None = None
    claim: int | None = None


@dataclass(frozen=True)
class Raw:
    """Opcodes put into a pickle as they are: what a hostile file has."""

    opcodes: bytes


class Pickled:
    """A pickle of protocol 2 in the opcodes that `torch.save` uses, and the storages it names."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.storages: list[NDArray[Any]] = []
        self.memo = 0

    def remember(self) -> None:
        self.out += b"q" + bytes([self.memo]) if self.memo < 256 else b"r" + struct.pack("<I", self.memo)
        self.memo += 1

    def text(self, text: str) -> None:
        data = text.encode()
        self.out += b"X" + struct.pack("<I", len(data)) + data
        self.remember()

    def named(self, module: str, name: str) -> None:
        self.out += b"c" + module.encode() + b"\n" + name.encode() + b"\n"
        self.remember()

    def put(self, value: Any) -> None:
        if isinstance(value, Raw):
            self.out += value.opcodes
        elif isinstance(value, np.ndarray):
            strides = tuple(step // value.itemsize for step in np.ascontiguousarray(value).strides)
            self.tensor(View(np.ascontiguousarray(value).reshape(-1), 0, value.shape, strides))
        elif isinstance(value, View):
            self.tensor(value)
        elif isinstance(value, np.generic):
            self.scalar(value)
        elif value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self.whole(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, OrderedDict):
            self.named("collections", "OrderedDict")
            self.out += b")R"
            self.remember()
            self.items(value)
        elif isinstance(value, Mapping):
            self.out += b"}"
            self.remember()
            self.items(value)
        elif isinstance(value, list):
            self.out += b"]"
            self.remember()
            if value:
                self.out += b"("
                for item in value:
                    self.put(item)
                self.out += b"e"
        elif isinstance(value, tuple):
            self.tuple(value)
        else:
            raise TypeError(type(value))

    def items(self, value: Mapping[Any, Any]) -> None:
        if value:
            self.out += b"("
            for key, item in value.items():
                self.put(key)
                self.put(item)
            self.out += b"u"

    def tuple(self, value: Sequence[Any]) -> None:
        if not value:
            self.out += b")"
            return
        if len(value) > 3:
            self.out += b"("
        for item in value:
            self.put(item)
        self.out += {1: b"\x85", 2: b"\x86", 3: b"\x87"}.get(len(value), b"t")
        self.remember()

    def whole(self, value: int) -> None:
        if 0 <= value < 256:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 65536:
            self.out += b"M" + struct.pack("<H", value)
        elif -(2**31) <= value < 2**31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            data = value.to_bytes((value.bit_length() + 8) // 8, "little", signed=True)
            self.out += b"\x8a" + bytes([len(data)]) + data

    def tensor(self, view: View) -> None:
        self.named("torch._utils", "_rebuild_tensor_v2")
        self.out += b"(("
        self.text("storage")
        self.named("torch", view.storage_type or STORAGES[view.storage.dtype.name])
        self.text(str(len(self.storages)))
        self.text(view.location)
        self.whole(view.storage.size if view.claim is None else view.claim)
        self.out += b"t"
        self.remember()
        self.out += b"Q"
        self.storages.append(view.storage)
        self.whole(view.offset)
        self.tuple(view.size)
        self.tuple(view.stride)
        self.out += b"\x89"
        self.named("collections", "OrderedDict")
        self.out += b")R"
        self.remember()
        self.out += b"t"
        self.remember()
        self.out += b"R"
        self.remember()

    def scalar(self, value: np.generic) -> None:
        self.named("numpy.core.multiarray", "scalar")
        self.named("numpy", "dtype")
        self.text(value.dtype.str[1:])
        self.out += b"\x89\x88\x87R(K\x03"
        self.text("<")
        self.out += b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        self.named("_codecs", "encode")
        self.text(value.tobytes().decode("latin1"))
        self.text("latin1")
        self.out += b"\x86R\x86R"
        self.remember()


def torch_bytes(value: Any, *, name: str = "archive", byteorder: str | None = "little") -> bytes:
    """The bytes of a `.pt` file that holds `value`; arrays of numpy stand for tensors."""
    pickled = Pickled()
    pickled.put(value)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(f"{name}/data.pkl", bytes(pickled.out) + b".")
        if byteorder is not None:
            archive.writestr(f"{name}/byteorder", byteorder)
        for index, storage in enumerate(pickled.storages):
            archive.writestr(f"{name}/data/{index}", storage.tobytes())
        archive.writestr(f"{name}/version", "3\n")
    return file.getvalue()


def torch_file(path: Path, value: Any, **options: Any) -> Path:
    """Write `value` as `torch.save` would, under the name of the file as newer versions do."""
    path.write_bytes(torch_bytes(value, **{"name": path.stem or "archive", **options}))
    return path


def safetensors_file(path: Path, tensors: Mapping[str, NDArray[Any]], *, metadata: Any = None) -> Path:
    """Write a `.safetensors`: eight bytes of length, a JSON header, the tensors one behind the other."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    body = b""
    for key, array in tensors.items():
        data = np.ascontiguousarray(array).tobytes()
        kind = SAFE_NAMES[array.dtype.name]
        header[key] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def sglang_stat(path: Path, counts: NDArray[Any], rank: int = 0) -> Path:
    """SGLang's recorder in mode `stat` or `stat_approx`: `counts` (T, L, E)."""
    return torch_file(
        path, {"rank": rank, "logical_count": counts.astype(np.int32), "average_utilization_rate_over_window": None}
    )


def sglang_records(
    path: Path,
    physical: NDArray[Any],
    slot_expert: NDArray[Any],
    *,
    rank: int = 0,
    ids: Sequence[NDArray[Any]] | None = None,
    first_pass: int = 5,
) -> Path:
    """SGLang's recorder in mode `per_pass`, or `per_token` with `ids`.

    `physical` (T, L, S) counts of each pass, `slot_expert` (L, S), `ids` one (L, tokens, k) a pass.
    """
    records = []
    for step, counts in enumerate(physical):
        record: dict[str, Any] = {"forward_pass_id": first_pass + step, "rank": rank, "gatherer_key": "primary"}
        if ids is not None:
            tokens = ids[step].shape[1]
            record |= {
                "input_ids": list(range(tokens)),
                "positions": list(range(tokens)),
                "extend_seq_lens": [tokens],
                "forward_mode": 1,
                "topk_ids_of_layer": ids[step].astype(np.int32),
                "misc_objects": [],
            }
        record["global_physical_count"] = counts.astype(np.int32)
        records.append(record)
    return torch_file(path, {"records": records, "last_physical_to_logical_map": slot_expert.astype(np.int64)})


def physical_counts(ids: NDArray[Any], num_slots: int) -> NDArray[np.int64]:
    """(L, S) counts of (L, tokens, k) slots, -1 left out."""
    rows = [np.bincount(row[row >= 0].reshape(-1), minlength=num_slots) for row in ids]
    return np.stack(rows)


def vllm_log(path: Path, ids: Mapping[int, NDArray[Any]], *, model: str = "some/llm") -> Path:
    """The JSON lines of the MoE logger: a `meta` line, then a `route` line a token and layer."""
    top_k = next(iter(ids.values())).shape[1]
    lines = [{"type": "meta", "model_id": model, "layers_logged": sorted(ids), "top_k": top_k, "seed": 1}]
    for layer, rows in ids.items():
        for token, row in enumerate(rows.tolist()):
            lines.append(
                {
                    "type": "route",
                    "req_id": "r1",
                    "token_idx": token,
                    "layer": layer,
                    "topk_ids": row,
                    "topk_weights": [1.0] * top_k,
                }
            )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def trtllm_statistics(
    folder: Path, counts: Mapping[tuple[int, int], NDArray[Any]], *, top_k: int, ranks: int = 2
) -> Path:
    """TensorRT-LLM's folder: `counts` by (iteration, layer), dealt over the ranks."""
    folder.mkdir(exist_ok=True)
    experts = len(next(iter(counts.values())))
    (folder / "meta_info.json").write_text(json.dumps({"num_experts": experts, "num_experts_per_token": top_k}))
    for rank in range(ranks):
        parts = {}
        for (step, layer), row in counts.items():
            part = row // ranks + (row % ranks if rank == 0 else 0)
            parts[f"{step}_{layer}"] = part.astype(np.int64)
        safetensors_file(folder / f"rank{rank}.safetensors", parts)
    return folder


def trtllm_map(path: Path, slot_expert: NDArray[Any], layers: Sequence[int]) -> Path:
    """TensorRT-LLM's YAML as its own script writes it: keys in order of the alphabet, rows inline."""
    rows = [f"  {layer}: {row.tolist()}" for layer, row in zip(layers, slot_expert, strict=True)]
    text = ["initial_global_assignments:", *rows, "layer_updates_per_iter: 0", f"num_slots: {slot_expert.shape[1]}"]
    path.write_text("\n".join(text) + "\n")
    return path


def ascend_map(path: Path, slot_expert: NDArray[Any], gpus: int, layers: Sequence[int] | None = None) -> Path:
    """vLLM-Ascend's expert map."""
    ids = range(len(slot_expert)) if layers is None else layers
    listed = [
        {
            "layer_id": layer,
            "device_count": gpus,
            "device_list": [
                {"device_id": gpu, "device_expert": part.tolist()} for gpu, part in enumerate(np.split(row, gpus))
            ],
        }
        for layer, row in zip(ids, slot_expert, strict=True)
    ]
    path.write_text(json.dumps({"moe_layer_count": len(listed), "layer_list": listed}, indent=4))
    return path


def omni_pattern(path: Path, slot_expert: NDArray[Any], gpus: int, experts: int) -> Path:
    """Omni's cube of 0 and 1: (devices, layers, experts)."""
    cube = np.zeros((gpus, len(slot_expert), experts), dtype=np.int32)
    for layer, row in enumerate(slot_expert):
        for gpu, part in enumerate(np.split(row, gpus)):
            cube[gpu, layer, part[part >= 0]] = 1
    np.save(path, cube)
    return path


def omni_counts(folder: Path, counts: NDArray[Any], ranks: int = 1) -> Path:
    """Omni's folder of activation dumps: `counts` (T, L, E), a file a step and rank."""
    folder.mkdir(exist_ok=True)
    for step, table in enumerate(counts):
        for rank, part in enumerate(np.split(table, ranks, axis=1)):
            text = "".join("".join(f"{value}\t" for value in row) + "\n" for row in part.tolist())
            (folder / f"activation_counts_recordstep_{step + 1}_rank_{rank}.txt").write_text(text)
    return folder


def eplb_tensors(slot_expert: NDArray[Any], num_experts: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What the public rule returns for a map: `phy2log`, `log2phy` padded with -1, `logcnt`."""
    counts = np.stack([np.bincount(row, minlength=num_experts) for row in slot_expert])
    places = np.full((len(slot_expert), num_experts, int(counts.max())), -1, dtype=np.int64)
    for layer, row in enumerate(slot_expert):
        for expert in range(num_experts):
            slots = np.flatnonzero(row == expert)
            places[layer, expert, : len(slots)] = slots
    return slot_expert.astype(np.int64), places, counts.astype(np.int64)


Writer = Callable[..., Path]
