"""One small good file of every kind that is read, and the calls that read it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from moeopt.cli import main
from tests.calibrate.tables import as_csv, moe_perf, nccl_perf
from tests.engines.test_damaged_files import WRITERS as ENGINES

ROOT = Path(__file__).parents[2]
TINY = ROOT / "instances" / "tiny"
TOPOLOGIES = ROOT / "tests" / "data" / "topologies"
CODES = (0, 2, 3, 5)
"""Done, bad input, infeasible, a fault of the plan; anything else is a fault of ours, or no answer."""


@dataclass(frozen=True)
class Kind:
    """`make` writes a file into a folder; `verbs` are command lines, ``@`` is the file and ``%`` the folder."""

    make: Callable[[Path], Path]
    verbs: tuple[str, ...] = ("inspect @",)
    calls: tuple[Callable[[Path], Any], ...] = ()


def run(*words: object) -> tuple[int, str]:
    """Exit code and everything said, in this process."""
    out, err = _stream(), _stream()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(word) for word in words])
    return code, _said(out) + _said(err)


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True)  # some verbs write bytes


def _said(stream: io.TextIOWrapper) -> str:
    return stream.buffer.getvalue().decode("utf-8", "replace")  # type: ignore[attr-defined]


def _copy(path: Path) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / path.name).write_bytes(path.read_bytes())
        return folder / path.name

    return make


def _text(name: str, text: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (folder / name).write_text(text)
        return folder / name

    return make


def _by(line: str, *before: Callable[[Path], Path]) -> Callable[[Path], Path]:
    """What a verb writes; ``%`` is the folder."""

    def make(folder: Path) -> Path:
        for one in before:
            one(folder)
        code, said = run(*line.replace("%", str(folder)).split(), "-o", folder / "made.json", "-q")
        assert code == 0, said
        return folder / "made.json"

    return make


LOADS = _text("loads.csv", "layer,a,b,c,d\n3,8,4,2,2\n7,5,0,1,9\n")
DRAWN = "{generator: zipf, alpha: 1.5, layers: 1, experts: 4, top_k: 2, tokens: 100}"
GRID = f"policies: [lpt]\nshapes: {{g2: {{gpus: 2, slots: 4}}}}\nloads: {{steep: {DRAWN}}}\nseeds: [0]\n"


def _cell(folder: Path) -> Path:
    from moeopt.bench import read_grid, run_grid

    (folder / "grid.yaml").write_text(GRID)
    run_grid(read_grid(folder / "grid.yaml"), folder / "cells")
    return next((folder / "cells").glob("*.json"))


def _cells(path: Path) -> object:
    from moeopt.bench import pivot, read_cells

    return pivot(read_cells(path.parent), ["policy"], "imbalance_mean")


def _grid(path: Path) -> object:
    from moeopt.bench import read_grid

    return read_grid(path)


def _calibration(path: Path) -> object:
    from moeopt.calibrate import read_calibration

    return read_calibration(path)


def _config(path: Path) -> object:
    from moeopt.llm import read_config

    return read_config(path)


def _history(folder: Path) -> Path:
    np.savez(folder / "history.npz", loads=np.random.default_rng(0).integers(1, 99, (4, 2, 4)))
    return folder / "history.npz"


def _array(name: str, **arrays: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / name
        np.save(path, arrays["loads"]) if path.suffix == ".npy" else np.savez(path, **arrays)
        return path

    return make


def _parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"layer": [3, 3, 7, 7], "expert": [0, 1, 0, 1], "count": [5, 6, 7, 8]}
    pq.write_table(pa.table(columns), folder / "loads.parquet")
    return folder / "loads.parquet"


CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v3", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1, "intermediate_size": 512,
    "moe_intermediate_size": 256, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "n_group": 2, "topk_group": 1, "q_lora_rank": 64, "kv_lora_rank": 128, "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16, "v_head_dim": 32, "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16",
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}, "vocab_size": 1024,
}  # fmt: skip
ARRAY = np.arange(1, 9).reshape(2, 4)
SHAPE = "--gpus 2 --slots 4 --method lpt -q"
TABLES = {
    "moe": as_csv(moe_perf()[:40]),
    "nccl": as_csv(nccl_perf()[:40]),
    "steps": "batch,time_ms\n1,10\n2,11\n4,13\n8,17\n",
}
SAMPLES = [
    "cost_2x2.csv",
    "hwloc_two_gpus.xml",
    "ib_rails.txt",
    "k8s_aws.json",
    "k8s_topograph.yaml",
    "nccl_h100_a.xml",
    "slurm_tree.conf",
    "slurm_tree.yaml",
    "slurm_block.yaml",
    "smi_nvswitch_rails.txt",
    "smi_p2p.txt",
    "topograph_model.yaml",
]
STEPS = "batch,time_ms\n1,10\n2,11\n4,13\n8,17\n"
TRACE = {"topk_ids": np.array([[[0, 1], [2, 3], [1, 2]]]), "layers": np.array([3]), "token_idx": np.arange(3)}
LONG = "layer,expert,count\n0,0,5\n0,1,6.5\n3,0,2\n3,1,1\n"
NAMED = {"loads": [[1, 2], [3, 4]], "layers": [3, 5], "steps": 4, "names": ["a", "b"]}
PAIRS, PING = TINY / "collocation" / "two_pairs.json", TINY / "microbatch" / "ping_pong.json"
BY_GRID = {
    "policies": ["lpt"],
    "shapes": {"g2": {"gpus": 2, "slots": 4}},
    "loads": {"one": {"generator": "zipf", "layers": 1, "experts": 4, "top_k": 2}},
    "seeds": [0],
    "limits": {"iterations": 3},
}
CONVERT = "convert @ --to sglang --layers-total 8 --dense none -o -"
AGAIN = "place %/loads.csv --gpus 2 --slots 6 --method lpt -q --current @"
PLAN = _by("place %/loads.csv --gpus 2 --slots 6 --method lpt", LOADS)
KINDS: dict[str, Kind] = {
    "loads csv": Kind(LOADS, ("inspect @", f"place @ {SHAPE}")),
    "loads long csv": Kind(_text("long.csv", LONG)),
    "loads json": Kind(_text("loads.json", json.dumps(NAMED))),
    "loads npy": Kind(_array("loads.npy", loads=ARRAY)),
    "loads npz": Kind(_array("loads.npz", loads=ARRAY, layers=np.array([1, 2]))),
    "loads parquet": Kind(_parquet),
    "history": Kind(_history, ("inspect @", "replay @ --gpus 2 --slots 6 --first lpt --policies keep -q")),
    "token ids": Kind(
        _array("trace.npz", **TRACE), ("inspect @", "collocate @ --cluster 2x4-h100 --method id_order -q")
    ),
    "placement instance": Kind(_copy(TINY / "replicas.json")),
    "placement plan": Kind(PLAN, ("verify @", "verify @ %/loads.csv", "inspect @", CONVERT, AGAIN)),
    "routing instance": Kind(_copy(TINY / "routing" / "pair.json"), ("inspect @", "route @ -q")),
    "routing result": Kind(_by(f"route {TINY / 'routing' / 'pair.json'}"), ("verify @", "inspect @")),
    "collocation instance": Kind(_copy(TINY / "collocation" / "two_pairs.json")),
    "collocation result": Kind(
        _by(f"collocate {PAIRS} --method greedy"), ("verify @", "inspect @", f"verify @ {PAIRS}")
    ),
    "microbatch instance": Kind(_copy(TINY / "microbatch" / "ping_pong.json")),
    "microbatch result": Kind(_by(f"microbatch {PING}"), ("verify @", "inspect @", f"verify @ {PING}")),
    "mesh instance": Kind(_copy(TINY / "mesh" / "pair.json")),
    "mesh result": Kind(
        _by(f"mesh {TINY / 'mesh' / 'pair.json'}"), ("verify @", "inspect @", f"verify @ {TINY / 'mesh' / 'pair.json'}")
    ),
    "replay result": Kind(
        _by("replay %/history.npz --gpus 2 --slots 6 --first lpt --policies keep,eplb", _history),
        ("verify @ %/history.npz", "verify @", "inspect @"),
    ),
    "bench grid": Kind(_text("grid.yaml", GRID), (), (_grid,)),
    "bench grid json": Kind(_text("grid.json", json.dumps(BY_GRID)), (), (_grid,)),
    "bench cell": Kind(_cell, (), (_cells,)),
    "config.json": Kind(
        _text("config.json", json.dumps(CONFIG)), ("check --hf-config @ --gpus 2 --slots 8 -q",), (_config,)
    ),
    **{f"table {name}": Kind(_text(f"{name}.csv", text), ("calibrate @ -q",)) for name, text in TABLES.items()},
    "calibration": Kind(
        _by("calibrate %/steps.csv", _text("steps.csv", TABLES["steps"])), ("inspect @",), (_calibration,)
    ),
    **{
        f"engine {name}": Kind(make, ("inspect @", "verify @ --gpus 2", "convert @ --to moeopt --gpus 2 -o -"))
        for name, make in ENGINES.items()
    },
    **{f"topology {name}": Kind(_copy(TOPOLOGIES / name)) for name in SAMPLES},
}
