"""What Debezium's PostgreSQL connector leaves out, by its settings: tables, columns, rows, changes, and what was meant.

What is not judged here, as only Connect or Java can read it, counts as sent: a reference (``${...}``), or a pattern
that is none in Python.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from cdcv2.connectors.debezium.config import CONVERTING, JSON_CONVERTER, exact_pattern
from cdcv2.sql_names import parts_of

#: The setting that names the tables of a connector.
TABLES = "table.include.list"
#: Values of snapshot.mode with which a connector reads no rows before the changes.
_WITHOUT_SNAPSHOT = ("never", "no_data")
#: Values of it with which a connector cannot be captured, and why.
_OTHER_SNAPSHOTS = {
    "always": "it takes a snapshot at each start",
    "initial_only": "it ends after its snapshot, and sends no change",
    "configuration_based": "which rows its snapshot reads is not known",
    "custom": "which rows its snapshot reads is not known",
}
_INCLUDED, _KEYS = "table.include.list", "message.key.columns"
_OVERRIDES, _COLLECTIONS = "snapshot.select.statement.overrides", "snapshot.include.collection.list"
#: Setting -> the only value with which what fails stops the connector, which is the default, too; and what others do.
_STRICT = {
    "errors.tolerance": ("none", "Connect leaves out each record that it cannot convert"),
    "event.processing.failure.handling.mode": ("fail", "the connector leaves out each change that it cannot process"),
}
#: The setting of Connect's JSON converter by which a NULL becomes the DEFAULT of its column, as it does by default.
_NULLS = "value.converter.replace.null.with.default"
#: Setting -> the values with which a capture reads what is in the database, what it is if it is left out, and what
#: another value does without a sign: the record is read, and means something else.
_READ_WITH: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "plugin.name": (("pgoutput",), "decoderbufs", "TRUNCATE is not sent by this plugin"),
    CONVERTING: (("fail",), "warn", "a value that Debezium cannot convert is sent as NULL"),
    "binary.handling.mode": (("bytes", "base64"), "bytes", "values of bytea are read as other bytes"),
    "decimal.handling.mode": (("string",), "precise", "values of numeric are sent in another form"),
    "time.precision.mode": (("adaptive",), "adaptive", "dates and times are sent in other units"),
    "unavailable.value.placeholder": (
        ("__debezium_unavailable_value",), "__debezium_unavailable_value",
        "a long value that an update leaves as it is becomes this text",
    ),
    _NULLS: (("false",), "true", "a NULL is sent as the DEFAULT of its column"),
}
#: The same, of what a snapshot reads.
_SNAPSHOT_WITH: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "snapshot.isolation.mode": (
        ("serializable", "repeatable_read"), "serializable", "the rows of its snapshot are of several moments",
    ),
    "snapshot.query.mode": (("select_all",), "select_all", "which rows its snapshot reads is not known"),
}
#: Where a connector reads and writes -> what that is if it is left out.
_PLACES = {
    "slot.name": "debezium", "publication.name": "dbz_publication", "database.dbname": "", "topic.prefix": "",
}
#: Parameters of the slot's stream; of others the server may leave out changes (``origin``, ``publication_names``), or
#: send what Debezium does not read. These are the defaults.
_STREAM, _STREAMED_WITH = "slot.stream.params", {"origin=any", "messages=true"}
#: Settings that change values of columns on purpose, and those that change rows, where they have a value.
_MASKING = ("column.mask.", "column.truncate.")
_CHANGING = (_OVERRIDES, _KEYS, *_MASKING)
#: Settings that name code by which records are changed -> what that may do, and what it is.
_CHANGERS = {
    "transforms": ("a transform may leave out records, or change their values",
                   "leave transforms out, or start another connector, without them"),
    "converters": ("a custom converter may send other values", "leave converters out"),
    "post.processors": ("a post processor may change rows", "leave post.processors out"),
}  # fmt: skip
#: A pattern that is a name; and one for which case counts, as :func:`exact_pattern` makes it.
_LITERAL, _EXACT = re.compile(r"(?:[\w.\-\"'%@,/:;<=>`!]|\\[^\w])+"), re.compile(r"\(\?-i:(.*)\)", re.DOTALL)
#: As in Java, case and letters are those of ASCII.
_AS_JAVA = re.IGNORECASE | re.ASCII


class Omission(NamedTuple):
    """A setting by which rows or changes are not sent, or other values: as it is, what it does, and what to do."""

    setting: str
    why: str
    remedy: str


def unsent_tables(config: Mapping[str, Any], tables: Iterable[str]) -> list[str]:
    """Those of the tables that the filters of a connector leave out, sorted. A pattern that is none here leaves out
    nothing: Connect may resolve it, or Java read it.

    >>> unsent_tables({"table.include.list": r"public\\.orders, PUBLIC\\.i.*"}, ["public.items", "public.sold"])
    ['public.sold']
    >>> unsent_tables({"schema.exclude.list": "old"}, ["public.items", "old.items"])
    ['old.items']
    >>> unsent_tables({"table.include.list": r"public\\.\\w{5\\,6},a[b&&[^c]]"}, ["public.items"])
    []
    """
    return sorted(
        table for table in tables
        if not all(_is_sent(config, what, name) for what, name in _names_of(table).items())
    )


def unsent_columns(config: Mapping[str, Any], table: str, columns: Iterable[str]) -> list[str]:
    """Those of the columns of a table that the filters of a connector leave out, in order.

    >>> unsent_columns({"column.exclude.list": r"public\\.users\\.photo,.*\\.place"}, "public.users", ["id", "photo"])
    ['photo']
    """
    return [column for column in columns if not _is_sent(config, "column", f"{table}.{column}")]


def unread_tables(config: Mapping[str, Any], tables: Collection[str]) -> list[str]:
    """The tables that a connector reads by name, and that are none of these, sorted. Patterns are not judged.

    >>> unread_tables({"table.include.list": r"public\\.orders,public.Items,audit\\..*"}, ["public.orders"])
    ['public.Items']
    >>> unread_tables({"table.include.list": "a.b, a.sig", "signal.data.collection": "a.sig"}, ["a.b"])
    []
    >>> unread_tables({"table.include.list": r"(?-i:a\\.b),(?-i:a\\.B)"}, ["a.b"])
    ['a.B']
    """
    named = {one: name for one in _patterns(config.get(_INCLUDED)) if (name := _name_of(one)) is not None}
    return sorted(name for one, name in named.items() if not _meant(one, config, tables))


def exact_list(config: Mapping[str, Any], tables: Collection[str]) -> str:
    """``table.include.list``, with entries that mean these tables alone where they name them. Other entries stay.

    By a name in the list the connector would take its snapshot also of a table whose name differs in case.

    >>> print(exact_list({"table.include.list": r"PUBLIC.orders, audit\\..*"}, ["public.orders"]))
    (?-i:public\\.orders),audit\\..*
    """
    found: list[str] = []
    for one in _patterns(config.get(_INCLUDED)):
        meant = [] if _name_of(one) is None else _meant(one, config, tables)
        found += map(exact_pattern, meant) if meant else [one.replace(",", "\\,")]
    return ",".join(dict.fromkeys(found))


def reads_all_tables(config: Mapping[str, Any]) -> bool:
    """Whether a connector takes its snapshot of each table of its database.

    >>> reads_all_tables({"topic.prefix": "shop"}), reads_all_tables({"schema.include.list": "public"})
    (True, False)
    """
    filters = (f"{what}.{way}.list" for what in ("schema", "table") for way in ("include", "exclude"))
    return takes_snapshot(config) and not any(_patterns(config.get(name)) for name in filters)


def omissions(
    config: Mapping[str, Any], tables: Mapping[str, Iterable[str]], *, by_key: bool = False
) -> Iterator[Omission]:
    """The settings of a connector by which it leaves out rows or changes of the tables, each with its columns, or sends
    values that mean something else. ``by_key``: whether old rows are looked up by the key of a record.

    It is long as each setting has its reason and its remedy here.

    >>> right = {"plugin.name": "pgoutput", CONVERTING: "fail"}
    >>> more = {"decimal.handling.mode": "string", "skipped.operations": "none", "errors.tolerance": "all"}
    >>> [one.setting for one in omissions({**right, **more}, {})]
    ['errors.tolerance=all']
    >>> for one in omissions({"value.converter": JSON_CONVERTER, **right}, {}): print(one.setting)
    decimal.handling.mode=precise
    value.converter.replace.null.with.default=true
    skipped.operations=t
    """
    for name in _lenient(config):
        yield Omission(f"{name}={config[name]}", _STRICT[name][1], f"leave {name} out")
    read_with = {**_READ_WITH, **_SNAPSHOT_WITH}
    for name, value in _misread(config).items():
        right, default, why = read_with[name]
        yield Omission(f"{name}={value}", why, f"leave {name} out" if default in right else f"set {name}={right[0]}")
    if by_key and config.get(_KEYS):
        yield Omission(f"{_KEYS}={config[_KEYS]}", "two rows may have one key, and before-images are looked up by it",
                       f"leave {_KEYS} out, or take before: from-envelope")  # fmt: skip
    if _skipped(config):
        skipped = ",".join(sorted(_skipped(config)))
        yield Omission(f"skipped.operations={skipped}", f"the connector does not send {_skipped_words(config)}",
                       "set skipped.operations=none")  # fmt: skip
    if str(config.get("slot.drop.on.stop")).lower() == "true":
        yield Omission("slot.drop.on.stop=true", "what is committed until the next start of the connector is not sent",
                       "set slot.drop.on.stop=false")  # fmt: skip
    parameters = sorted(_stream_parameters(config))
    if parameters:
        yield Omission(f"{_STREAM} with {', '.join(parameters)}", "the server may leave out changes by it",
                       f"leave {_STREAM} out")  # fmt: skip
    for name, (why, remedy) in _CHANGERS.items():
        if config.get(name):
            yield Omission(f"{name}={config[name]}", why, remedy)
    mode = str(config.get("snapshot.mode", "initial")).lower()
    if mode in _OTHER_SNAPSHOTS:
        yield Omission(f"snapshot.mode={mode}", _OTHER_SNAPSHOTS[mode], "set snapshot.mode=initial")
    if takes_snapshot(config):
        selected = {one.replace("\\", "").casefold() for one in _patterns(config.get(_OVERRIDES))}
        found = sorted(table for table in tables if table.casefold() in selected)
        if found:
            yield Omission(f"{_OVERRIDES} for {', '.join(found)}", "its snapshot may leave out rows",
                           f"leave these tables out of {_OVERRIDES}")  # fmt: skip
        listed = str(config.get(_COLLECTIONS) or "")
        found = sorted(table for table in tables if _patterns(listed) and _matched(listed, table) is False)
        if found:
            yield Omission(f"{_COLLECTIONS} without {', '.join(found)}", "its snapshot leaves out all their rows",
                           f"leave {_COLLECTIONS} out")  # fmt: skip
    found = sorted(
        f"{table}.{column}" for table, columns in tables.items() for column in columns
        if not _is_sent(config, "column", f"{table}.{column}")
    )
    if found:
        yield Omission(f"{_filter(config, 'column')} without {', '.join(found)}", "no row has a value there",
                       "send these columns, or leave them out of the row types")  # fmt: skip


def less_sent(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names of the settings by which a connector sends less now than before, or other rows, sorted.

    >>> less_sent({"table.include.list": "public.orders,public.items"}, {"table.include.list": "public.items"})
    ['table.include.list']
    >>> less_sent({"table.include.list": "public.items"}, {"table.include.list": "public.items,public.orders"})
    []
    >>> less_sent({"skipped.operations": "none"}, {"errors.tolerance": "all"})
    ['errors.tolerance', 'skipped.operations']
    """
    found = {*_filters_with_less(before, now), *(name for name in _lenient(now) if name not in _lenient(before))}
    for name, default in _PLACES.items():
        old, new = (str(config.get(name, default)) for config in (before, now))
        if old != new and "${" not in old + new:
            found.add(name)
    if _skipped(now) - _skipped(before):
        found.add("skipped.operations")
    found |= {*_misread(now)} - {*_misread(before)}
    if _stream_parameters(now) - _stream_parameters(before):
        found.add(_STREAM)
    other = {name for name in {*before, *now} if before.get(name) != now.get(name)}
    found |= {name for name in other if name.startswith(_CHANGING) and now.get(name)}
    for changer in filter(now.get, _CHANGERS):
        parts = ["transforms", "predicates"] if changer == "transforms" else _patterns(now[changer])
        found |= {name for name in other if name == changer or name.startswith(tuple(f"{part}." for part in parts))}
    return sorted(found)


