"""Plans of meshes as they were written: the instance within, and everything that is wrong."""

from __future__ import annotations

from typing import Any

from moeopt.mesh import public as _public  # noqa: F401  (registers the methods)
from moeopt.mesh.document import read_instance
from moeopt.mesh.instance import MeshInstance
from moeopt.mesh.plan_document import SCHEMA
from moeopt.mesh.plan_faults import Found, plan_faults
from moeopt.result_frame import document_within


def instance_in(document: Any, source: str) -> MeshInstance:
    """The instance that a plan has within.

    Raises
    ------
    InstanceError
        It is no plan of this version, or its instance is malformed.
    """
    return read_instance(document_within(document, SCHEMA, source), source)


def written_faults(document: Any, source: str = "", given: MeshInstance | None = None) -> Found:
    """What is wrong with a plan, and what could not be re-checked.

    Parameters
    ----------
    document
        Parsed JSON, as ``-o`` wrote it.
    source
        What messages call it.
    given
        The instance that it has to be for.

    Raises
    ------
    InstanceError
        As `instance_in`.
    """
    instance = instance_in(document, source)
    faults = []
    if given is not None and given.sha256 != instance.sha256:
        faults.append(f"the plan was made for another instance: {given.sha256} is not {instance.sha256}")
    found, aside = plan_faults(instance, document)
    return faults + found, aside
