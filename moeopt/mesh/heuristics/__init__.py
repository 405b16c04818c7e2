"""Baselines of the purchase: one a file."""
