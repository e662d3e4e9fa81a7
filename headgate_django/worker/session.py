"""Watches database sessions for what outlives a statement: settings, temporary tables, locks.

A persistent connection hands such things to the next job. Asking the server after each job whether anything has
changed would cost a round trip; looking at the statements that pass by costs a microsecond each, and only a
session that was changed is thrown away. What a function in the database does, or the driver without Django, is
not seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_LASTING = re.compile(
    r"""(?: \s | /\*.*?\*/ | --[^\n]*\n )*
    (?: set \s+ (?! local\b | transaction\b | constraints\b )
      | reset\b | discard\b | listen\b | prepare\b | load\b | pragma\b | attach\b
      | declare\b .* \b with \s+ hold\b
      | create \s+ (?: or \s+ replace \s+ )? (?: (?: local | global | recursive ) \s+ )* temp
      | (?: select | with ) \b .* \b into \s+ (?: (?: local | global ) \s+ )? temp )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_UNTIL_THE_END = re.compile(r"set_config\s*\([^()]*\btrue\s*\)")
_LOOKED_AT = 10_000
"""Characters of a statement that are looked at."""


def lasts(sql: object) -> bool:
    """Whether a statement may change the session for those that follow its transaction."""
    if not isinstance(sql, str):
        return True  # composed by the driver: rare, and not worth taking apart
    sql = sql[:_LOOKED_AT]
    if _LASTING.match(sql) or (";" in sql and any(_LASTING.match(part) for part in sql.split(";"))):
        return True
    lower = sql.lower()
    if "set_config" in lower:
        return "set_config" in _UNTIL_THE_END.sub("", lower)
    return "advisory_lock" in lower


def is_changed(connection: BaseDatabaseWrapper) -> bool:
    """Whether the session that the connection has now was changed by a statement that was seen."""
    if connection.connection is None:
        return False
    return any(isinstance(wrapper, _Session) and wrapper.changed for wrapper in connection.execute_wrappers)


class _Session:
    def __init__(self) -> None:
        self.changed = False

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if not self.changed:
            self.changed = lasts(sql)
        return execute(sql, params, many, context)


def _watch(*, connection: BaseDatabaseWrapper, **kwargs: Any) -> None:
    # What receivers of the project have set until now is how it wants its sessions.
    for wrapper in connection.execute_wrappers:
        if isinstance(wrapper, _Session):
            wrapper.changed = False
            return
    connection.execute_wrappers.insert(0, _Session())  # first, because others are taken off from the end


connection_created.connect(_watch, dispatch_uid="headgate_django.worker.session")
