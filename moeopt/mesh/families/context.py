"""What families share: the question, a table of shapes for each type of GPU, and writing configurations down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moeopt.cost.roofline import Numerics
from moeopt.mesh.config import Config, Family
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.families.ways import ways
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.shape import Role, Shape
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.table import Setting, Table


@dataclass(frozen=True)
class Context:
    """One demand of an instance, and its place among the demands."""

    instance: MeshInstance
    place: int
    demand: Demand

    def tables(self, role: Role) -> Iterator[tuple[Table, list[Config]]]:
        """Shapes of this role for every type of GPU and format of the cache, and configurations of refused degrees."""
        llm = self.demand.llm
        for gpu in self.instance.for_side(role):
            shapes, refused = ways(self.instance, llm, gpu, role, self.demand.numerics)
            turned = [self.refuse(_family(role), one.shape, one.reasons) for one in refused]
            for numerics in self.numerics(gpu):
                yield Table(self.setting(gpu, numerics), shapes), turned
                turned = []  # once for all formats

    @property
    def most_batch(self) -> int:
        """Sequences of a rank at most: one where the shortest time per token is asked."""
        return 1 if self.instance.objective == "time" else self.instance.most_batch

    def rooms(self, table: Table, kept_tokens: int, *, draft: int = 0, overlap: bool = False) -> Rooms:
        """Memory of a table's rows."""
        return Rooms(
            table,
            kept_tokens=kept_tokens,
            reserve_bytes=self.instance.reserve_bytes,
            numerics=self.demand.numerics,
            draft=draft,
            overlap=overlap,
        )

    def fitting(self, role: Role, kept_tokens: int) -> Iterator[tuple[Table, list[Config]]]:
        """Shapes that hold at least one sequence, with what is refused: degrees, and shapes that are too small."""
        for table, refused in self.tables(role):
            if not len(table):
                yield table, refused
                continue
            rooms, kv = self.rooms(table, kept_tokens), table.setting.numerics.kv
            fits = rooms.most() > 0
            for row in np.flatnonzero(~fits).tolist():
                refused.append(self.refuse(_family(role), table.shapes[row], (rooms.reason(row),), kv))
            rows = np.flatnonzero(fits).tolist()
            yield Table(table.setting, [table.shapes[row] for row in rows]), refused

    def numerics(self, gpu: GpuType) -> list[Numerics]:
        """Formats to look at on this GPU: one for every format of the cache."""
        machine, own = gpu.machine, self.demand.numerics
        caches = self.instance.kv_formats or (None,)
        return [served(self.demand.llm, machine, own, kv) for kv in caches]

    def setting(self, gpu: GpuType, numerics: Numerics) -> Setting:
        """What a table's shapes share."""
        one = self.instance
        return Setting(self.demand.llm, gpu, numerics, one.imbalance, one.overhead_s, one.transport)

    def refuse(self, family: Family, shape: Shape, reasons: tuple[str, ...], kv: str = "bf16") -> Config:
        """A configuration that cannot be."""
        return Config(self.place, family, shape, 0, {shape.gpu: shape.gpus}, kv=kv, reasons=reasons)


def _family(role: Role) -> Family:
    return role
