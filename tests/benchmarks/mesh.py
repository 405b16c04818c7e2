"""Questions that people put to planners: seconds and memory of the whole command, and of the answer itself.

``python -m tests.benchmarks.mesh [--only TEXT]``: each question is a process of its own, as a person starts it. The
first three columns are of the process, start-up and printing included: by the clock, on the processor, and at its
largest; the last is what the answer says it took. Where others use the machine too, the second is the steadiest.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import moeopt

V3 = "--llm deepseek-v3"
QUESTIONS = {
    "32 H200": f"{V3} --gpu h200 --gpus 32 --input-tokens 4000 --output-tokens 1000 --ttft 2s --tpot 50ms",
    "16 H100, Qwen3": "--llm qwen3-235b-a22b --dtype fp8 --gpu h100 --gpus 16 --input-tokens 4000 --tpot 30ms",
    "72 GB200": f"{V3} --gpu gb200 --gpus 72 --input-tokens 4000 --tpot 30ms",
    "64 B200, FP4": f"{V3} --dtype fp4 --gpu b200 --gpus 64 --input-tokens 8000 --tpot 20ms",
    "8 H200, Mixtral": "--llm mixtral-8x7b --gpu h200 --gpus 8 --input-tokens 2048 --output-tokens 512 --tpot 30ms",
    "16 H200, 8x22B": "--llm mixtral-8x22b --gpu h200 --gpus 16 --input-tokens 571 --output-tokens 159 --tpot 150ms",
    "32 H200, SGLang": f"{V3} --gpu h200 --gpus 32 --input-tokens 4000 --engine sglang --ttft 2s --tpot 50ms",
    "144 H200, SGLang": f"{V3} --gpu h200 --gpus 144 --input-tokens 4000 --engine sglang --ttft 2s --tpot 50ms",
    "32 H200, apart": f"{V3} --gpu h200 --gpus 32 --input-tokens 4000 --families apart --tpot 50ms",
    "32 H200, Qwen3": "--llm qwen3-235b-a22b --dtype fp8 --gpu h200 --gpus 32 --input-tokens 4000 --tpot 30ms",
    "32 H100, 8x22B": "--llm mixtral-8x22b --gpu h100 --gpus 32 --input-tokens 571 --output-tokens 159 --tpot 150ms",
    "8 H100, gpt-oss": "--llm gpt-oss-120b --gpu h100 --gpus 8 --input-tokens 1024 --output-tokens 1024 --tpot 30ms",
    "8 H100, too few": f"{V3} --gpu h100 --gpus 8 --input-tokens 4000 --ttft 500ms --tpot 10ms",
    "20 requests/s": f"{V3} --gpu h200 --rate 20 --input-tokens 4000 --ttft 2s --tpot 50ms",
    "320 H800": f"{V3} --gpu h800 --gpus 320 --context 4096 --tpot 50ms",
    "H20 and L40S": "--llm mixtral-8x22b --gpu h20::1.85 --gpu l40s::1.08 --roles attention=h20,experts=l40s --rate 50",
}


def asked(words: str) -> tuple[float, float, float, float | None]:
    """Seconds by the clock and on the processor and megabytes of the process; seconds of the answer if there is one."""
    begun = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "moeopt", "mesh", *words.split(), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert child.stdout is not None
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    took = time.perf_counter() - begun
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 3), code
    answer = json.loads(said)["runtime_s"] if code == 0 else None
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, answer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="questions whose name contains this")
    compileall.compile_dir(str(Path(moeopt.__file__).parent), quiet=1)  # as installing does, and only once
    only = parser.parse_args().only
    print(f"{'question':20}{'command s':>12}{'CPU s':>8}{'MB':>8}{'answer s':>12}")
    for name, words in QUESTIONS.items():
        if only in name:
            took, busy, size, answer = asked(words)
            print(
                f"{name:20}{took:12.2f}{busy:8.2f}{size:8.0f}"
                + (f"{answer:12.2f}" if answer is not None else f"{'none':>12}")
            )


if __name__ == "__main__":
    main()
