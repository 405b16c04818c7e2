"""Waiting for prefill: M/D/1 for each rank, in steps that ranks take together; closed forms, both ways."""

from __future__ import annotations

import numpy as np

from moeopt.mesh.step.table import Floats

MOST_BUSY = 0.95
"""How busy prefill may be where no TTFT is asked: beyond, prompts wait ever longer for ever less throughput."""


def wait_s(busy: Floats, service_s: Floats, prompts: int) -> Floats:
    """Mean wait before service of Poisson arrivals that are served `prompts` at a time in a fixed time.

    ``rho D / (2 (1 - rho))`` for one at a time, exact for M/D/1; ``D / (2 n (1 - rho))`` for n at a time, served at
    fixed times whether all n are there or not: an upper bound, Kingman's for what is left when a service begins.
    Waiting for the first such time is not in it.

    Source: Pollaczek and Khinchine; J. F. C. Kingman, J. R. Statist. Soc. B 24 (1962), for the queue of ``A - n`` with
    Poisson A of mean ``rho n``: at most ``rho n / (2 n (1 - rho))`` are left, and they are ``lambda`` waits by Little.

    >>> [float(wait_s(np.array(0.5), np.array(1.0), n)) for n in (1, 4)]
    [0.5, 0.25]
    """
    idle = np.where(busy < 1, 1 - busy, 1.0)
    if prompts == 1:
        return np.where(busy < 1, busy * service_s / (2 * idle), np.inf)
    return np.where(busy < 1, service_s / (2 * prompts * idle), np.inf)


def busy_for(wait: Floats, service_s: Floats, prompts: int) -> Floats:
    """How busy the server may be so that the mean wait is at most this; 0 where it cannot: the inverse of `wait_s`.

    >>> [float(busy_for(np.array(w), np.array(1.0), n)) for w, n in ((0.5, 1), (0.25, 4), (0.1, 4))]
    [0.5, 0.5, 0.0]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if prompts == 1:
            found = 2 * wait / (service_s + 2 * wait)
        else:
            found = 1 - service_s / (2 * prompts * wait)
    return np.where(wait > 0, np.maximum(found, 0.0), 0.0)
