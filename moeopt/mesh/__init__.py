"""Parallel mesh: what fits, what is best, what to buy."""
