"""Options of ``moeopt mesh``: the GPUs there are, what is asked of them, what may be chosen."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

FLEET, ASKED, CHOICE, SIMULATING = "GPUs", "What is asked", "What may be chosen", "Simulation"


@dataclass(frozen=True)
class Fleet:
    """Types of GPU, how many of each, and what they cost."""

    gpu: Annotated[
        list[str] | None,
        typer.Option(
            "--gpu",
            metavar="NAME[:COUNT[:PRICE]]",
            help="A type of GPU (moeopt info gpus), as h800, h20:64 or h20:64:1.85; again for more types.",
            rich_help_panel=FLEET,
        ),
    ] = None
    gpus: Annotated[
        int | None, typer.Option("--gpus", help="How many there are, where one type is given.", rich_help_panel=FLEET)
    ] = None
    price: Annotated[
        str | None,
        typer.Option("--price", help="Of one GPU per time, as 2.5, or h20=1.85,l40s=1.08.", rich_help_panel=FLEET),
    ] = None
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="NAME|FILE,...",
            help="Instead of --gpu a reference cluster (4x8-h100); or beside it topology files. Its links count.",
            rich_help_panel=FLEET,
        ),
    ] = None
    node_gpus: Annotated[
        int | None, typer.Option("--node-gpus", help="GPUs of one server, where unusual.", rich_help_panel=FLEET)
    ] = None
    roles: Annotated[
        str | None,
        typer.Option(
            "--roles",
            help="Part to type of GPU: attention=h20,experts=l40s, or prefill=h800,decode=h20. Nothing serves the same "
            "elsewhere; the best colocated stands beside the answer.",
            rich_help_panel=FLEET,
        ),
    ] = None
    usable: Annotated[
        float | None,
        typer.Option("--usable", help="Part of memory for weights and caches (0.9).", rich_help_panel=FLEET),
    ] = None
    reserve: Annotated[
        str | None,
        typer.Option("--reserve", help="Kept free besides on each GPU, as 4GB.", rich_help_panel=FLEET),
    ] = None
    calibration: Annotated[
        str | None,
        typer.Option(
            "--calibration",
            metavar="FILE",
            help="Constants that moeopt calibrate fitted to measurements.",
            rich_help_panel=FLEET,
        ),
    ] = None


@dataclass(frozen=True)
class Asked:
    """Lengths of requests, their rate, and service levels."""

    demand: Annotated[
        list[str] | None,
        typer.Option(
            "--demand",
            metavar="KEY=VALUE,...",
            help="One of several LLMs or workloads: llm=mixtral-8x7b,rate=5,input-tokens=4k,ttft=2s, by the names of "
            "the options, which hold where it is silent; again for the next.",
            rich_help_panel=ASKED,
        ),
    ] = None
    input_tokens: Annotated[
        str | None,
        typer.Option("--input-tokens", help="Tokens of a prompt, mean, as 4000, 4k or 4Ki (4000).",
                     rich_help_panel=ASKED),
    ] = None  # fmt: skip
    output_tokens: Annotated[
        str | None, typer.Option("--output-tokens", help="Tokens of an answer, mean (1000).", rich_help_panel=ASKED)
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            help="Instead of --input-tokens: mean tokens of context while decoding, prompt and half of the answer.",
            rich_help_panel=ASKED,
        ),
    ] = None
    cached: Annotated[
        float, typer.Option("--cached", help="Part of prompt tokens that hit a cache, as 0.56.", rich_help_panel=ASKED)
    ] = 0.0
    rate: Annotated[
        float | None, typer.Option("--rate", help="Requests a second that must be served.", rich_help_panel=ASKED)
    ] = None
    ttft: Annotated[
        str | None, typer.Option("--ttft", help="Most time to the first token, mean, as 2s.", rich_help_panel=ASKED)
    ] = None
    tpot: Annotated[
        str | None,
        typer.Option("--tpot", help="Most time a token after the first, mean of a request, as 50ms.",
                     rich_help_panel=ASKED),
    ] = None  # fmt: skip
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="gpus, price, goodput or time. With --rate the fewest or cheapest GPUs, else goodput of those given.",
            rich_help_panel=ASKED,
        ),
    ] = None


@dataclass(frozen=True)
class Choice:
    """Which candidates are looked at."""

    families: Annotated[
        str | None,
        typer.Option(
            "--families",
            help="colocated, pools (prefill and decode), apart (attention and experts), long, or all.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="Only what vllm, sglang or trtllm can launch.", rich_help_panel=CHOICE),
    ] = None
    dtype: Annotated[
        str | None,
        typer.Option("--dtype", help="Weights and arithmetic: bf16, fp8 or fp4 (as the LLM has).",
                     rich_help_panel=CHOICE),
    ] = None  # fmt: skip
    kv: Annotated[
        str | None,
        typer.Option("--kv", help="Formats of the cache to look at, as bf16,fp8.", rich_help_panel=CHOICE),
    ] = None
    most_pp: Annotated[
        int | None, typer.Option("--most-pp", help="Pipeline stages at most (8).", rich_help_panel=CHOICE)
    ] = None
    most_batch: Annotated[
        int | None,
        typer.Option("--most-batch", help="Sequences of a data-parallel rank at most (4096).", rich_help_panel=CHOICE),
    ] = None
    redundant: Annotated[
        str | None,
        typer.Option("--redundant", help="Numbers of redundant experts to look at, as 0,32.", rich_help_panel=CHOICE),
    ] = None
    transport: Annotated[
        str | None,
        typer.Option(
            "--transport",
            help="auto, deepep-normal, deepep-ll, nvl-domain, allgather; or none, which counts no buffers.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    loads: Annotated[
        str | None,
        typer.Option(
            "--loads",
            metavar="FILE",
            help="Recorded expert loads: how uneven ranks are (default: loads shipped with moeopt).",
            rich_help_panel=CHOICE,
        ),
    ] = None
    imbalance: Annotated[
        str | None,
        typer.Option(
            "--imbalance",
            help="Instead: the busiest rank over the mean, as 1.2; even; or shipped loads: mixed, one-domain.",
            rich_help_panel=CHOICE,
        ),
    ] = None
    drafts: Annotated[
        str | None,
        typer.Option(
            "--drafts", help="Tokens a step yields with 1, 2, ... drafted ones, as 1.8,2.4,2.9.", rich_help_panel=CHOICE
        ),
    ] = None


@dataclass(frozen=True)
class Simulating:
    """The plan beside requests that come at random."""

    simulate: Annotated[
        bool,
        typer.Option("--simulate", help="Also the rate at which requests that come at random keep both levels.",
                     rich_help_panel=SIMULATING),
    ] = False  # fmt: skip
    attainment: Annotated[
        float | None,
        typer.Option("--attainment", help="With --simulate: part of requests that has to (0.9).",
                     rich_help_panel=SIMULATING),
    ] = None  # fmt: skip
    requests: Annotated[
        int | None,
        typer.Option("--requests", help="With --simulate: requests of each replica that count (2000).",
                     rich_help_panel=SIMULATING),
    ] = None  # fmt: skip


@dataclass(frozen=True)
class Curving:
    """Other service levels."""

    slo_curve: Annotated[
        bool,
        typer.Option(
            "--slo-curve",
            help="Also the best plan at half to twice the TPOT and the TTFT; -o draws that (.svg, .png).",
            rich_help_panel=ASKED,
        ),
    ] = False


def given(*groups: Any) -> list[str]:
    """Names of options that differ from their defaults, as they are typed."""
    return [
        "--" + item.name.replace("_", "-")
        for group in groups
        for item in fields(group)
        if getattr(group, item.name) != item.default
    ]
