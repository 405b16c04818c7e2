"""What a result says of its instance. The digest takes milliseconds, so it waits until somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from moeopt.placement.instance import PlacementInstance

KEYS = ("name", "sha256", "document")


class Reference(Mapping[str, Any]):
    """Name, digest and rules without the loads of an instance, each computed when first read.

    >>> found = Reference(PlacementInstance([[1, 1]], gpus=2, slots=2, name="two"))
    >>> found["name"], len(found["sha256"]), "loads" in found["document"]
    ('two', 64, False)
    """

    def __init__(self, instance: PlacementInstance) -> None:
        self._instance = instance
        self._known: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in KEYS:
            raise KeyError(key)
        if key not in self._known:
            instance = self._instance
            self._known[key] = instance.to_dict(with_loads=False) if key == "document" else getattr(instance, key)
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        return dict, (dict(self),)  # a pickled result does not carry the loads
