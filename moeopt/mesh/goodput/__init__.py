"""Goodput by simulation: the highest rate at which enough requests keep their service levels."""

from moeopt.mesh.goodput.requests import Requests
from moeopt.mesh.goodput.search import Goodput, goodput
from moeopt.mesh.goodput.service import Service
from moeopt.mesh.goodput.simulate import Served, simulate

__all__ = ["Goodput", "Requests", "Served", "Service", "goodput", "simulate"]
