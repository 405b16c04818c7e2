"""Load compiled code at start-up, so that no call has to."""

from __future__ import annotations

import importlib

from moeopt.engines.policies.options import LOGGER


def warm_up() -> bool:
    """Load, or on a machine's first time compile, what the policies run; seconds, the first time about a minute.

    Returns
    -------
    bool
        Whether the search is compiled now. ``False`` without the extra ``fast``, or where it failed, which is logged:
        the policies then give the public rule without doubles.
    """
    try:
        from moeopt.kernels import packing
        from moeopt.kernels.warmup import load_moving, load_search

        importlib.import_module("scipy.optimize")
        load_search()
        load_moving()
        return packing.improve.ready()
    except Exception as error:
        LOGGER.warning("moeopt: compiled code could not be loaded: %s: %s", type(error).__name__, error)
        return False
