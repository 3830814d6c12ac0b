"""What the command and the job on Spark make of the same options is the same recipe."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.cli.main import parser_of
from cdcv2.cli.options.capture import recipe_of
from cdcv2.connectors.debezium.envelope import FROM_STATE, Recipe
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType

SCHEMA = {"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]}


def asked(folder: Path, **more: str) -> Recipe:
    """The recipe of these options, the rest left out."""
    words = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", value)]
    given = ["d.jsonl", "--prefix", "shop", "--rows", str(folder), "--into", "logs", *words]
    return recipe_of(parser_of("capture").parse_args(given))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Row types of two tables."""
    for table in ("public.a", "größe.тест"):
        (tmp_path / f"{table}.avsc").write_text(json.dumps(SCHEMA))
    return tmp_path


def test_without_a_choice_all_tables_with_a_row_type_are_captured(rows: Path) -> None:
    """And nothing else is assumed."""
    found = asked(rows)

    assert {"public.a": RowType(SCHEMA), "größe.тест": RowType(SCHEMA)} == found.tables
    assert ("shop", "initial", None, frozenset()) == (
        found.prefix, found.snapshot, found.notification_topic, found.full_identity)


def test_each_option_is_in_the_recipe(rows: Path) -> None:
    """Lists have commas, and perhaps spaces."""
    found = asked(rows, tables=" public.a ,", snapshot="none", notifications="n", full_identity="public.a, ",
                  before=FROM_STATE)

    assert (["public.a"], "none", "n", {"public.a"}, FROM_STATE) == (
        list(found.tables), found.snapshot, found.notification_topic, found.full_identity, found.before)


@pytest.mark.parametrize(
    ("more", "said"),
    [({"tables": "public.b"}, "the row type of public.b is missing: .*public.b.avsc"),
     ({"tables": "public.aa"}, "public.aa.avsc; make it with cdcv2 rows; did you mean public.a?"),
     ({"tables": ","}, "--tables ',' names no table"), ({"tables": ""}, "--tables '' names no table"),
     ({"notifications": ""}, "--notifications '' names no topic"), ({"empty": ""}, "--empty '' names no table"),
     ({"full_identity": ""}, "--full-identity '' names no table"),
     ({"full_identity": " , "}, "--full-identity ' , ' names no table"),
     ({"full_identity": "public.b"}, "public.b, which is not captured"),
     ({"tables": "../public.a"}, "the table '../public.a' cannot be taken: .*'/'")],
)
def test_what_cannot_be_is_refused(rows: Path, more: dict[str, str], said: str) -> None:
    """With the option's value."""
    with pytest.raises(UsageError, match=said):
        asked(rows, **more)


@pytest.mark.parametrize(("content", "said"), [("{", "is no JSON"), ('"long"', "an Avro record schema")])
def test_a_file_without_a_row_type_is_wrong_usage(rows: Path, content: str, said: str) -> None:
    """Of every capture."""
    (rows / "public.a.avsc").write_text(content)
    with pytest.raises(UsageError, match=f"public.a.avsc.*{said}"):
        asked(rows)


def test_a_folder_without_row_types_is_refused(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(UsageError, match="there is no row type in .*cdcv2 rows"):
        asked(tmp_path)
