"""Methods without a proof, one algorithm a file."""
