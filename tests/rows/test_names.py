"""Column names of any kind have one Avro name and one attribute each, and come back from both."""

from __future__ import annotations

import keyword
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdcv2.errors import MalformedError
from cdcv2.rows.names import avro_name, column_name, python_name

COLUMNS = st.text(st.one_of(st.sampled_from("_x0025FAa 1é\U0001f600"), st.characters(codec="utf-8")), min_size=1)
AVRO_NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True)


@given(COLUMNS)
@example("_x0020_")
@example("_x0020 ")
@example(" _x0020_")
@example("__x005F_")
@example("\x00")
@example("\n")
@example("a\n")
def test_every_column_name_comes_back_from_its_avro_name(column: str) -> None:
    """The name on the wire is for Avro; people get the database's."""
    name = avro_name(column)

    assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)
    assert column == column_name(name)


@given(AVRO_NAMES)
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    """A name that is fine for Avro and looks like no escape is not touched."""
    if not re.search("_x[0-9A-F]{4}", name):
        assert name == avro_name(name) == column_name(name)
    assert avro_name(column_name(name)) == name or column_name(name) == name


NEAR_MISSES = keyword.kwlist + ["_", "__", "class_", "column_id", "_id", "columncolumn_"]


def avro_name_of(attribute: str) -> str:
    """The Avro name whose attribute this is."""
    if keyword.iskeyword(attribute.rstrip("_")):
        return attribute[:-1]
    return attribute.removeprefix("column") if re.match(r"(column)*_", attribute) else attribute


@given(st.one_of(AVRO_NAMES, st.sampled_from(NEAR_MISSES)))
def test_every_avro_name_comes_back_from_its_attribute(name: str) -> None:
    """The attribute is a name that a named tuple takes, and another name has another attribute."""
    attribute = python_name(name)

    assert attribute.isidentifier() and not keyword.iskeyword(attribute) and not attribute.startswith("_")
    assert name == avro_name_of(attribute)


@pytest.mark.parametrize(("column", "name"), [
    ("unit price", "unit_x0020_price"), ("1st", "_x0031_st"), ("\U0001f600", "_x0001F600_"), ("a-b", "a_x002D_b"),
    ("_x0020_", "_x005F_x0020_"), ("_xyz", "_xyz"), ("größe", "gr_x00F6__x00DF_e"),
])
def test_names_are_escaped_as_sql_xml_does(column: str, name: str) -> None:
    """A known convention, which other tools can undo."""
    assert name == avro_name(column)


@pytest.mark.parametrize("column", ["", "a\ud800"])
def test_what_is_no_name_is_refused(column: str) -> None:
    """An empty name, and one that has no UTF-8."""
    with pytest.raises(MalformedError):
        avro_name(column)


@pytest.mark.parametrize("name", ["_xD800_", "_xFFFFFFFF_", "_x0061_", "_x00e9_"])
def test_an_escape_that_is_never_made_is_an_ordinary_name(name: str) -> None:
    """Somebody's column may be called so."""
    assert name == column_name(name)
