"""Old arguments, new code: the chain of upcasters from the stored version to the handler's."""

from __future__ import annotations

from typing import Any

from headgate_django.exceptions import Undecodable
from headgate_django.jobs.handler import Handler


def upcast(handler: Handler[..., object], arguments: dict[str, Any], version: int) -> dict[str, Any]:
    """The arguments in the handler's version. Raises Undecodable when there is no path, or a step fails."""
    if version > handler.schema_version:
        raise Undecodable(
            f"schema version {version} is newer than this code, which knows {handler.schema_version}"
        )
    for step in range(version, handler.schema_version):
        upcaster = handler.upcasters.get(step)
        if upcaster is None:
            raise Undecodable(f"no upcast path for schema version {step}")
        try:
            arguments = upcaster(dict(arguments))
        except Exception as error:
            raise Undecodable(f"upcaster from version {step} failed: {type(error).__name__}") from error
        if not isinstance(arguments, dict):
            raise Undecodable(f"upcaster from version {step} returned {type(arguments).__name__}, not a dict")
    return arguments
