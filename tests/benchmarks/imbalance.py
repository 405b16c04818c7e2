"""The table of imbalance that is shipped with the mesh, from the loads in ``instances/published``; about two minutes.

    python -m tests.benchmarks.imbalance [--write]

Without ``--write`` it says where the shipped table differs from what it finds.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from moeopt.documents import write_file
from moeopt.mesh.imbalance import SHIPPED, Imbalance
from moeopt.report.imbalance import imbalance_table
from moeopt.workload import read_loads

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = ROOT / "instances" / "published"
TARGET = ROOT / "moeopt" / "mesh" / SHIPPED
TASKS = ("intent", "law", "summary", "translation")
DOMAINS = ("arxiv", "book", "c4", "github", "wikipedia")
SIZES = (256, 8, 16, 32, 64, 128, 160, 384, 512, 896)
"""Experts of the tables; the first is what stands where nobody says a number."""
TRAFFIC = {
    "mixed": "all {what} at once, replicas fitted to them",
    "one-domain": "one placement for all {what}, each served alone, mean of them",
}


def loads_of(experts: int) -> tuple[np.ndarray, str, str]:
    """Windows (W, L, E), the LLM they are of, and what a window is."""
    if experts == 8:
        path = PUBLISHED / "mixtral_8x7b_counts.npz"
        return np.stack([read_loads(path, key=key).loads for key in DOMAINS]), "Mixtral 8x7B (allenai/OLMoE)", "domains"
    tables = [read_loads(PUBLISHED / f"deepseek_v2_lite_{task}.csv").loads for task in TASKS]
    return np.stack(tables), "DeepSeek-V2-Lite (deepseek-ai/ESFT)", "tasks"


def table(traffic: str, experts: int, degrees: list[int] | None = None) -> Imbalance:
    """One table."""
    loads, llm, what = loads_of(experts)
    source = f"{llm}, {len(loads)} {what}: {TRAFFIC[traffic].format(what=what)}"
    return imbalance_table(loads, source=source, experts=experts, together=traffic == "mixed", degrees=degrees)


def document() -> dict[str, object]:
    """The whole file."""
    tables = {}
    for traffic in TRAFFIC:
        first, *others = [table(traffic, experts) for experts in SIZES]
        tables[traffic] = Imbalance(first.source, first.rows, first.experts, tuple(others)).to_dict()
    return {"made_by": "python -m tests.benchmarks.imbalance --write", "traffic": tables}


def written(found: dict[str, object]) -> str:
    """The file: one table a line."""
    lines = []
    for traffic, one in found["traffic"].items():  # type: ignore[attr-defined]
        others = ",\n      ".join(json.dumps(other) for other in one.pop("others"))
        head = json.dumps(one)[:-1]
        lines.append(f'    {json.dumps(traffic)}: {head}, "others": [\n      {others}\n    ]}}')
    body = ",\n".join(lines)
    return f'{{\n  "made_by": {json.dumps(found["made_by"])},\n  "traffic": {{\n{body}\n  }}\n}}\n'


def main() -> int:
    """Make the table, and write it or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    text = written(document())
    if parser.parse_args().write:
        write_file(TARGET, text, force=True)
        print(f"{TARGET.relative_to(ROOT)}: {len(text):,} bytes")
        return 0
    same = TARGET.read_text(encoding="utf-8") == text
    print("the shipped table is what these loads give" if same else "the shipped table differs: --write replaces it")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
