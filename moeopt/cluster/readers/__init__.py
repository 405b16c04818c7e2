"""Readers of topology files, a file each; see `read_topology`."""
