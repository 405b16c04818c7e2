"""Baselines and the search, one algorithm a file; each takes ``(instance, context)`` and returns an outcome."""
