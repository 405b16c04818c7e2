"""Sweeps over all candidates, by simulation or by formula, and the baseline; one algorithm a file."""
