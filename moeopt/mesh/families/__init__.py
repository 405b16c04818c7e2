"""Families of configurations: every shape of every family, judged; `configs` gives them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moeopt.lazy import lazy

if TYPE_CHECKING:
    from moeopt.mesh.families.every import configs

__all__ = ["configs"]
