"""Requests that arrive: by a seeded Poisson process, or as a trace has them, faster or slower."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.cost.checks import positive, whole
from moeopt.errors import Violations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Requests:
    """Requests in the order of their arrival.

    Parameters
    ----------
    arrival_s
        (n,) seconds, rising from 0 or later.
    input_tokens, output_tokens
        (n,) whole numbers from 1: computed tokens of the prompt, and tokens of the answer.
    source
        Where they are from.

    Raises
    ------
    InstanceError
        No requests, lengths that differ, times that fall, tokens below 1.
    """

    arrival_s: Floats
    input_tokens: Ints
    output_tokens: Ints
    source: str = ""

    def __post_init__(self) -> None:
        check = Violations(self.source)
        arrival = np.array(self.arrival_s, dtype=float)
        if arrival.ndim != 1 or not arrival.size or not np.isfinite(arrival).all() or arrival[0] < 0:
            fix = "Give seconds since the beginning"
            check.add("arrival_s", "...", rule="must be a row of finite numbers >= 0, at least one", fix=fix)
        elif (np.diff(arrival) < 0).any():
            place = int(np.argmax(np.diff(arrival) < 0)) + 1
            check.add("arrival_s", float(arrival[place]), rule="is before the one before it", fix="Sort by arrival",
                      where=str(place))  # fmt: skip
        object.__setattr__(self, "arrival_s", arrival)
        for name in ("input_tokens", "output_tokens"):
            given = np.asarray(getattr(self, name))
            if given.shape != arrival.shape:
                rule = f"must have one number a request, {arrival.size}"
                check.add(name, f"{given.size} numbers", rule=rule, fix="Give one each")
            elif not np.issubdtype(given.dtype, np.integer) or (given < 1).any():
                check.add(name, "...", rule="must be whole numbers >= 1", fix="Leave out requests without tokens")
            object.__setattr__(self, name, given)
        check.raise_if_any()

    @classmethod
    def poisson(
        cls,
        count: int,
        *,
        input_tokens: int | ArrayLike,
        output_tokens: int | ArrayLike,
        rate_per_s: float = 1.0,
        seed: int = 0,
    ) -> Requests:
        """Arrivals at random, independent of each other.

        Parameters
        ----------
        count
            Requests.
        input_tokens, output_tokens
            A length of all; or lengths that were seen, of which each request draws a pair at random.
        rate_per_s
            Mean requests a second.
        seed
            Equal seeds give equal draws; another rate stretches the same arrivals.

        >>> made = Requests.poisson(3, input_tokens=[10, 20], output_tokens=[1, 2], rate_per_s=2.0)
        >>> bool(np.all(made.input_tokens == 10 * made.output_tokens))
        True
        """
        check = Violations()
        whole(check, count=count)
        positive(check, rate_per_s=rate_per_s)
        inputs, outputs = np.atleast_1d(np.asarray(input_tokens)), np.atleast_1d(np.asarray(output_tokens))
        if inputs.ndim > 1 or outputs.ndim > 1 or 0 in (inputs.size, outputs.size):
            check.add("input_tokens", "...", rule="must be a length or a row of lengths", fix="Give whole numbers")
        elif 1 not in (inputs.size, outputs.size) and inputs.size != outputs.size:
            rule = f"has {outputs.size} lengths, input_tokens {inputs.size}"
            check.add("output_tokens", "...", rule=rule, fix="Give pairs")
        check.raise_if_any()
        rng = np.random.default_rng(seed)
        arrival = np.cumsum(rng.exponential(1.0, count)) / rate_per_s
        drawn = rng.integers(0, max(inputs.size, outputs.size), count)
        chosen = [lengths[drawn if lengths.size > 1 else np.zeros_like(drawn)] for lengths in (inputs, outputs)]
        said = f"Poisson arrivals, seed {seed}"
        return cls(arrival, chosen[0], chosen[1], said)

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def rate_per_s(self) -> float:
        """Requests a second, over the time from 0 to the last arrival; infinite where all come at once."""
        last = float(self.arrival_s[-1])
        return len(self) / last if last > 0 else np.inf

    def at_rate(self, rate_per_s: float) -> Requests:
        """The same requests in the same order, arrivals stretched or squeezed to this rate.

        Raises
        ------
        InstanceError
            A rate that is not above 0; all requests come at once.

        >>> round(Requests.poisson(100, input_tokens=1, output_tokens=1).at_rate(7.0).rate_per_s, 9)
        7.0
        """
        check = Violations(self.source)
        positive(check, rate_per_s=rate_per_s)
        if not np.isfinite(self.rate_per_s):
            check.add("arrival_s", "0", rule="all come at once: there is no rate", fix="Give the times of a trace")
        check.raise_if_any()
        factor = self.rate_per_s / rate_per_s
        return Requests(self.arrival_s * factor, self.input_tokens, self.output_tokens, self.source)
