"""Seconds of a step for many shapes at once: the closed forms of `moeopt.cost`, taken as affine in what varies."""
