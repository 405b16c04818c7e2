"""What `moeopt.replay` offers."""

from moeopt.replay.answer import SCHEMA, Replay, Row
from moeopt.replay.figures import Figures
from moeopt.replay.policies import KEEP, Policy
from moeopt.replay.prices import Prices
from moeopt.replay.replan import Replan
from moeopt.replay.run import replay
from moeopt.replay.schedule import Period, periods
from moeopt.replay.scores import Score
from moeopt.replay.verify import faults

__all__ = [
    "KEEP",
    "SCHEMA",
    "Figures",
    "Period",
    "Policy",
    "Prices",
    "Replan",
    "Replay",
    "Row",
    "Score",
    "faults",
    "periods",
    "replay",
]