def masked_columns(config: Mapping[str, Any], tables: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """The columns that the settings of a connector mask or shorten -> the setting. What is sent of them is meant, and
    it is not what is in the database.

    >>> masked_columns({"column.mask.with.0.chars": r".*\\.(email|phone)"}, {"public.users": ["id", "email"]})
    {'public.users.email': 'column.mask.with.0.chars'}
    """
    settings = {name: str(value) for name, value in sorted(config.items()) if name.startswith(_MASKING)}
    return {
        f"{table}.{column}": name for table, columns in tables.items() for column in columns
        for name, value in settings.items() if _matched(value, f"{table}.{column}")
    }


def _filters_with_less(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    names = [_name_of(one) for one in _patterns(before.get(_INCLUDED))]
    tables = [name for name in names if name is not None] if None not in names else []
    for what in ("schema", "table"):
        # Where its tables are known by name, only these count.
        if any(_is_sent(before, what, _names_of(one)[what]) and not _is_sent(now, what, _names_of(one)[what])
               for one in tables):  # fmt: skip
            yield _filter(now, what)
    kinds = ("column",) if tables else ("column", "schema", "table")
    for name in (_COLLECTIONS, *(f"{what}.include.list" for what in kinds)):
        known = tables if name == _COLLECTIONS else []
        if _includes_less(str(before.get(name) or ""), str(now.get(name) or ""), known):
            yield name
    for name in (f"{what}.exclude.list" for what in kinds):
        more = {*_patterns(now.get(name))} - {*_patterns(before.get(name))}
        if any(not tables or _meets(_name_of(one), tables) for one in more):
            yield name


def _meets(column: str | None, tables: Collection[str]) -> bool:
    """Whether a column's name is of one of the tables; so is a pattern that may mean several."""
    return column is None or any(column.casefold().startswith(f"{table}.".casefold()) for table in tables)


def _includes_less(before: str, now: str, names: list[str]) -> bool:
    """Whether a list has less than before; an empty one has all. ``names``: all that count; none: not known."""
    if not _patterns(now):
        return False
    if names:
        return any(_matched(now, one) is False for one in names if not _patterns(before) or _matched(before, one))
    kept = {*_patterns(now)}
    gone = [_name_of(one) for one in _patterns(before) if one not in kept]
    return not _patterns(before) or any(name is None or _matched(now, name) is False for name in gone)


def _names_of(table: str) -> dict[str, str]:
    return {"schema": parts_of(table)[0], "table": table}


def _is_sent(config: Mapping[str, Any], what: str, name: str) -> bool:
    text = str(config.get(_filter(config, what)) or "")
    matched = _matched(text, name)
    return not _patterns(text) or matched is None or matched == _filter(config, what).endswith(".include.list")


def _filter(config: Mapping[str, Any], what: str) -> str:
    """The name of the setting that filters them."""
    include = f"{what}.include.list"
    return include if config.get(include) else f"{what}.exclude.list"


def _patterns(text: object) -> list[str]:
    # A comma that is meant itself is escaped.
    return [one.strip().replace("\\,", ",") for one in re.split(r"(?<!\\),", str(text or "")) if one.strip()]


def _matched(text: str, name: str) -> bool | None:
    """Whether one of the patterns means the name; None: they cannot be read here."""
    if "${" in text or "&&" in text:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            return any(re.fullmatch(one, name, _AS_JAVA) for one in _patterns(text))
    except re.error:
        return None


def _name_of(pattern: str) -> str | None:
    """The name that a pattern is; None: it may mean several."""
    exact = _EXACT.fullmatch(pattern)
    literal = pattern if exact is None else exact[1]
    return re.sub(r"\\(.)", r"\1", literal, flags=re.DOTALL) if _LITERAL.fullmatch(literal) else None


def _meant(pattern: str, config: Mapping[str, Any], tables: Iterable[str]) -> list[str]:
    """Those of the tables, and of signals, that a pattern means."""
    known = dict.fromkeys([*tables, str(config.get("signal.data.collection") or "")])
    return [one for one in known if one and re.fullmatch(pattern, one, _AS_JAVA)]


def _lenient(config: Mapping[str, Any]) -> list[str]:
    return [
        name for name, (strict, _) in _STRICT.items()
        if str(config.get(name) or strict).lower() != strict and "${" not in str(config[name])
    ]


def _misread(config: Mapping[str, Any]) -> dict[str, str]:
    """The settings with which a capture reads other values than the database has, and what they are."""
    read_with = {**_READ_WITH, **(_SNAPSHOT_WITH if takes_snapshot(config) else {})}
    found = {name: str(config.get(name) or default) for name, (_, default, _) in read_with.items()}
    if config.get("value.converter") != JSON_CONVERTER:
        # Of the worker's own converter the worker has the settings.
        del found[_NULLS]
    return {
        name: value for name, value in found.items()
        if "${" not in value and value.casefold() not in [one.casefold() for one in read_with[name][0]]
    }


def _skipped_words(config: Mapping[str, Any]) -> str:
    words = {"c": "inserts", "u": "updates", "d": "deletes", "t": "truncates"}
    return ", ".join(words.get(one, one) for one in sorted(_skipped(config)))


def _skipped(config: Mapping[str, Any]) -> set[str]:
    return {one.strip() for one in str(config.get("skipped.operations", "t")).split(",")} - {"none", ""}


def _stream_parameters(config: Mapping[str, Any]) -> set[str]:
    """Those by which the server may send less."""
    given = str(config.get(_STREAM) or "")
    both = ("=".join(part.strip() for part in one.split("=", 1)) for one in given.split(";") if one.strip())
    return {one for one in both if "${" not in one} - _STREAMED_WITH


def takes_snapshot(config: Mapping[str, Any]) -> bool:
    """Whether a connector reads the rows of its tables before the changes."""
    return config.get("snapshot.mode", "initial") not in _WITHOUT_SNAPSHOT
