"""All cases, in one list."""

from __future__ import annotations

from tests.cases import files, links, meshes, placing, replanning, telling, times

CASES = [*placing.CASES, *telling.CASES, *replanning.CASES, *links.CASES, *times.CASES, *meshes.CASES, *files.CASES]
