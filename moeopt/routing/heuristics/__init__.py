"""Splits that need no search: what dispatchers do, as baselines."""
