"""Who may: each verb asks for its own permission."""

from __future__ import annotations

from typing import Any, Protocol

from headgate_django.exceptions import PermissionRefused


class Actor(Protocol):
    """A Django user, as far as the verbs know one."""

    pk: Any

    def has_perm(self, perm: str, obj: Any = None) -> bool:
        """Whether the user is active and holds the permission."""
        ...


def allowed(actor: Actor | None, permission: str) -> bool:
    """Whether the actor holds a permission of this app. None is trusted code: a command, a duty."""
    return actor is None or actor.has_perm(f"headgate_django.{permission}")


def require(actor: Actor | None, permission: str) -> None:
    """Raise PermissionRefused unless the actor holds the permission."""
    if not allowed(actor, permission):
        raise PermissionRefused(f"headgate_django.{permission}")
