"""One small call of every verb that writes or answers, in the current folder and with relative names only."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from tests.fuzz.kinds import CONFIG, GRID, TINY

STEPS = "batch,time_ms\n1,10\n2,11\n4,13\n8,17\n"
INPUTS = {
    "loads.csv": "layer,a,b,c,d\n0,8,4,2,2\n1,5,0,1,9\n",
    "grid.yaml": GRID,
    "steps.csv": STEPS,
    "llm/config.json": json.dumps(CONFIG),
}
MESH = "--gpu h200:8 --input-tokens 64 --output-tokens 8 --families decode --most-pp 1"
CALLS: dict[str, str] = {
    "place": "place loads.csv --gpus 2 --slots 6 --method lpt -o place.json",
    "place curve": "place loads.csv --gpus 2 --slots-curve --max-redundant 2 --method lpt -o curve.json",
    "route": "route route.json -o routed.json",
    "collocate": "collocate pairs.json --method greedy -o collocated.json",
    "microbatch": "microbatch ping.json -o micro.json",
    "mesh": "mesh mesh.json -o meshed.json",
    "mesh options": f"mesh --hf-config llm/config.json {MESH} -o options.json",
    "compare": "compare loads.csv --gpus 2 --slots 6 --methods lpt,eplb -o c.html,c.md,c.csv,c.tex,c.json",
    "compare route": "compare route.json -o r.html,r.md,r.json",
    "compare collocate": "compare pairs.json --methods greedy,id_order -o p.html,p.md,p.json",
    "compare microbatch": "compare ping.json -o m.html,m.md,m.json",
    "compare mesh": "compare mesh.json -o x.html,x.md,x.json",
    "verify": "verify place.json loads.csv",
    "inspect": "inspect loads.csv place.json",
    "check": "check --experts 8 --slots 8 --gpus 2",
    "convert": "convert place.json --to sglang --layers-total 2 --dense none -o map.json",
    "convert eplb": "convert place.json --to eplb -o map.npz",
    "generate": "generate zipf --layers 2 --experts 4 --top-k 2 --tokens 100 -o made.npz",
    "replay": "replay history.npz --gpus 2 --slots 6 --first lpt --policies keep,eplb -o h.html,h.md,h.json",
    "bench": "bench grid.yaml -o cells --table table.md",
    "calibrate": "calibrate steps.csv -o constants.json",
    "export": "export loads.csv --gpus 2 --slots 6 --layer 0 --format lp -o model.lp",
    "info": "info methods",
}


def prepare(folder: Path) -> None:
    """Put what the calls read into a folder."""
    for name, text in INPUTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    np.savez(folder / "history.npz", loads=np.random.default_rng(0).integers(1, 99, (4, 2, 4)))
    for name, source in (
        ("route.json", TINY / "routing" / "pair.json"),
        ("pairs.json", TINY / "collocation" / "two_pairs.json"),
        ("ping.json", TINY / "microbatch" / "ping_pong.json"),
        ("mesh.json", TINY / "mesh" / "pair.json"),
    ):
        shutil.copy(source, folder / name)
