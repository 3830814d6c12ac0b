"""What a connector leaves out by its settings, and whether it sends less than before."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cdcv2.connectors.debezium.config import JSON_CONVERTERS
from cdcv2.connectors.debezium.left_out import less_sent

OURS = {
    "table.include.list": r"public\.orders,public\.items", "skipped.operations": "none", "slot.name": "shop",
    "publication.name": "shop", "database.dbname": "d", "topic.prefix": "shop",
    "column.exclude.list": r"public\.orders\.total",
}
EXACT = {"table.include.list": r'(?-i:public\.orders),(?-i:public\.größe\ "1\,2")'}
PATTERNS = {"table.include.list": r"public\..*"}
NULLS = "value.converter.replace.null.with.default"
STATEMENT = "snapshot.select.statement.overrides.public.orders"


@pytest.mark.parametrize(("before", "changes", "less"), [
    (OURS, {"table.include.list": r"public\.orders"}, ["table.include.list"]),
    (OURS, {"table.include.list": "", "table.exclude.list": r"public\.it.*"}, ["table.exclude.list"]),
    (OURS, {"schema.include.list": "sales"}, ["schema.include.list"]),
    (OURS, {"schema.exclude.list": "PUBLIC"}, ["schema.exclude.list"]),
    (OURS, {"column.exclude.list": r"public\.orders\.total,public\.orders\.price"}, ["column.exclude.list"]),
    (OURS, {"column.exclude.list": r"public\.orders\.total,.*\.price"}, ["column.exclude.list"]),
    (OURS, {"column.exclude.list": r"public\.orders\.total,PUBLIC\.items\.name"}, ["column.exclude.list"]),
    (OURS, {"column.include.list": r"public\.orders\.id"}, ["column.include.list"]),
    (OURS, {"snapshot.include.collection.list": "public.orders"}, ["snapshot.include.collection.list"]),
    (OURS, {"skipped.operations": "d"}, ["skipped.operations"]),
    (OURS, {"publication.name": "x"}, ["publication.name"]),
    ({**OURS, "decimal.handling.mode": "string"}, {"decimal.handling.mode": "", "binary.handling.mode": "HEX"},
     ["binary.handling.mode", "decimal.handling.mode"]),
    ({**OURS, **JSON_CONVERTERS}, {NULLS: "true", "time.precision.mode": "isostring"}, ["time.precision.mode", NULLS]),
    (OURS, {"slot.stream.params": "origin=none"}, ["slot.stream.params"]),
    ({"slot.stream.params": "origin=any"}, {"slot.stream.params": "messages=true; publication_names = less"},
     ["slot.stream.params"]),
    (OURS, {"slot.name": "x", "database.dbname": "x", "topic.prefix": "x"},
     ["database.dbname", "slot.name", "topic.prefix"]),
    (OURS, {"event.processing.failure.handling.mode": "skip"}, ["event.processing.failure.handling.mode"]),
    (OURS, {"snapshot.select.statement.overrides": "public.orders", STATEMENT: "SELECT"},
     ["snapshot.select.statement.overrides", STATEMENT]),
    (OURS, {"transforms": "drop", "transforms.drop.type": "Filter"}, ["transforms", "transforms.drop.type"]),
    (OURS, {"column.mask.with.5.chars": r"public\.orders\.name"}, ["column.mask.with.5.chars"]),
    (OURS, {"converters": "a, b", "b.type": "B", "c.type": "C", "post.processors": "p", "p.type": "P"},
     ["b.type", "converters", "p.type", "post.processors"]),
    ({**OURS, "plugin.name": "pgoutput"}, {"plugin.name": "decoderbufs", "snapshot.isolation.mode": "read_committed"},
     ["plugin.name", "snapshot.isolation.mode"]),
    (PATTERNS, {"table.include.list": r"public\.o.*"}, ["table.include.list"]),
    (OURS, {"table.include.list": r"public\.orders,(?-i:public\.Items)"}, ["table.include.list"]),
    (EXACT, {"table.include.list": r"(?-i:public\.orders)"}, ["table.include.list"]),
    (EXACT, {"table.include.list": "public.orders,public.GRÖSSE"}, ["table.include.list"]),
    (PATTERNS, {"table.exclude.list": r"public\.x"}, ["table.exclude.list"]),
    ({}, {"table.include.list": "public.orders"}, ["table.include.list"]),
    ({"column.include.list": "a.b.c,a.b.d"}, {"column.include.list": "a.b.c"}, ["column.include.list"]),
])  # fmt: skip
def test_what_sends_less_is_named(before: Mapping[str, str], changes: Mapping[str, str], less: list[str]) -> None:
    """By the settings that were changed."""
    now = {**before, **changes}

    assert less == less_sent(before, now)
    assert [] == less_sent(now, now)


def test_a_connector_that_is_put_back_sends_more_unless_it_reads_another_place() -> None:
    """So a change is judged in its direction."""
    now = {**OURS, "table.include.list": "public.items", "skipped.operations": "t", "errors.tolerance": "all"}
    assert ([], ["slot.name"]) == (less_sent(now, OURS), less_sent({**now, "slot.name": "x"}, OURS))


@pytest.mark.parametrize(("before", "changes"), [
    (OURS, {"table.include.list": r"public\..*"}), (OURS, {"table.include.list": r"PUBLIC.items, public.orders,a.b"}),
    (OURS, {"column.exclude.list": r"public\.orders\.total,(?-i:public\.places\.at)"}),
    (OURS, {"table.include.list": "${env:TABLES}"}), (OURS, {"table.include.list": "", "table.exclude.list": "a.b"}),
    (OURS, {"table.include.list": r"[a-z&&[^b]]"}), (OURS, {"column.exclude.list": ""}),
    (OURS, {"database.dbname": "${env:PGDATABASE}"}), (OURS, {"errors.tolerance": "none"}),
    (OURS, {"slot.stream.params": " origin = any;"}), (OURS, {NULLS: "true"}),
    ({**OURS, **JSON_CONVERTERS}, {NULLS: "FALSE", "binary.handling.mode": "base64"}),
    (OURS, {"time.precision.mode": "${env:MODE}", "unavailable.value.placeholder": "__debezium_unavailable_value"}),
    ({"slot.stream.params": "origin=none"}, {"slot.stream.params": ""}),
    (OURS, {"snapshot.include.collection.list": "public.*"}), (OURS, {"transforms": ""}),
    (OURS, {"heartbeat.interval.ms": "5", "database.hostname": "db2", "snapshot.mode": "no_data"}),
    (OURS, {"table.include.list": r"(?-i:public\.orders),(?-i:public\.items)"}),
    (EXACT, {"table.include.list": r'public.ORDERS,public\.größe "1\,2"'}),
    (PATTERNS, {"table.include.list": r"public\..*,audit\..*"}), (PATTERNS, {"table.include.list": ""}),
    ({"column.include.list": "a.b.c"}, {"column.include.list": r"a\.b\..*"}),
])  # fmt: skip
def test_what_sends_as_much_or_cannot_be_judged_is_not_named(
    before: Mapping[str, str], changes: Mapping[str, str]
) -> None:
    """More tables, other words for the same ones, and what only Connect can read."""
    assert [] == less_sent(before, {**before, **changes})
