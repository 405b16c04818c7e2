"""Instances that are what their documents say: digest and equality."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

from moeopt.documents import sha256


class Documented(ABC):
    """Equal where the documents are; `to_dict` gives the document, with a name that the digest leaves out."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The document."""

    @cached_property
    def sha256(self) -> str:
        """Digest of the canonical document without the name."""
        document = self.to_dict()
        del document["name"]
        return sha256(document)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(self.sha256)
