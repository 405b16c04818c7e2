"""The exact purchase by tables: cheapest, most served, fastest."""

from __future__ import annotations

from fractions import Fraction

from moeopt.mesh import bounds, covering
from moeopt.mesh.covering import Counts, Covering
from moeopt.mesh.heuristics.per_price import at_once, theta_of
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.market import Market, market_of

WITHOUT = "exact and auto prove an optimum without one, and per_price, recipe and uniform find a plan"
"""What to do where there is no table."""


def known_cost(market: Market) -> Fraction | None:
    """Cost of a plan that is found at once; ``None`` where none is."""
    if "known" not in market.memo:
        counts = at_once(market, enough=True)
        market.memo["known"] = None if counts is None else cost_of(market, counts)
    found: Fraction | None = market.memo["known"]
    return found


def cost_of(market: Market, counts: Counts) -> Fraction:
    """Cost of replicas by place."""
    return sum((offer.cost * counts[offer.place] for offer in market.offers if offer.place in counts), Fraction(0))


def table_limits(instance: MeshInstance) -> list[int] | None:
    """Budgets that a table has to have; ``None`` where they are without limit."""
    market = market_of(instance)
    if instance.objective in ("gpus", "price"):
        known = known_cost(market)
        if known is not None:
            return covering.limits_below(market, known)
    stock = [most for most in market.stock if most is not None]
    return stock if len(stock) == len(market.stock) else None


def no_table(instance: MeshInstance) -> str | None:
    """Why there is no table of an instance."""
    limits = table_limits(instance)
    what = f"it makes a table of every number of GPUs of each type, of at most {covering.MOST_BUDGETS:,} rows"
    if limits is None:
        return f"{what}, and neither a stock nor a plan bounds them here; {WITHOUT}"
    rows = covering.rows(market_of(instance).pruned, limits)
    if rows > covering.MOST_BUDGETS:
        return f"{what}, and here there would be {rows:,}; {WITHOUT}"
    return None


def by_tables(instance: MeshInstance) -> Counts | None:
    """Replicas of the best plan, of equals one with the fewest GPUs; ``None`` where there is no plan."""
    limits = table_limits(instance)
    assert limits is not None
    market = market_of(instance).pruned
    if instance.objective == "goodput":
        whole = covering.most(market)  # which bounds the answer too
        assert whole is not None
        return _most(whole[0])
    if instance.objective == "time":
        market = market.up_to(bounds.time_bound(market).value)
    made = covering.covering(market, limits)
    assert made is not None
    counts = _enough(made, made)
    if counts is None:  # a table that rounds down promises nothing that is not there
        counts = _enough(made, covering.covering(market, limits, down=True))
    return counts


def _most(made: Covering) -> Counts | None:
    full = int(made.node.values[made.full])
    if not full:
        return None
    rounding = sum(made.full)  # one unit a replica at most: ties that are exact stay ties
    cell = made.cheapest(max(full - rounding, 1))
    assert cell is not None
    return made.counts(cell)


def _enough(made: Covering, table: Covering | None) -> Counts | None:
    cell = None if table is None else table.cheapest(made.unit)
    if table is None or cell is None:
        return None
    counts = table.counts(cell)
    return counts if theta_of(made.market, counts) >= 1 else None
