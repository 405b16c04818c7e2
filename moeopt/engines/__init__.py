"""Serving engines: what they record is read, what they load is read and written; one file an engine."""

from moeopt.engines.base import Dump, ExpertMap
from moeopt.engines.kinds import what_is
from moeopt.engines.reading import read_dump, read_map
from moeopt.engines.rules import TARGETS
from moeopt.engines.source import read_source
from moeopt.engines.writing import Written, missing, write_map

__all__ = [
    "TARGETS",
    "Dump",
    "ExpertMap",
    "Written",
    "missing",
    "read_dump",
    "read_map",
    "read_source",
    "what_is",
    "write_map",
]
