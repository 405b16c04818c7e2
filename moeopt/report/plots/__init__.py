"""Plots as inline SVG; matplotlib is imported here and nowhere else, and only when a plot is drawn."""
