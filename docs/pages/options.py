"""The reference pages of what can be set in code: job options and settings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from types import ModuleType

from docs.pages.markdown import page, table
from headgate_django import conf, job
from headgate_django.jobs import options as declared_options

DECORATOR_ONLY = {
    "kind": ("text", "`module:function`", "Name of the job in the database. Give one: a rename of the function "
             "would otherwise orphan stored jobs. 1 to 128 of `A-Z a-z 0-9 _ - [ ] < > / . : +`."),
    "aliases": ("list of text", "`()`", "Former kinds that this handler also runs."),
    "schema_version": ("int", "`1`", "Version of the arguments. Older ones go through `@handler.upcaster(n)`."),
    "backoff": ("callable", "exponential", "`backoff(exception, attempt)` gives the time until the next try, "
                "or None to give up."),
    "retry_on": ("exception classes", "all", "When given, every other exception archives the job at once."),
    "skip_on": ("exception classes", "none", "These archive the job at once."),
    "isolated": ("bool", "`False`", "Run each job in a process of its own."),
    "memory_limit": ("bytes, or text such as `256MB`", "no limit", "How much memory that process may take, at "
                     "least 32MB; units are of 1024. Needs `isolated`."),
    "atomic": ("bool", "`False`", "The handler's work in the queue's database and its ack are one transaction. "
               "Not for `async def`."),
}  # fmt: skip

PER_CALL = "`using()` only"


@dataclass(frozen=True)
class Attribute:
    """One field of a dataclass, as its source shows it."""

    name: str
    annotation: str
    default: str
    text: str


def job_options() -> str:
    """docs/reference/job-options.md."""
    declared = [name for name in inspect.signature(job).parameters if name != "options"]
    assert list(DECORATOR_ONLY) == declared, f"describe the parameters of @job: {declared}"
    options = list(_attributes(declared_options, "Options"))
    return page(
        "Job options",
        "headgate_django/jobs/options.py",
        "Options are defaults in `@job(...)`, and can be changed for one call with `handler.using(...)`. An "
        "unknown name is refused with a suggestion. A duration is a number of seconds or a `timedelta`; an "
        "instant is an aware `datetime`.",
        "## `@job` and `using()`",
        table(("Option", "Type", "Default", "Meaning"), (_option_row(option) for option in options)),
        "## `@job` only",
        table(
            ("Parameter", "Type", "Default", "Meaning"),
            ((f"`{name}`", *row) for name, row in DECORATOR_ONLY.items()),
        ),
        "The first parameter, `kind`, is positional. `@job` alone is enough: every option has a default.",
        "`isolated`, `memory_limit` and `atomic` say how a handler is executed, so they cannot be changed for one "
        "job with `using()`.",
    )


def _option_row(option: Attribute) -> tuple[str, ...]:
    per_call = f" ({PER_CALL})" if option.name in {"id", "at", "headers"} else ""
    words = {
        "Duration | None": "duration",
        "Duration | datetime | None": "duration or instant",
        "datetime | None": "instant",
        "tuple[str, ...]": "list of text",
        "Mapping[str, str]": "dict of text",
        "int | None": "int",
        "str": "text",
        "bool": "bool",
        "int": "int",
    }
    values = {"DEFAULT_QUEUE": '`"default"`', "field(default_factory=dict)": "`{}`", "''": "empty", "None": ""}
    default = values.get(option.default, f"`{option.default}`")
    return f"`{option.name}`{per_call}", words[option.annotation], default, option.text


def settings() -> str:
    """docs/reference/settings.md."""
    kinds = {
        conf._text: "text",
        conf._positive: "int, at least 1",
        conf._duration: "seconds or timedelta",
        conf._keep: "text",
        conf._listen: "bool or text",
        conf._mapping: "dict",
        conf._size: "bytes, or text such as `64KB`",
    }
    rows = [
        (f"`{attribute.name.upper()}`", kinds.get(conf._PARSERS[attribute.name.upper()], "dict"),
         _default_setting(attribute.name), attribute.text)
        for attribute in _attributes(conf, "Config")
    ]  # fmt: skip
    return page(
        "Settings",
        "headgate_django/conf.py",
        "All settings are keys of one dict, `HEADGATE`, in Django's settings. None is required. An unknown key is "
        "an error with a suggestion.",
        '```python\nHEADGATE = {\n    "CRASH_LIMIT": 5,\n    "WORKER": {"THREADS": 8},\n}\n```',
        table(("Key", "Type", "Default", "Meaning"), rows),
    )


def _default_setting(name: str) -> str:
    value = getattr(conf.Config(), name)
    if conf._PARSERS[name.upper()] is conf._duration:
        return str(timedelta(milliseconds=value)).removesuffix(", 0:00:00")
    return f"`{value!r}`" if value not in ("", {}) else "empty"


def _attributes(module: ModuleType, name: str) -> Iterator[Attribute]:
    tree = ast.parse(inspect.getsource(module))
    body = next(node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    for node, following in pairwise(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            text = following.value if isinstance(following, ast.Expr) else None
            assert isinstance(text, ast.Constant), f"{name}.{node.target.id} has no docstring"
            yield Attribute(
                node.target.id,
                ast.unparse(node.annotation),
                ast.unparse(node.value),
                str(text.value).replace("``", "`"),
            )
