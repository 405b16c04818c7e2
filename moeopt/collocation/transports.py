"""Transports: what is merged on the way, whether results return home in each layer, and bytes each way."""

from __future__ import annotations

from dataclasses import dataclass

from moeopt.errors import Violations

MERGES = ("node", "gpu", "rail", "none")
SCALE_BLOCK, SCALE_BYTES = 128, 4


@dataclass(frozen=True)
class Transport:
    """How tokens reach their experts and come back.

    Parameters
    ----------
    name
        What it is called.
    merge
        ``node``: one copy to a node, there one to each GPU; ``gpu``: one copy to each GPU; ``none``: one for each
        (token, expert) pair; ``rail``: the same by way of the GPU of the source's index in the other node.
    returns_home
        Whether the results of a layer go back to the GPU that the token came from.
    dispatch_bytes, combine_bytes
        Bytes of an element of a copy on the way out and back; 1 has a scale of 4 bytes for every 128 elements.

    Raises
    ------
    InstanceError
        An unknown `merge`, bytes that are not above 0.

    >>> TRANSPORTS["deepep-normal"].copy_bytes(7168)
    (7392.0, 14336.0)
    """

    name: str
    merge: str
    returns_home: bool = True
    dispatch_bytes: float = 1.0
    combine_bytes: float = 2.0

    def __post_init__(self) -> None:
        check = Violations()
        if self.merge not in MERGES:
            check.add("merge", self.merge, rule=f"is not one of {', '.join(MERGES)}", fix="Use one of these")
        for name in ("dispatch_bytes", "combine_bytes"):
            value = getattr(self, name)
            if not (isinstance(value, int | float) and 0 < value < float("inf")):
                check.refuse(name, value, rule="must be a finite number above 0", fix="FP8 is 1, BF16 is 2")
        if not isinstance(self.returns_home, bool):
            check.refuse("returns_home", self.returns_home, rule="must be true or false", fix="DeepEP returns home")
        check.raise_if_any()

    @property
    def merges(self) -> bool:
        """Whether any two copies of a token become one."""
        return self.merge in ("node", "gpu")

    def copy_bytes(self, hidden: int) -> tuple[float, float]:
        """Bytes of one copy, out and back."""
        out, back = (
            hidden * each + (-(-hidden // SCALE_BLOCK) * SCALE_BYTES if each == 1 else 0)
            for each in (self.dispatch_bytes, self.combine_bytes)
        )
        return float(out), float(back)


TRANSPORTS = {
    one.name: one
    for one in (
        Transport("deepep-normal", "node"),
        Transport("deepep-ll", "none"),
        Transport("nvl-domain", "gpu"),
    )
}

ALLGATHER = (
    "every GPU gets every token, so no placement changes the bytes: collocation has nothing to win; "
    "moeopt place balances the tokens"
)


def find_transport(given: object, check: Violations) -> Transport | None:
    """The transport of that name, or the one given; ``None`` with a violation."""
    if isinstance(given, Transport):
        return given
    if isinstance(given, str) and given in TRANSPORTS:
        return TRANSPORTS[given]
    if not isinstance(given, str):
        rule = f"must be a Transport or one of {', '.join(TRANSPORTS)}"
        check.add("transport", repr(given), rule=rule, fix="Use deepep-normal")
    elif given == "allgather":
        check.add("transport", "allgather", rule=ALLGATHER, fix="Use deepep-normal where the engine can")
    elif given == "custom":
        rule = "needs what is merged and the bytes each way"
        check.add("transport", "custom", rule=rule, fix='Give a Transport("mine", merge="node", ...)')
    else:
        known = ", ".join((*TRANSPORTS, "allgather", "custom"))
        shown = given if isinstance(given, str) else repr(given)
        check.add("transport", shown, rule=f"is not one of {known}", fix="Use one of these")
    return None
