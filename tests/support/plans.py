"""Every statement on the queue's tables as it is really executed: its plan, and how much it touched."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connections

TABLES = "headgate_django_"
SCANS = {"Seq Scan"}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """One executed statement. ``touched``: buffers on PostgreSQL, steps of the virtual machine on SQLite."""

    sql: str
    plan: str
    indexes: frozenset[str]
    scanned: frozenset[str]
    """Tables that were read from end to end."""
    sorts: bool
    rows: int = 0
    """Rows read, those that a filter threw away included (PostgreSQL)."""
    touched: int = 0


@dataclass
class Watch:
    """What was executed while it lasted."""

    statements: list[Statement] = field(default_factory=list)

    def one(self, marker: str) -> Statement:
        """The first statement that contains ``marker``."""
        found = [statement for statement in self.statements if marker in statement.sql]
        assert found, f"no statement with {marker!r} among {[statement.sql[:80] for statement in self.statements]}"
        return found[0]

    @property
    def touched(self) -> int:
        return sum(statement.touched for statement in self.statements)


@contextmanager
def watched(using: str = "default") -> Iterator[Watch]:
    """Explain each statement on our tables, then execute it. Must be inside a transaction."""
    connection = connections[using]
    explain = {"postgresql": _postgres, "sqlite": _sqlite}[connection.vendor]
    watch = Watch()

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if TABLES not in sql:
            return execute(sql, params, many, context)
        return explain(watch, connection, execute, (sql, params, many, context))

    with connection.execute_wrapper(wrapper):
        yield watch


def _postgres(watch: Watch, connection: Any, execute: Any, call: tuple[Any, ...]) -> Any:
    sql, params, *_ = call
    with connection.connection.cursor() as cursor:
        cursor.execute("SAVEPOINT explained")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
        cursor.execute("ROLLBACK TO SAVEPOINT explained")
    root = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    nodes = list(_nodes(root))
    watch.statements.append(
        Statement(
            sql=sql,
            plan=json.dumps(root, indent=1),
            indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
            scanned=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] in SCANS),
            sorts=any(node["Node Type"] in ("Sort", "Incremental Sort") for node in nodes),
            rows=sum(_rows(node) for node in nodes if "Relation Name" in node or "Index Name" in node),
            touched=root["Shared Hit Blocks"] + root["Shared Read Blocks"],
        )
    )
    return execute(*call)


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _rows(node: dict[str, Any]) -> int:
    read = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return round(read * node.get("Actual Loops", 1))


def _sqlite(watch: Watch, connection: Any, execute: Any, call: tuple[Any, ...]) -> Any:
    sql, params, *_ = call
    with connection.cursor() as cursor:
        raw = cursor.cursor  # not the wrapped one, which would come here again
        raw.execute(f"EXPLAIN QUERY PLAN {sql}", params or ())
        lines = [row[3] for row in raw.fetchall()]
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.connection.set_progress_handler(count, 1)
    try:
        result = execute(*call)
    finally:
        connection.connection.set_progress_handler(None, 0)
    watch.statements.append(
        Statement(
            sql=sql,
            plan="\n".join(lines),
            indexes=frozenset(line.split(" INDEX ")[1].split(" ")[0] for line in lines if " INDEX " in line),
            scanned=frozenset(line.split(" ")[1] for line in lines if line.startswith("SCAN ")),
            sorts=any("TEMP B-TREE FOR" in line and "ORDER BY" in line for line in lines),
            touched=steps,
        )
    )
    return result
