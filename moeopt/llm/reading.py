"""Take facts out of a configuration by the table: types checked, all faults at once, keys nobody read kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moeopt.errors import Violations
from moeopt.llm.families import SYNONYMS, Family

MISSING = object()
MOST_LAYERS = 10_000
MOST = 2**40


class Reader:
    """One configuration seen through one family; remembers which keys were read."""

    def __init__(self, config: Mapping[str, Any], family: Family, check: Violations) -> None:
        self.config, self.family, self.check = config, family, check
        self.read: set[str] = set()
        self.layers = 0
        """Number of layers, set once it is known: lists must have so many entries."""

    def raw(self, fact: str) -> tuple[str, Any]:
        """The key that gives a fact and its value, `MISSING` where no key does; null counts as missing."""
        found: list[tuple[str, Any]] = []
        names = self.family.keys_of(fact)
        for name in names:
            self.read.add(name.partition(".")[0])
            value: Any = self.config
            for part in name.split("."):
                value = value.get(part, MISSING) if isinstance(value, Mapping) else MISSING
            if value is not MISSING and value is not None:
                found.append((name, value))
        if not found:
            return (names[0] if names else fact), MISSING
        if fact in SYNONYMS and any(value != found[0][1] for _, value in found):
            both = " and ".join(name for name, _ in found)
            said = " and ".join(repr(value) for _, value in found)
            self.check.add(both, said, rule="mean the same and differ", fix="Keep the one that is true")
        return found[0]

    def whole(self, fact: str, default: int | object | None = MISSING, *, least: int = 1) -> int | None:
        """A whole number; a list with one value throughout counts as that value.

        Without `default` it is a violation if it is missing.
        """
        name, value = self.raw(fact)
        if value is MISSING:
            if default is not MISSING:
                return default if isinstance(default, int) else None
            if fact in self.family.fixed:
                return int(self.family.fixed[fact])
            rule = f"is needed in a configuration of {self.family.names[0]}"
            self.check.add(name, "missing", rule=rule, fix="Is this the model's own config.json?")
            return None
        if isinstance(value, list):
            if not value or any(item != value[0] for item in value):
                rule = "differs from layer to layer, which this version cannot tell apart"
                self.check.add(name, value, rule=rule, fix="Give one number")
                return None
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < MOST:
            self.check.refuse(name, value, rule=f"must be a whole number >= {least}", fix="Repair the configuration")
            return None
        return value

    def sure(self, fact: str, *, least: int = 1) -> int:
        """As `whole`, where what follows needs a number even if the fact was refused: then `least`, or 1."""
        value = self.whole(fact, least=least)
        return max(least, 1) if value is None else value

    def flag(self, fact: str, default: bool | None) -> bool | None:
        """True or false."""
        name, value = self.raw(fact)
        if value is MISSING:
            return bool(self.family.fixed[fact]) if fact in self.family.fixed else default
        if not isinstance(value, bool):
            self.check.refuse(name, value, rule="must be true or false", fix="Repair the configuration")
            return default
        return value

    def items(self, fact: str, *, more: int = 0, each_layer: bool = True) -> list[Any] | None:
        """A list, with an entry a layer (up to `more` beyond them); ``None`` where it is missing."""
        name, value = self.raw(fact)
        if value is MISSING:
            return None
        if not isinstance(value, list):
            self.check.add(name, value, rule="must be a list", fix="Repair the configuration")
            return None
        if each_layer and not self.layers <= len(value) <= self.layers + more:
            rule = f"must have one a layer, {self.layers}" + (f" (or {self.layers + more})" if more else "")
            self.check.add(name, f"{len(value)} entries", rule=rule, fix="Repair the configuration")
            return None
        return value

    def ids(self, fact: str, *, first: int = 0) -> list[int] | None:
        """A list of layer ids that count from `first`, as ids from 0, ascending."""
        name, value = self.raw(fact)[0], self.items(fact, each_layer=False)
        if value is None:
            return None
        good = all(type(item) is int and first <= item < self.layers + first for item in value)
        if not good or len(set(value)) != len(value):
            rule = f"must be different layer ids from {first} to {self.layers - 1 + first}"
            self.check.add(name, value, rule=rule, fix="Repair the configuration")
            return None
        return sorted(item - first for item in value)

    def look(self, key: str) -> Any:
        """A key that is the same in all families that have it; ``None`` where it is missing."""
        self.read.add(key)
        return self.config.get(key)

    def rest(self, *known: str) -> dict[str, Any]:
        """What no row of the table gives a meaning to."""
        return {key: value for key, value in self.config.items() if key not in self.read and key not in known}
