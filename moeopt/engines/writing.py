"""Maps that engines load, written: the file, the options that make it true, and what it cannot say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moeopt.documents import write_files
from moeopt.engines.base import ExpertMap
from moeopt.engines.job import Job, Piece
from moeopt.engines.layers import LayerFacts
from moeopt.engines.prepare import job_of, missing_facts, subject_of
from moeopt.engines.rules import RULES, TARGETS
from moeopt.errors import InstanceError, Violation, Violations

if TYPE_CHECKING:
    from moeopt.placement.plan_document import ResultDocument

WRITERS = {
    "sglang": "sglang_write",
    "vllm-ascend": "ascend_write",
    "trtllm": "trtllm_write",
    "omni": "omni_write",
    "eplb": "eplb_write",
}
"""The file of this folder in which each engine's ``write`` lies."""

OPTIONS_ENDING = ".options.txt"
"""What is put after the name of a map for the file with the options."""

NO_FILE = {
    "vllm": "loads no map from a file: it starts in order and re-plans by itself. Start it with --enable-eplb "
    "--eplb-config '{\"num_redundant_experts\": R}' and let a policy of moeopt.engines plan inside it"
}
"""Engines that are known and load nothing."""


@dataclass(frozen=True)
class Written:
    """What was written.

    Parameters
    ----------
    files
        Paths: the map, and the options beside it.
    options
        Lines the engine has to be started with.
    warnings
        Sentences to be read before.
    """

    files: tuple[str, ...]
    options: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def missing(plan: ResultDocument | ExpertMap, to: str, llm: Any = None, *, gpus: int | None = None) -> list[str]:
    """What has to be known before `plan` can be written for `to`, each with the reason; empty when nothing is.

    `gpus` is their number, for a map that does not say it.

    >>> import numpy as np
    >>> found = ExpertMap("sglang", np.array([[0, 1]], np.int32), (0,), (1, 1), 2)
    >>> [line.partition(":")[0] for line in missing(found, "trtllm")], missing(found, "eplb")
    (['llm.layers', 'llm.dense_layers'], [])
    """
    known_target(to)
    subject = subject_of(plan, Violations())
    if subject is None:
        return []
    facts = LayerFacts.of(llm if llm is not None else subject.llm)
    return [f"{name}: {why}. {fix}" for name, why, fix in missing_facts(subject, to, facts, gpus)]


def write_map(
    plan: ResultDocument | ExpertMap,
    to: str,
    path: str | Path,
    *,
    llm: Any = None,
    gpus: int | None = None,
    force: bool = False,
) -> Written:
    """Write a plan as the map that an engine loads, and beside it the options that make it true.

    Parameters
    ----------
    plan
        A document from `moeopt.placement.plan_document.read_result`, or a map read from an engine.
    to
        One of `TARGETS`.
    path
        The file to write. ``<path>.options.txt`` gets the options and the warnings; `to` ``moeopt`` has none.
    llm
        Facts of the LLM: from `moeopt.llm`, a mapping with ``layers``, ``dense_layers``, ``experts``, ``mtp_layers``,
        or `LayerFacts`; those in the plan by default.
    gpus
        G, for a map that does not say it.
    force
        Replace files that exist.

    Raises
    ------
    InstanceError
        Something is missing, the engine cannot load this plan, or a file is in the way; all at once, nothing written.

    Examples
    --------
    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> found = ExpertMap("plain", np.array([[0, 1, 1, 2]], np.int32), (0,), (2, 2), 3)
    >>> with TemporaryDirectory() as folder:
    ...     what = write_map(found, "vllm-ascend", Path(folder, "map.json"), llm={"layers": 1, "dense_layers": []})
    >>> [Path(name).name for name in what.files]
    ['map.json', 'map.json.options.txt']
    """
    known_target(to)
    target = str(path)
    _check_ending(target, to)
    piece, warnings = render(plan, to, target, llm=llm, gpus=gpus)
    beside = target + OPTIONS_ENDING
    said = tuple(dict.fromkeys([*warnings, *piece.warnings]))
    files = (target,) if to == "moeopt" else (target, beside)
    contents: dict[str, str | bytes] = {target: piece.content}
    if to != "moeopt":
        contents[beside] = options_text(target, to, piece.options, said)
    write_files(contents, force=force)
    return Written(files, piece.options, said)


def render(
    plan: ResultDocument | ExpertMap, to: str, path: str, *, llm: Any = None, gpus: int | None = None
) -> tuple[Piece, list[str]]:
    """The content of the file, its options and warnings, without writing; `path` is how options name the file."""
    if to == "moeopt":
        from moeopt.engines.own import write_own

        return write_own(plan, path, gpus=gpus), []
    job, warnings = job_of(plan, to, path, llm, gpus)
    writer: Callable[[Job], Piece] = import_module(f"moeopt.engines.{WRITERS[to]}").write
    return writer(job), warnings


def options_text(path: str, to: str, options: tuple[str, ...], warnings: tuple[str, ...]) -> str:
    """The file beside the map: options as they are typed, everything else behind a #.

    >>> print(options_text("map.json", "sglang", ("--ep-size 4",), ("Read this.",)), end="")
    # SGLang, for map.json to be true:
    --ep-size 4
    # warnings:
    # - Read this.
    """
    lines = [f"# {RULES[to].title}, for {Path(path).name} to be true:", *options]
    if warnings:
        lines += ["# warnings:", *(f"# - {warning}" for warning in warnings)]
    return "\n".join(lines) + "\n"


def known_target(to: str) -> None:
    """Refuse a target that is not known, or that loads no file."""
    if to in RULES:
        return
    fix = NO_FILE.get(to.lower())
    rule = fix or f"is no system whose maps are written; known are {', '.join(TARGETS)}"
    raise InstanceError([Violation("to", "", to, rule, "" if fix else "Give one of them (--to)")])


def _check_ending(path: str, to: str) -> None:
    endings = RULES[to].endings
    if Path(path).suffix not in endings:  # engines tell files apart by their endings, letter by letter
        rule = f"must end in {' or '.join(endings)}: {RULES[to].title} reads no other"
        raise InstanceError([Violation("output", "", path, rule, f"Name it {Path(path).stem or 'map'}{endings[0]}")])
