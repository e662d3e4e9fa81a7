"""The demo's web site: where it listens, and a browser of a few lines that looks at it over HTTP."""

from __future__ import annotations

import html
import re
import urllib.parse
import urllib.request
from collections.abc import Mapping
from html.parser import HTMLParser
from http.cookiejar import CookieJar

from django.urls import reverse

HOST = "127.0.0.1"
PORT = 8000
TIMEOUT = 10


class Browser:
    """Pages and forms of one site, with cookies."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._cookies = CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(self._cookies)
        )

    def get(self, path: str) -> str:
        """The page. Raises OSError when the site does not answer, or answers with an error."""
        with self._opener.open(self.root + path, timeout=TIMEOUT) as response:
            return str(response.read().decode())

    def post(self, path: str, fields: Mapping[str, str]) -> str:
        """The page that a form leads to."""
        token = next((cookie.value for cookie in self._cookies if cookie.name == "csrftoken"), "")
        body = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": token}).encode()
        with self._opener.open(self.root + path, data=body, timeout=TIMEOUT) as response:
            return str(response.read().decode())

    def login(self, username: str, password: str) -> str:
        """The admin's front page."""
        path = reverse("admin:login")
        self.get(path)
        return self.post(path, {"username": username, "password": password, "next": reverse("admin:index")})


class _Forms(HTMLParser):
    """The forms of a page: where each leads, and what it sends without anybody's doing."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.found.append((given.get("action", ""), {}))
        elif tag == "input" and given.get("type") == "hidden" and self.found:
            self.found[-1][1][given.get("name", "")] = given.get("value", "")


def form_with(field: str, page: str) -> tuple[str, dict[str, str]]:
    """Address and hidden fields of the form that has this hidden field. Raises LookupError when there is none."""
    forms = _Forms()
    forms.feed(page)
    for action, fields in forms.found:
        if field in fields:
            return action, fields
    raise LookupError(f"no form with a field {field!r}: {messages(page) or 'and no message'}")


def messages(page: str) -> str:
    """The admin's messages on a page, as text."""
    found = re.search(r'<ul class="messagelist">(.*?)</ul>', page, re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", found.group(1))).split()) if found else ""
