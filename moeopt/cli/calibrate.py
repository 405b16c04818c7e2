"""Fit the constants of kernels, collectives and steps to measurements, or replay whole runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from moeopt.cli.options import Json
from moeopt.cli.say import Say
from moeopt.cli.verb import DONE, verb
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.calibrate import Calibration, Replay, Table
    from moeopt.calibrate.fit import Errors

EXAMPLE = """Example:

moeopt calibrate moe_perf.parquet nccl_perf.parquet --gpu H200 -o h200.json

moeopt calibrate steps.csv --json

moeopt calibrate silicon_sample.csv --constants h200.json

moeopt calibrate silicon_sample.csv --predict mine.model:predict"""


@verb
def calibrate(
    say: Say,
    json: Json,
    tables: Annotated[
        list[str],
        typer.Argument(
            metavar="TABLE...",
            help="CSV, JSON or Parquet, told by its columns: tokens, hidden, width, experts, top_k and a time (moe_tp, "
            "ep, dtype, gpu, engine if known); op, ranks, bytes and a time; batch and a time (context, config if "
            "known); or moe_perf, nccl_perf or silicon_sample of aiconfigurator. Times are time_s, time_ms or time_us.",
        ),
    ],
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="The GPU that was measured, where a table does not say it.")
    ] = None,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            metavar="MODULE:FUNCTION",
            help="Replay whole runs by this function of a run, seconds of TTFT and TPOT (the model of the mesh).",
        ),
    ] = None,
    constants: Annotated[
        str | None,
        typer.Option("--constants", metavar="FILE", help="Replay whole runs by the mesh with these constants."),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write the constants to a .json file.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
) -> int:
    """Fit constants to measurements: residuals, range and source stand beside them.

    A kernel takes t = F / (e_f peak I / (I + I_h)) + bytes / (e_b BW) + c, a collective alpha + bytes / beta, a step
    fixed + a batch + b batch context. Whole runs give no constants: they are replayed, and the errors of the model and
    the price of its choices are said.
    """
    from moeopt.calibrate import calibrate as fit
    from moeopt.calibrate import read_table
    from moeopt.calibrate.end_to_end import is_end_to_end
    from moeopt.cli.target import STDOUT, check_target
    from moeopt.documents import to_json, write_file

    if output is not None and output != STDOUT:
        check_target(output, (".json",), force, what="a calibration")
    check = Violations()
    read: list[Table] = []
    for path in tables:
        with check.within():
            read.append(read_table(path))
    check.raise_if_any()
    whole = predict is not None or constants is not None or any(is_end_to_end(table) for table in read)
    if whole:
        found: Calibration | Replay = _replayed(read, predict, constants)
    else:
        from moeopt.llm.gpus import find_gpu

        found = fit(read, gpu=None if gpu is None else find_gpu(gpu, "--gpu").name)
    document = found.model_dump(mode="json", by_alias=True)
    if json.json or output == STDOUT:
        say.document(document)
    else:
        _show(found, say)
    if output is not None and output != STDOUT:
        write_file(output, to_json(document) + "\n", force=force)
        say.note(f"{'errors' if whole else 'constants'}: {output}")
    return DONE


def _replayed(read: list[Table], name: str | None, constants: str | None) -> Replay:
    from moeopt.calibrate import read_calibration, replay
    from moeopt.plugins import import_policy

    found = Violations()
    if len(read) != 1:
        fix = "Give one table of whole runs"
        found.add("TABLE", f"{len(read)} tables", rule="a table of whole runs is replayed by itself", fix=fix)
    if name is not None and constants is not None:
        rule = "is for the model of the mesh, --predict for another"
        found.add("--constants", constants, rule=rule, fix="Leave one out")
    found.raise_if_any()
    if name is not None:
        predict: Any = import_policy(name, "--predict")
    else:
        from moeopt.mesh.predicted import Predictor

        predict = Predictor(None if constants is None else read_calibration(constants))
    return replay(read[0], predict)


def _show(found: Calibration | Replay, say: Say) -> None:
    from moeopt.calibrate import Calibration

    if isinstance(found, Calibration):
        show_constants(found, say)
    else:
        _accuracy(found, say)


def show_constants(found: Calibration, say: Say) -> None:
    """Tables of constants with their errors and ranges, and what to know about them."""
    from moeopt.cli.tables import percent, table

    if found.kernels:
        rows = table("", "kernel", "points", "e_f", "e_b", "I_h", "c", *ERRORS, "roofline", "regret", "of", "range")
        for one in found.kernels:
            name = " ".join(part for part in (one.gpu, one.engine, one.dtype) if part)
            cells = [_part(one.compute), _part(one.memory), f"{one.half_width:.0f}", _micro(one.constant_s)]
            regret = ["-" if one.regret is None else f"{one.regret:.3f}", f"{one.questions:,}"]
            rows.add_row(
                name,
                f"{one.errors.points:,}",
                *cells,
                *_errors(one.errors),
                percent(one.uncalibrated.median),
                *regret,
                _range(one.ranges, "tokens", "width"),
            )
        say.show(rows)
    if found.collectives:
        rows = table("", "collective", "ranks", "points", "alpha", "bytes/s", *ERRORS, "range")
        for fit in found.collectives:
            speed = "-" if fit.bytes_per_s is None else f"{fit.bytes_per_s / 1e9:.1f} GB/s"
            name = " ".join(part for part in (fit.op, fit.gpu) if part)
            cells = [str(fit.ranks), f"{fit.errors.points:,}", _micro(fit.alpha_s), speed]
            rows.add_row(name, *cells, *_errors(fit.errors), _range(fit.ranges, "bytes"))
        say.show(rows)
    if found.steps:
        rows = table("", "step", "points", "fixed", "a sequence", "a cached token", *ERRORS, "range")
        for step in found.steps:
            cells = [_micro(step.fixed_s), _micro(step.per_sequence_s), f"{step.per_cached_token_s * 1e9:.3g} ns"]
            shown = _range(step.ranges, "batch", "context")
            rows.add_row(step.config, f"{step.errors.points:,}", *cells, *_errors(step.errors), shown)
        say.show(rows)
    for one in found.kernels:
        for load, factor in one.skew.items():
            say.note(f"{one.gpu} {one.engine} {one.dtype}: loads of {load} take {factor:.2f} times as long, median")
    said: dict[str, list[str]] = {}
    fits: list[Any] = [*found.kernels, *found.collectives, *found.steps]
    for named in fits:
        keys = ("gpu", "engine", "dtype", "op", "config")
        label = " ".join(str(getattr(named, key)) for key in keys if getattr(named, key, "")).strip()
        for note in named.notes:
            said.setdefault(note, []).append(label)
    for note, labels in said.items():
        say.note(f"{', '.join(dict.fromkeys(labels))}: {note}")
    for reason in found.skipped:
        say.note(f"not fitted: {reason}")
    say.show("errors are of modelled over measured times; beyond the range the constants extrapolate")


ERRORS = ("median error", "p90", "held out")


def _errors(errors: Errors) -> list[str]:
    from moeopt.cli.tables import percent

    return [percent(errors.median), percent(errors.p90), percent(errors.held_out)]


def _accuracy(found: Replay, say: Say) -> None:
    from moeopt.cli.tables import percent, table

    rows = table("", "runs", "measured", "answered", "TPOT median", "mean", "p90", "bias", "TTFT median", "bias")
    for name, part in found.parts.items():
        cells: list[str] = []
        for errors, wanted in ((part.tpot, ("median", "mean", "p90", "bias")), (part.ttft, ("median", "bias"))):
            for key in wanted:
                value: Any = None if errors is None else getattr(errors, key)
                sign = "+" if key == "bias" and value is not None and value > 0 else ""
                cells.append(sign + percent(value))
        rows.add_row(name, f"{part.runs:,}", f"{part.answered:,}", *cells)
    say.show(rows)
    if found.regret is not None:
        say.show(
            f"choice: {found.regret:.3f} of the best measured tokens/s/GPU, median of {found.questions:,} questions; "
            f"mean {found.regret_mean:.3f}, {found.regret_worst:.3f} at worst; always the fewest GPUs: mean "
            f"{found.fewest_mean:.3f}"
        )
    for reason, number in found.refused.items():
        say.note(f"{number:,} not answered: {reason}")
    for reason, number in found.unreadable.items():
        say.note(f"{number:,} rows left aside: {reason}")


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _micro(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} us"


def _range(ranges: dict[str, tuple[float, float]], *names: str) -> str:
    return ", ".join(f"{name} {ranges[name][0]:g}-{ranges[name][1]:g}" for name in names if name in ranges)
