"""How one value looks in a list or on a page. Everything stored is escaped."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.contrib.admin.utils import quote
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from headgate_django.admin.words import STATES, WORKER_STATUSES
from headgate_django.core.durations import from_ms
from headgate_django.core.states import State

MAX_SHOWN = 32
EMPTY = "-"


def key(value: str, shown: int = MAX_SHOWN) -> SafeString:
    """An id or a name, in full when short; a long one is cut in the middle and complete in its title."""
    if not value:
        return format_html("{}", EMPTY)
    if len(value) <= shown:
        return format_html('<span class="headgate-key">{}</span>', value)
    half = shown // 2 - 1
    return format_html('<span class="headgate-key" title="{}">{}…{}</span>', value, value[:half], value[-half:])


def state(value: str) -> SafeString:
    """A state as a badge."""
    return format_html('<span class="headgate-state headgate-state-{}">{}</span>', value, STATES[State(value)])


def error(error_class: str, summary: str, shown: int = 80) -> str:
    """An error in one short line."""
    text = f"{error_class}: {summary}" if error_class and summary else error_class or summary
    return Truncator(text).chars(shown) or EMPTY


def when(milliseconds: int | None) -> SafeString | str:
    """An instant of the store's clock, in the site's time zone, to the second."""
    return instant(from_ms(milliseconds)) if milliseconds else EMPTY


def instant(moment: datetime) -> SafeString:
    """An instant in a form that sorts, never wraps and is read the same everywhere."""
    shown = timezone.localtime(moment).strftime("%Y-%m-%d %H:%M:%S")
    return format_html('<span class="headgate-when">{}</span>', shown)


def duration(milliseconds: int) -> str:
    """A duration in its largest two units."""
    seconds, rest = divmod(max(0, milliseconds), 1000)
    if seconds < 60:
        return _("%(seconds)s s") % {"seconds": f"{seconds + rest / 1000:.1f}".removesuffix(".0")}
    parts: list[str] = []
    for size, text in ((86_400, _("%d d")), (3_600, _("%d h")), (60, _("%d min")), (1, _("%d s"))):
        number, seconds = divmod(seconds, size)
        if number or parts:
            parts.append(text % number)
    return " ".join(parts[:2])


def size(number: int) -> str:
    """A size in bytes."""
    return ngettext("%(number)s byte", "%(number)s bytes", number) % {"number": f"{number:,}"}


def address(site: AdminSite, model: str, view: str, *args: str, **query: Any) -> str:
    """The address of a screen of this app; empty when the model is not on this site."""
    try:
        path = reverse(
            f"admin:headgate_django_{model}_{view}",
            args=[quote(arg) for arg in args],
            current_app=site.name,
        )
    except NoReverseMatch:
        return ""
    return f"{path}?{urlencode(query)}" if query else path


def link(url: str, text: Any) -> SafeString:
    """A link, or the text alone when there is nowhere to go."""
    return format_html('<a href="{}">{}</a>', url, text) if url else format_html("{}", text)


def job(site: AdminSite, job_id: str) -> SafeString:
    """A job's id, as a link to its page."""
    return link(address(site, "job", "change", job_id), key(job_id)) if job_id else key("")


def share(part: float | None) -> str:
    """A ratio in percent."""
    return EMPTY if part is None else f"{100 * part:.0f} %"


def memory(number: int) -> str:
    """A size in memory; nothing where it is not known."""
    return f"{number / 2**20:,.0f} MiB" if number else EMPTY


def worker_status(status: str, *, alive: bool) -> SafeString:
    """What a worker says it does, as a badge; of one that is silent nobody knows."""
    if not alive:
        return format_html('<span class="headgate-state headgate-silent">{}</span>', _("Silent"))
    name = status if status in WORKER_STATUSES else "unknown"
    words = WORKER_STATUSES.get(status, status)
    return format_html('<span class="headgate-state headgate-worker-{}">{}</span>', name, words)
