"""Place, route and size Mixture-of-Experts serving, with a proven bound on every decision.

Each problem is a package: ``from moeopt import placement``. Importing this one imports nothing else.
"""

from moeopt._version import __version__

__all__ = ["__version__"]
