"""What `moeopt.workload` offers."""

from moeopt.workload.dummies import without_dummies
from moeopt.workload.generators import GENERATORS, generate, with_noise
from moeopt.workload.histories import HISTORIES, generate_history, sliced
from moeopt.workload.laws import Finding, findings
from moeopt.workload.readers import read_loads
from moeopt.workload.sampling import sample_top_k
from moeopt.workload.shapes import SHAPES, Shape
from moeopt.workload.table import LoadTable, as_loads, loads_digest
from moeopt.workload.traces import fold_ids, read_trace
from moeopt.workload.writers import write_loads

__all__ = [
    "GENERATORS",
    "HISTORIES",
    "SHAPES",
    "Finding",
    "LoadTable",
    "Shape",
    "as_loads",
    "findings",
    "fold_ids",
    "generate",
    "generate_history",
    "loads_digest",
    "read_loads",
    "read_trace",
    "sample_top_k",
    "sliced",
    "with_noise",
    "without_dummies",
    "write_loads",
]
