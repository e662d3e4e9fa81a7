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


@dataclass(kw_only=True)
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
    current: Statement | None = None

    def step(self) -> None:
        """One step of SQLite's virtual machine, on behalf of the statement that runs or whose rows are fetched."""
        if self.current is not None:
            self.current.touched += 1

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
        watch.current = None
        if TABLES in sql:
            statement = explain(connection, sql, params)
            watch.statements.append(statement)
            watch.current = statement
        return execute(sql, params, many, context)

    with connection.execute_wrapper(wrapper), _counting(connection, watch):
        yield watch


@contextmanager
def _counting(connection: Any, watch: Watch) -> Iterator[None]:
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    connection.connection.set_progress_handler(watch.step, 1)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None, 0)


def _postgres(connection: Any, sql: str, params: Any) -> Statement:
    with connection.connection.cursor() as cursor:
        cursor.execute("SAVEPOINT explained")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}", params)
        plan = cursor.fetchone()[0]
        cursor.execute("ROLLBACK TO SAVEPOINT explained")
    root = (json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]
    nodes = list(_nodes(root))
    return Statement(
        sql=sql,
        plan=json.dumps(root, indent=1),
        indexes=frozenset(node["Index Name"] for node in nodes if "Index Name" in node),
        scanned=frozenset(node["Relation Name"] for node in nodes if node["Node Type"] in SCANS),
        sorts=any(node["Node Type"] in ("Sort", "Incremental Sort") for node in nodes),
        rows=sum(_rows(node) for node in nodes if "Relation Name" in node or "Index Name" in node),
        touched=root["Shared Hit Blocks"] + root["Shared Read Blocks"],
    )


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _rows(node: dict[str, Any]) -> int:
    read = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return round(read * node.get("Actual Loops", 1))


def _sqlite(connection: Any, sql: str, params: Any) -> Statement:
    with connection.cursor() as cursor:
        raw = cursor.cursor  # not the wrapped one, which would come here again
        raw.execute(f"EXPLAIN QUERY PLAN {sql}", params or ())
        lines = [row[3] for row in raw.fetchall()]
    return Statement(
        sql=sql,
        plan="\n".join(lines),
        indexes=frozenset(line.split(" INDEX ")[1].split(" ")[0] for line in lines if " INDEX " in line),
        scanned=frozenset(line.split(" ")[1] for line in lines if line.startswith("SCAN ")),
        sorts=any("TEMP B-TREE FOR" in line and "ORDER BY" in line for line in lines),
    )
