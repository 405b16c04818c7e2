"""Arguments for lower bounds as strict JSON; `moeopt.mesh.bounds.recheck` says whether they hold."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = Annotated[str, Field(pattern=r"^-?[0-9]+(/[1-9][0-9]*)?$", max_length=5000)]
"""A fraction: what else Python reads as one may take it hours."""
Entry = int | Annotated[str, Field(pattern=r"^([a-z]+|-?[0-9]+(/[1-9][0-9]*)?)$", max_length=5000)]
"""Of a row that is served: its demand, its phase, or a fraction."""
STRICT = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Covering(BaseModel):
    """A table, to be made anew."""

    model_config = STRICT
    kind: Literal["covering"]
    value: Number


class Dual(BaseModel):
    """Prices of rows and of GPUs."""

    model_config = STRICT
    kind: Literal["dual"]
    value: Number
    served: list[Annotated[list[Entry], Field(min_length=3, max_length=3)]]
    gpus: list[Number]


class Starved(BaseModel):
    """A row that nothing serves."""

    model_config = STRICT
    kind: Literal["starved"]
    row: Annotated[list[int], Field(min_length=2, max_length=2)]


class Faster(BaseModel):
    """Why nothing faster is enough."""

    model_config = STRICT
    kind: Literal["faster"]
    value: Number
    below: Annotated[Covering | Dual | Starved, Field(discriminator="kind")] | None


class Trivial(BaseModel):
    """No argument: 0 is below every plan."""

    model_config = STRICT
    kind: Literal["trivial"]
    value: Literal["0"]


Certified = Annotated[Covering | Dual | Faster | Trivial, Field(discriminator="kind")]


class Claim(BaseModel):
    """What a solver claims above what is certified."""

    model_config = STRICT
    kind: Literal["solver"]
    claim: float
    certified: Certified
