"""What the admin's tests share: clients of users with given permissions, and confirmed operations."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.control.people import user_with

BASE = "/admin/headgate_django/"


def client_of(user: User, **options: Any) -> Client:
    client = Client(**options)
    client.force_login(user)
    return client


@pytest.fixture
def client_with(db: None) -> Callable[..., Client]:
    """A client whose user holds exactly these permissions: ``client_with("view_job", "redrive_job")``."""
    return lambda *codenames: client_of(user_with(*codenames))


@pytest.fixture
def site(admin_user: User) -> Client:
    """A client whose user may do everything."""
    return client_of(admin_user)


def operate(client: Client, verb: str, *ids: str, screen: str = "job", **data: Any) -> Any:
    """Post a confirmed operation and follow the redirect."""
    url = f"{BASE}{screen}/operate/{verb}/"
    return client.post(url, {"ids": json.dumps(ids), "confirmed": "yes", **data}, follow=True)


def act(client: Client, screen: str, verb: str, *ids: str, query: str = "", **data: Any) -> Any:
    """Choose an action on a list: the confirmation page."""
    return client.post(f"{BASE}{screen}/{query}", {"action": verb, "index": 0, "_selected_action": ids, **data})


def confirm(client: Client, page: Any, **data: Any) -> Any:
    """Submit the form of a confirmation page and follow the redirect."""
    form = page.context["form"]
    hidden = {field.html_name: field.value() or "" for field in form.hidden_fields()}
    return client.post(page.context["url"], {**hidden, "confirmed": "yes", **data}, follow=True)


def messages_of(page: Any) -> list[str]:
    return [str(message) for message in page.context["messages"]]
