"""Tests of the parallel mesh."""
