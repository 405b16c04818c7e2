"""A micro-batch plan held against itself: the schedule is let happen again, and every number and bound re-derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moeopt.cli.verdict import told
from moeopt.errors import Violations

if TYPE_CHECKING:
    from moeopt.cli.say import Say
    from moeopt.microbatch import MicrobatchInstance

SCHEMA = "moeopt/microbatch-result/1"


def verify_microbatch(plan: str, document: Any, instance_path: str | None, json: bool, say: Say) -> int:
    """Every fault on standard output; 5 if there is one."""
    given = None
    if instance_path is not None:
        from moeopt.microbatch.document import load_instance

        given = load_instance(instance_path)
    faults, aside = faults_of(document, plan, given)
    return told(plan, faults, aside, json, say)


def faults_of(document: Any, source: str, given: MicrobatchInstance | None = None) -> tuple[list[str], list[str]]:
    """What is wrong, and what could not be re-checked.

    Raises
    ------
    InstanceError
        It is no document of a plan, or its instance is malformed.
    """
    from moeopt.microbatch import plan_faults, public  # noqa: F401  (registers the methods)

    instance = instance_in(document, source)
    faults = []
    stated = document["instance"].get("sha256")
    if stated != instance.sha256:
        faults.append(f"instance.sha256 says {stated}, the instance in the plan is {instance.sha256}")
    if given is not None and given.sha256 != instance.sha256:
        faults.append(f"the plan was made for another instance: {given.sha256} is not {instance.sha256}")
    found, aside = plan_faults.plan_faults(instance, document)
    return faults + found, aside


def instance_in(document: Any, source: str) -> MicrobatchInstance:
    """The instance that a plan has within."""
    from moeopt.microbatch.document import read_instance

    check = Violations(source)
    if document.get("schema") != SCHEMA:
        rule = "is not a plan this version knows"
        check.add("schema", document.get("schema"), rule=rule, fix=f"This version reads {SCHEMA}")
    told = document.get("instance")
    if not isinstance(told, dict) or "document" not in told:
        check.add("instance", told, rule="must have the document of the instance", fix="Give the file that -o wrote")
    check.raise_if_any()
    return read_instance(document["instance"]["document"], source)
