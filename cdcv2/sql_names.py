"""The names of tables in SQL: taken apart, in quotes, and in a list of an option.

A table is named ``schema.table``, or without its schema. The schema ends at the first dot: the rest is the table's own
name, which may have dots.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Letters that are a name without quotes, if they are no word of SQL.
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")
#: The words that are no name without quotes: reserved in PostgreSQL, also where they may name a function or a type.
_RESERVED = frozenset("""
    all analyse analyze and any array as asc asymmetric authorization binary both case cast check collate collation
    column concurrently constraint create cross current_catalog current_date current_role current_schema current_time
    current_timestamp current_user default deferrable desc distinct do else end except false fetch for foreign freeze
    from full grant group having ilike in initially inner intersect into is isnull join lateral leading left like limit
    localtime localtimestamp natural not notnull null offset on only or order outer overlaps placing primary references
    returning right select session_user similar some symmetric system_user table tablesample then to trailing true union
    unique user using variadic verbose when where window with
""".split())  # fmt: skip


def parts_of(table: str) -> list[str]:
    """The schema, if it is named, and the table's own name.

    >>> parts_of("public.we.ird"), parts_of("orders")
    (['public', 'we.ird'], ['orders'])
    """
    return table.split(".", 1)


def quoted(name: str) -> str:
    """One name in quotes, in which it takes every character.

    >>> print(quoted('5" pipe'))
    "5"" pipe"
    """
    return '"' + name.replace('"', '""') + '"'


def sql_name(name: str) -> str:
    """One name, for a statement that a person runs: in quotes where it needs them.

    >>> print(sql_name("orders"), sql_name("Orders"), sql_name("order"))
    orders "Orders" "order"
    """
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else quoted(name)


def sql_table(table: str) -> str:
    """A table, for a statement that a person runs.

    >>> print(sql_table("public.orders"), sql_table("Shop.we.ird"))
    public.orders "Shop"."we.ird"
    """
    return ".".join(map(sql_name, parts_of(table)))


def name_list(names: Iterable[str]) -> str:
    """Names as options take a list of them: with commas, and ``\\,`` for one in a name.

    >>> print(name_list(["public.orders", "public.Odd, one"]))
    public.orders,public.Odd\\, one
    """
    return ",".join(name.replace(",", "\\,") for name in names)


def names_in(text: str) -> list[str]:
    """The names in such a list, without blanks around them, and without empty ones.

    >>> names_in(name_list(["public.orders", "public.Odd, one"]) + ", ,")
    ['public.orders', 'public.Odd, one']
    """
    names = (name.strip().replace("\\,", ",") for name in re.split(r"(?<!\\),", text))
    return [name for name in names if name]
