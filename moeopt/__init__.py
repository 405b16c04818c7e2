"""Place, route and size Mixture-of-Experts serving, with a proven bound on every decision.

Each problem is a package: ``from moeopt import placement``. Importing this one imports nothing heavy.
"""

from moeopt._version import __version__
from moeopt.limits import Limits
from moeopt.registry import register

__all__ = ["Limits", "__version__", "register"]
