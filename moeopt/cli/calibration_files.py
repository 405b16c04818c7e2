"""Constants of `moeopt calibrate` in the verbs that take any file: `inspect` and `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.cli.ask import ask
from moeopt.cli.room_files import Kind, room_document
from moeopt.cli.say import Say, count, few
from moeopt.cli.verb import DONE, GATE
from moeopt.cli.verdict import show_faults
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.calibrate import Calibration

CALIBRATION_SAID = "calibration"
SAID = {CALIBRATION_SAID: "a calibration"}
"""What its documents are, and as a sentence calls them."""
JUDGED = CALIBRATION_SAID
"""The one that `verify` takes."""


def _constants(document: Any, path: str) -> Calibration:
    from moeopt.calibrate.document import from_dict

    return from_dict(document, path)


KINDS = (Kind("moeopt/calibration/", CALIBRATION_SAID, read=_constants),)


def document_of(path: str) -> tuple[str, Calibration] | None:
    """``("calibration", constants)``; ``None`` for any other file.

    Raises
    ------
    InstanceError
        A calibration that cannot be read: unknown fields, another version, numbers that are none.
    """
    return room_document(path, KINDS)


def facts(path: str, what: str, found: Calibration) -> dict[str, Any]:
    """What `inspect` says: the constants as they are, and what is wrong with them."""
    from moeopt.calibrate.faults import calibration_faults

    known = found.model_dump(mode="json", by_alias=True)
    del known["schema"]
    return {**known, "faults": calibration_faults(found)[0]}


def show(known: dict[str, Any], say: Say) -> None:
    """The same for people: tables with residuals and ranges."""
    from moeopt.calibrate import Calibration
    from moeopt.calibrate.document import SCHEMA as VERSION
    from moeopt.cli.calibrate import show_constants

    keys = ("kernels", "collectives", "steps", "sources", "skipped")
    found = Calibration.model_validate({"schema": VERSION, **{key: known[key] for key in keys}})
    parts = [count(len(getattr(found, key)), one) for key, one in
             (("kernels", "expert kernel"), ("collectives", "collective"), ("steps", "step"))]  # fmt: skip
    say.show(f"{known['file']}: {CALIBRATION_SAID}, {', '.join(parts)}")
    for source in found.sources:
        say.show(f"  source     {source.file}, {count(source.rows, 'row')} of {source.kind}s, SHA-256 {source.sha256}")
    faults = known["faults"]
    say.show(f"  structure  {'ok' if not faults else '; '.join(few(faults, say.verbose))}")
    show_constants(found, say)


def verify(path: str, found: Calibration, given: list[str], as_json: bool, say: Say) -> int:
    """List every fault of constants, with their tables every constant; exit 5 on any."""
    from moeopt.calibrate import read_table
    from moeopt.calibrate.faults import calibration_faults

    check, tables = Violations(), []
    for name in given:
        with check.within():
            tables.append(read_table(name))
    check.raise_if_any()
    faults, aside = ask(calibration_faults, found, *([tables] if tables else []))
    checked = "structure" if aside else "structure, constants and residuals"
    if as_json:
        say.document({"ok": not faults, "checked": checked, "unchecked": aside, "faults": faults})
    else:
        show_faults(path, faults, f"{CALIBRATION_SAID}: {checked}", say)
        for what in aside:
            say.note(f"not re-checked: {what}")
    return GATE if faults else DONE
