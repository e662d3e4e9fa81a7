"""Users with exactly the permissions that a test gives them."""

from __future__ import annotations

from itertools import count

from django.contrib.auth.models import Permission, User

_number = count(1)


def user_with(*codenames: str, **options: object) -> User:
    """A staff user who holds these permissions of the app and nothing else."""
    user = User.objects.create_user(f"operator{next(_number)}", password="secret", is_staff=True, **options)
    found = Permission.objects.filter(content_type__app_label="headgate_django", codename__in=codenames)
    assert {permission.codename for permission in found} == set(codenames)
    user.user_permissions.set(found)
    return user
