"""All cases, in one list."""

from __future__ import annotations

from tests.cases import files, links, meshes, placing, replanning, times

CASES = [*placing.CASES, *replanning.CASES, *links.CASES, *times.CASES, *meshes.CASES, *files.CASES]
