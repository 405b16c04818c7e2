"""Families of configurations: every shape of every family, judged; `configs` gives them all."""

from moeopt.mesh.families.every import configs, within

__all__ = ["configs", "within"]
