"""What families share: the question, a table of shapes for each type of GPU, and writing configurations down."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from moeopt.cost.roofline import Numerics
from moeopt.limits import Deadline
from moeopt.mesh.clock import NEVER, OutOfTime
from moeopt.mesh.config import Config, Family
from moeopt.mesh.families.room import Rooms
from moeopt.mesh.families.ways import Refused, ways
from moeopt.mesh.hardware import GpuType
from moeopt.mesh.instance import Demand, MeshInstance
from moeopt.mesh.legal import Use, legal_in, verdict
from moeopt.mesh.shape import Role, Shape
from moeopt.mesh.step.numerics import served
from moeopt.mesh.step.table import Bools, Setting, Table

Shapes = Callable[["Context", GpuType], list[Shape]]


@dataclass(frozen=True)
class Context:
    """One demand of an instance, its place among the demands, and until when its families have to be finished."""

    instance: MeshInstance
    place: int
    demand: Demand
    deadline: Deadline = NEVER

    def look(self) -> None:
        """At the clock: raises `OutOfTime` once the deadline has passed."""
        if self.deadline.passed():
            raise OutOfTime

    def tables(self, role: Role, shapes_of: Shapes | None = None) -> Iterator[tuple[Table, list[Config]]]:
        """Shapes of this role for every type of GPU and format of the cache, and configurations of refused degrees."""
        for gpu in self.instance.for_side(role):
            self.look()
            refused: list[Refused] = []
            if shapes_of is not None:
                shapes = shapes_of(self, gpu)
            else:
                shapes, refused = ways(self.instance, self.demand, gpu, role)
            turned = [self.refuse(_family(role), one.shape, one.reasons) for one in refused]
            for numerics in self.numerics(gpu):
                yield Table(self.setting(gpu, numerics), shapes), turned
                turned = []  # once for all formats

    @property
    def most_batch(self) -> int:
        """Sequences of a rank at most: one where the shortest time per token is asked."""
        return 1 if self.instance.objective == "time" else self.instance.most_batch

    def use(self, table: Table, draft: int, overlap: bool) -> Use:
        """How engines are asked to run shapes of this table."""
        return Use(self.instance.transport, table.setting.numerics.kv, draft, overlap)

    def legal_in(self, table: Table, row: int, draft: int = 0, overlap: bool = False) -> tuple[str, ...]:
        """Engines that can launch a row."""
        setting = table.setting
        return legal_in(table.shapes[row], setting.llm, setting.gpu, self.use(table, draft, overlap))

    def launched(self, table: Table, draft: int, overlap: bool) -> Bools:
        """Rows that the instance's engine can launch so; all where none is asked."""
        engine = self.instance.engine
        if engine is None:
            return np.ones(len(table), dtype=bool)
        setting, use = table.setting, self.use(table, draft, overlap)
        said = (verdict(engine, shape, setting.llm, setting.gpu, use) for shape in table.shapes)
        return np.array([one.ok for one in said], dtype=bool)

    def _turned_down(self, table: Table, row: int) -> tuple[str, ...]:
        """What the instance's engine has against a row, however it is run."""
        setting = table.setting
        engine = self.instance.engine
        assert engine is not None
        said = verdict(engine, table.shapes[row], setting.llm, setting.gpu, self.use(table, 0, False))
        return tuple(f"{engine}: {fault}" for fault in said.faults)

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

    def fitting(
        self, role: Role, kept_tokens: int, shapes_of: Shapes | None = None
    ) -> Iterator[tuple[Table, list[Config]]]:
        """Shapes that hold at least one sequence, with what is refused: degrees, and shapes that are too small."""
        for table, refused in self.tables(role, shapes_of):
            if not len(table):
                yield table, refused
                continue
            self.look()
            rooms, kv = self.rooms(table, kept_tokens), table.setting.numerics.kv
            fits, engine = rooms.most() > 0, self.launched(table, 0, False)
            for row in np.flatnonzero(~engine).tolist():
                refused.append(self.refuse(_family(role), table.shapes[row], self._turned_down(table, row), kv))
            for row in np.flatnonzero(engine & ~fits).tolist():
                refused.append(self.refuse(_family(role), table.shapes[row], (rooms.reason(row),), kv))
            self.look()
            yield table.take(np.flatnonzero(engine & fits)), refused

    def numerics(self, gpu: GpuType) -> list[Numerics]:
        """Formats to look at on this GPU: one for every format of the cache."""
        machine, own = gpu.machine, self.demand.numerics
        caches = self.instance.kv_formats or (None,)
        return [served(self.demand.llm, machine, own, kv) for kv in caches]

    def setting(self, gpu: GpuType, numerics: Numerics) -> Setting:
        """What a table's shapes share."""
        one, memo = self.instance, self.instance.memo.setdefault("settings", {})
        key = (self.place, gpu.name, numerics)
        if key not in memo:
            memo[key] = Setting(self.demand.llm, gpu, numerics, one.imbalance, one.overhead_s, one.transport)
        found: Setting = memo[key]
        return found

    def refuse(
        self,
        family: Family,
        shape: Shape,
        reasons: tuple[str, ...],
        kv: str = "bf16",
        *,
        ttft_s: float | None = None,
        tpot_s: float | None = None,
    ) -> Config:
        """A configuration that cannot be; with the least times it has where it is too slow."""
        first, each = (value if value and math.isfinite(value) else None for value in (ttft_s, tpot_s))
        gpus = {shape.gpu: shape.gpus}
        return Config(self.place, family, shape, 0, gpus, ttft_s=first, tpot_s=each, kv=kv, reasons=reasons)


def _family(role: Role) -> Family:
    return role
