"""Roles: which part runs on which type of GPU, which families that leaves, and whether a replica obeys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from moeopt.errors import Violations, did_you_mean
from moeopt.mesh.config import Config, Family
from moeopt.mesh.given import SERVES
from moeopt.mesh.shape import ApartShape

if TYPE_CHECKING:
    from moeopt.mesh.instance import MeshInstance

USUAL: tuple[Family, ...] = ("colocated", "prefill", "decode", "apart")
"""Families that are looked at where nothing is said."""
FAMILY_OF: dict[str, Family] = {
    "prefill": "prefill",
    "decode": "decode",
    "attention": "apart",
    "experts": "apart",
    "colocated": "colocated",
    "long": "long",
}
"""The family that has a part."""


def families_of(roles: Mapping[str, str], among: tuple[str, ...] = USUAL) -> tuple[Family, ...]:
    """Families that roles name; for a phase that none of their pools serves, those of `among` that serve it alone.

    >>> families_of({"prefill": "H800", "decode": "H20"}), families_of({"attention": "H20", "experts": "L40S"})
    (('prefill', 'decode'), ('prefill', 'apart'))
    >>> families_of({"prefill": "H800"}), families_of({"colocated": "H100"}), families_of({})
    (('prefill', 'decode', 'apart'), ('colocated',), ('colocated', 'prefill', 'decode', 'apart'))
    """
    if not roles:
        return USUAL
    named = {FAMILY_OF[role] for role in roles if role in FAMILY_OF}
    pools = named - {"colocated"}
    open_phases = {phase for phase in (0, 1) if pools and not any(SERVES[family][phase] for family in pools)}
    return tuple(
        family
        for family, serves in SERVES.items()
        if family in named
        or (family in among and family != "colocated" and any(serves[phase] for phase in open_phases))
    )


def allowed_families(roles: Mapping[str, str]) -> tuple[Family, ...]:
    """All families that may stand beside roles.

    >>> allowed_families({"prefill": "H800"})
    ('prefill', 'decode', 'apart', 'long')
    """
    return families_of(roles, tuple(SERVES))


def said(roles: Mapping[str, str]) -> str:
    """As they are typed.

    >>> said({"prefill": "H800", "decode": "H20"})
    'prefill=H800,decode=H20'
    """
    return ",".join(f"{role}={gpu}" for role, gpu in roles.items())


def check_roles(check: Violations, instance: MeshInstance) -> None:
    """Note unknown parts and GPUs, and families that contradict the roles."""
    names, roles = [gpu.name for gpu in instance.gpus], instance.sides
    for role, name in roles.items():
        if role not in FAMILY_OF:
            fix = did_you_mean(role, FAMILY_OF, "Use one of these")
            check.add("sides", role, rule=f"is not one of {', '.join(FAMILY_OF)}", fix=fix)
        if name not in names:
            fix = did_you_mean(name, names, "Add it")
            check.add("sides", name, rule=f"is no type of GPU here: {', '.join(names)}", fix=fix, where=role)
    known = {role: gpu for role, gpu in roles.items() if role in FAMILY_OF}
    if not known:
        return
    given, fix = ", ".join(instance.families), f"Leave them out for {', '.join(families_of(known))}"
    faults = []
    for family in dict.fromkeys(FAMILY_OF[role] for role in known):
        if family not in instance.families:
            mine = ",".join(f"{role}={gpu}" for role, gpu in known.items() if FAMILY_OF[role] == family)
            faults.append(f"there is no {family} for {mine}")
    free = [family for family in instance.families if family in SERVES and family not in allowed_families(known)]
    if free:
        verb = "serves" if len(free) == 1 else "serve"
        faults.append(f"{', '.join(free)} {verb} the same on GPUs of no role")
    if faults:
        check.add("families", given, rule=f"contradict the roles {said(known)}: {'; '.join(faults)}", fix=fix)


def breaches(instance: MeshInstance, config: Config) -> list[str]:
    """How a replica breaks the roles: GPUs of another type than its part has, or a family that evades them."""
    roles, family = instance.sides, config.family
    if not roles:
        return []
    if family not in instance.families:
        return [f"the roles {said(roles)} leave no {family}"]
    if family != "apart":
        parts: dict[str, str] = {family: ", ".join(config.gpus)}
    elif isinstance(config.shape, ApartShape):
        parts = {"attention": config.shape.gpu, "experts": config.shape.expert_gpu}
    else:  # figures that were given, without a shape
        wanted = {roles[part] for part in ("attention", "experts") if part in roles}
        strange = set(config.gpus) - wanted if len(set(roles) & {"attention", "experts"}) == 2 else set()
        if wanted <= set(config.gpus) and not strange:
            return []
        return [f"runs on {', '.join(config.gpus)}, its roles are {said(roles)}"]
    return [f"{part} on {gpu}, its role is {part}={roles[part]}" for part, gpu in parts.items()
            if part in roles and gpu != roles[part]]  # fmt: skip
