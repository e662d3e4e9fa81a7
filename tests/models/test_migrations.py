"""The migrations make the tables that the models describe, and nothing beside them."""

from __future__ import annotations

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, models

from headgate_django.models import Job
from headgate_django.models.fields import KeyField
from headgate_django.models.store import fetch

MODELS = [model for model in apps.get_app_config("headgate_django").get_models() if not model._meta.proxy]


def described(model: type[models.Model]) -> set[str]:
    return {item.name for item in (*model._meta.indexes, *model._meta.constraints)}


def stored(model: type[models.Model]) -> dict[str, dict]:
    with connection.cursor() as cursor:
        return connection.introspection.get_constraints(cursor, model._meta.db_table)


@pytest.mark.django_db
def test_no_migration_is_missing():
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_every_index_and_constraint_of_a_model_is_in_the_database(model):
    assert described(model) <= set(stored(model))


@pytest.mark.django_db
def test_jobs_have_no_index_that_nobody_asked_for():
    # Each index costs every transition of a job; PostgreSQL's second index for LIKE would be one of them.
    indexes = {name for name, facts in stored(Job).items() if facts["index"] and not facts["primary_key"]}

    assert indexes == {index.name for index in Job._meta.indexes}


@pytest.mark.django_db
def test_names_are_ordered_by_code_point_as_python_does():
    names = ["a", "B", "é", "z", "Z", "ä", "日本", "_", "a b", "ab", "\U0001f600", "\uffee"]
    values = ", ".join(["(%s)"] * len(names))

    column = 'CAST(column1 AS varchar(255)) COLLATE "C"' if connection.vendor == "postgresql" else "column1"
    rows = fetch("default", f"SELECT column1 FROM (VALUES {values}) AS given ORDER BY {column}", names)

    assert [row[0] for row in rows] == sorted(names)


@pytest.mark.django_db
@pytest.mark.parametrize("model", MODELS)
def test_every_name_column_has_the_binary_collation(model, vendor):
    if vendor != "postgresql":
        assert all(field.db_type(connection).startswith("varchar") for field in key_fields(model))
        return
    rows = fetch(
        "default",
        "SELECT column_name, collation_name FROM information_schema.columns WHERE table_name = %s",
        [model._meta.db_table],
    )

    collations = dict(rows)
    assert {field.column: collations[field.column] for field in key_fields(model)} == {
        field.column: "C" for field in key_fields(model)
    }


def key_fields(model: type[models.Model]) -> list[models.Field]:
    own = [field for field in model._meta.local_fields if isinstance(field, KeyField)]
    to_jobs = [field for field in model._meta.local_fields if field.related_model is Job]
    return own + to_jobs


@pytest.mark.django_db(transaction=True)
def test_the_migrations_can_be_taken_back_and_applied_again():
    before = {model: sorted(stored(model)) for model in MODELS}
    try:
        call_command("migrate", "headgate_django", "zero", verbosity=0)
        assert not [name for name in connection.introspection.table_names() if name.startswith("headgate")]
    finally:
        call_command("migrate", verbosity=0)

    assert {model: sorted(stored(model)) for model in MODELS} == before
