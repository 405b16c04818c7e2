"""The document of constants, ``moeopt/calibration/1``: what was fitted, how well, on which range, from which files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError

from moeopt import kinds
from moeopt.calibrate.collectives import CollectiveFit
from moeopt.calibrate.fit import Frozen
from moeopt.calibrate.kernels import KernelFit
from moeopt.calibrate.steps import StepFit
from moeopt.cost.links import Link
from moeopt.documents import read_bytes, read_json
from moeopt.errors import Violations

SCHEMA = "moeopt/calibration/1"


class Source(BaseModel):
    """A file that constants are from."""

    model_config = Frozen
    file: str
    sha256: str
    rows: int
    kind: str


class Calibration(BaseModel):
    """Constants with residuals, range and provenance.

    Parameters
    ----------
    kernels, collectives, steps
        The fits.
    sources
        Files, with digest and rows.
    skipped
        What was not fitted, and why.
    """

    model_config = Frozen
    schema_: Literal["moeopt/calibration/1"] = Field(alias="schema")
    kernels: list[KernelFit] = []
    collectives: list[CollectiveFit] = []
    steps: list[StepFit] = []
    sources: list[Source] = []
    skipped: list[str] = []

    def kernel(
        self, gpu: str, arithmetic: str, *, stored: str | None = None, engine: str | None = None
    ) -> KernelFit | None:
        """The fit of this GPU in this arithmetic (``bf16``, ``fp8``, ...).

        Of several, one of these stored weights (``fp8_block``), then of this engine, then the one with most points.
        """
        from moeopt.calibrate.names import DTYPES

        def rank(fit: KernelFit) -> tuple[bool, bool, int]:
            ours = engine is not None and engine.lower() in fit.engine.lower()
            return fit.dtype == stored, ours, fit.errors.points

        found = [fit for fit in self.kernels if fit.gpu == gpu and DTYPES[fit.dtype][0] == arithmetic]
        return max(found, key=rank, default=None)

    def link(self, op: str, ranks: int, gpu: str = "") -> tuple[Link, list[str]] | None:
        """The link of an operation, from the fit of the number of ranks nearest to this, and what to say of it.

        ``None`` where none was fitted.
        """
        found = [fit for fit in self.collectives if fit.op == op and (not gpu or not fit.gpu or gpu in fit.gpu)]
        for fit in sorted(found, key=lambda fit: (abs(fit.ranks - ranks), fit.ranks)):
            link = fit.link()
            if link is not None:
                said = [] if fit.ranks == ranks else [f"{op} of {ranks} ranks by the constants of {fit.ranks}"]
                return link, said
        return None


@kinds.expects(path=kinds.path)
def read_calibration(path: str | Path) -> Calibration:
    """Read a document of constants (``-``: standard input).

    `path` is what ``moeopt calibrate -o`` wrote.

    Raises
    ------
    InstanceError
        Broken JSON, an unknown schema, unknown fields, numbers that are none: all named.

    >>> read_calibration("missing.json")
    Traceback (most recent call last):
    ...
    moeopt.errors.InstanceError: input = missing.json: cannot be read (No such file or directory). Check the name.
    """
    return from_dict(read_json(read_bytes(path), str(path)), str(path))


def from_dict(document: Any, source: str) -> Calibration:
    """See `read_calibration`; `source` is what messages call the document."""
    check = Violations(source)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        seen = document.get("schema") if isinstance(document, dict) else "no object"
        check.add("schema", seen, rule=f"must be {SCHEMA}", fix="Make it with moeopt calibrate TABLE -o FILE")
        check.raise_if_any()
    try:
        return Calibration.model_validate(document)
    except ValidationError as error:
        for fault in error.errors():
            where = ".".join(str(part) for part in fault["loc"])
            check.add(where, "...", rule=fault["msg"], fix="Make it with moeopt calibrate TABLE -o FILE")
        check.raise_if_any()
        raise
