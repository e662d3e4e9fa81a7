"""A staff login for the demo. Its password is new at every run, so none is ever known from the source."""

from __future__ import annotations

import secrets

from django.contrib.auth import get_user_model

USERNAME = "demo"


def make_login() -> tuple[str, str]:
    """User name and password of a superuser."""
    password = secrets.token_urlsafe(9)
    user, _ = get_user_model().objects.get_or_create(username=USERNAME)
    user.is_staff = user.is_superuser = user.is_active = True
    user.set_password(password)
    user.save()
    return USERNAME, password
