"""Replicas that serve whole requests."""

from __future__ import annotations

from moeopt.mesh.config import Config
from moeopt.mesh.families.context import Context


def colocated(context: Context) -> list[Config]:
    """To come."""
    return []
