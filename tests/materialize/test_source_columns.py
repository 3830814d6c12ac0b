"""Types arrive as types: every column in a target is what it is in the source, and every value the same."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cdcv2.connectors.debezium.postgres_catalogue import row_type_from_postgres
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MalformedError, RefusedError, ViewError
from cdcv2.materialize import FileRecoveryLog, Max, Min, Runtime, Sum, ViewBinding
from cdcv2.materialize.protocol.messages import Field, Open, Opened
from cdcv2.materialize.targets.delta.driver import DeltaDriver, open_delta
from cdcv2.materialize.targets.lake.driver import LakeDriver, open_lake
from cdcv2.materialize.targets.postgres.driver import PostgresDriver
from cdcv2.materialize.targets.postgres.view import PostgresView
from cdcv2.rows.row_type import RowType
from cdcv2.rows.schema import identity
from cdcv2.rows.source_types import SourceType
from cdcv2.views.columns import columns_of
from cdcv2.views.identity import marks
from cdcv2.views.reductions import Reduction
from cdcv2.views.source_columns import demand_held, source_column
from tests import every_type
from tests.materialize.targets.test_postgres_driver import cuts, run, shown

Connect = Callable[[], Any]
integration = pytest.mark.integration
_SHAPE = """
SELECT column_name, data_type, udt_name, character_maximum_length, numeric_precision, numeric_scale,
       datetime_precision, is_nullable
  FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = '{}' ORDER BY 1
"""


@pytest.fixture
def source(connect: Connect) -> RowType:
    """A table with a column of every type, and rows with the extremes of each; its row type, as of the catalogue."""
    with connect() as session:
        session.execute(every_type.TYPES)
        session.execute(every_type.create())
        for number in range(every_type.ROWS):
            session.execute(every_type.insert(number).encode())
        schema = session.execute("SELECT current_schema()").fetchone()[0]
        return RowType(row_type_from_postgres(session, f"{schema}.every"))


def every(row_type: RowType) -> list[tuple[Any, int]]:
    """The rows of the log."""
    return [(row_type.row(every_type.row(number)), 1) for number in range(every_type.ROWS)]


@integration
def test_a_table_of_postgresql_gets_the_types_and_values_of_the_source(connect: Connect, source: RowType) -> None:
    """As information_schema has them; every value equal, infinities, years BC and 64 digits too; and all of it goes."""
    binding = ViewBinding("entries", source, "copied", ("id",))
    run(connect, [binding], cuts(every(source), row_type=source))
    there = {row[0]: row[1:] for row in shown(connect, _SHAPE.format("every"))}
    here = {row[0]: row[1:] for row in shown(connect, _SHAPE.format("copied"))}
    others = {name: here[name] for name in here if here[name] != there[name]}
    text = dict.fromkeys(every_type.OTHERS, ("text", "text", None, None, None))
    assert {**text, "cash": ("numeric", "numeric", None, 19, 2)} == {name: one[:5] for name, one in others.items()}
    assert len(there) == len(here) == len(every_type.COLUMNS) + 1
    for name, kind in every_type.COLUMNS.items():
        # Money has another type there, and -0.0 is 0.0 in every log.
        ours = {"cash": 's."cash"::numeric', "f4": "s.f4 + 0::real", "f8": "s.f8 + 0"}.get(name, f's."{name}"')
        pairs = shown(connect, f'SELECT ({ours})::text, t."{name}"::text FROM every s JOIN copied t USING (id)')
        assert kind.lost or [] == [pair for pair in pairs if pair[0] != pair[1]], name
        assert len(kind.values) == len([None for _, copy in pairs if copy is not None]), name

    table, columns = binding.view().table, columns_of(source)
    with closing(PostgresView("", "m", [table], Antichain([0]), connect=lambda _: connect())) as view:
        for (number,), values in view.rows("copied"):
            row, found = source.row(every_type.row(number)), dict(zip((one.name for one in table.values), values))
            back = [column.back(found.get(column.field.name, number)) for column in columns]
            again = source.row(back)
            differ = {one.field.name for one in columns if one.value(row) != one.value(again)}
            assert set() == differ - {"f4", "f8"}, (number, {name: found[name] for name in differ})

    run(connect, [binding], cuts(every(source), [(row, -1) for row, _ in every(source)], row_type=source))

    assert [] == shown(connect, "SELECT FROM copied")


@integration
def test_a_table_that_has_what_the_log_has_goes_on_and_may_be_altered(connect: Connect, source: RowType) -> None:
    """Text and numbers stay what they are; the statements of the remark give it the source's types, values and all."""
    rows, half = every(source), every_type.ROWS // 2
    untyped = RowType(identity(source.schema))
    run(connect, [ViewBinding("entries", untyped, "copied", ("id",))], cuts(rows[:half], row_type=untyped))
    before = shown(connect, _SHAPE.format("copied"))
    binding = ViewBinding("entries", source, "copied", ("id",))
    changed = [(rows[0][0], -1), (source.row({**every_type.row(1), "id": 0}), 1)]
    run(connect, [binding], cuts(rows[:half], changed, row_type=source))

    assert before == shown(connect, _SHAPE.format("copied"))

    driver = PostgresDriver(connect=connect)
    Runtime("m", [binding], driver, cuts(rows[:half], changed, row_type=source)).run()
    (remark,) = driver.remarks
    with connect() as session:
        session.execute(remark.partition("start again: ")[2].encode())
    gone = [(row, -1) for row, _ in rows[1:half]] + [(row, -1) for row, diff in changed if diff > 0]
    run(connect, [binding], cuts(rows[:half], changed, gone + rows[half:], row_type=source))
    there, here = (dict(enumerate(shown(connect, _SHAPE.format(name)))) for name in ("every", "copied"))

    # A type that a server may lack is no part of the remark.
    optional = {"mood", "moods", "caseless", "a_caseless", "path", "a_path"}
    assert {*every_type.OTHERS, *optional} == {here[at][0] for at in here if here[at] != there[at]}
    assert [(len(rows) - half,)] == shown(connect, "SELECT count(*) FROM copied")


@integration
def test_a_table_with_other_types_is_refused_with_the_statement(connect: Connect) -> None:
    """Neither the source's type nor the log's."""
    with connect() as session:
        session.execute("CREATE TABLE entries (id text PRIMARY KEY, amount numeric(14,4))")
    with pytest.raises(RefusedError, match=r"'amount' has the type numeric\(14,4\) and should have .* numeric\(12,2\)"):
        run(connect, [PRICES], cuts(row_type=PRICED))
    with connect() as session:
        session.execute("ALTER TABLE entries ALTER amount TYPE numeric(12,2)")
    run(connect, [PRICES], cuts([(["a", "1.50"], 1)], row_type=PRICED))

    assert [("a", Decimal("1.50"))] == shown(connect, "SELECT * FROM entries")


@integration
def test_xml_is_xml_in_the_target(connect: Connect) -> None:
    """The server of the tests lacks libxml and has no values of it: the column, a row without one, and the casts."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "id", "type": "int"}, {"name": "doc", "type": ["null", "string"], "cdcv2.source": {"type": "xml"}},
    ]})  # fmt: skip
    run(connect, [ViewBinding("entries", row_type, "docs", ("id",))], cuts([([1, None], 1)], row_type=row_type))
    column = source_column(SourceType("xml"), "string")

    assert [(1, None)] == shown(connect, "SELECT * FROM docs")
    assert ("xml",) in shown(connect, "SELECT data_type FROM information_schema.columns WHERE table_name = 'docs'")
    assert column is not None and ("({x})::xml", "({x})::text", "xml") == (column.into, column.out, column.postgres)


@integration
def test_what_a_column_would_round_is_an_error(connect: Connect) -> None:
    """PostgreSQL rounds without a word what is put into a column; the source was altered, and the row schema not."""
    for value in ("1.505", "10000000000.00"):
        with pytest.raises(MalformedError, match=r"entries"):
            run(connect, [PRICES], cuts([(["a", value], 1)], row_type=PRICED))

    assert [] == shown(connect, "SELECT * FROM entries")


FILES: dict[str, Callable[[Path], Any]] = {"lake": LakeDriver, "delta": DeltaDriver}
VIEWS: dict[str, Callable[[Path], Any]] = {"lake": open_lake, "delta": open_delta}
#: What has a type of its own in files; all others are as the log has them.
TYPED = {
    "i2": pa.int16(), "price": pa.decimal128(12, 2), "round": pa.decimal128(7, 0), "cash": pa.decimal128(19, 2),
    "day": pa.date32(), "clock": pa.string(), "clock3": pa.string(), "at": pa.timestamp("us"),
    "at3": pa.timestamp("us"), "at5": pa.timestamp("us"),
    **dict.fromkeys(("moment", "moment3", "moment0"), pa.timestamp("us", tz="UTC")),
    "a_int": pa.list_(pa.int32()), "a_long": pa.list_(pa.int64()), "a_f8": pa.list_(pa.float64()),
    "a_yes": pa.list_(pa.bool_()), "a_raw": pa.list_(pa.binary()), "a_price": pa.list_(pa.decimal128(10, 2)),
    "a_day": pa.list_(pa.date32()), "a_at": pa.list_(pa.timestamp("us")),
    "a_moment": pa.list_(pa.timestamp("us", tz="UTC")),
    "a_small": pa.list_(pa.int16()), "a_number": pa.list_(pa.int64()), "a_f4": pa.list_(pa.float32()),
    "a_at3": pa.list_(pa.timestamp("us")),
    **dict.fromkeys(
        ("a_text", "a_short", "a_any", "a_name", "a_docb", "moods", "a_fixed", "a_doc", "a_host", "a_net", "a_mac",
         "a_ints", "a_found", "a_clock3", "a_clockz", "a_caseless", "a_path"), pa.list_(pa.string()),
    ),
}


@integration
@pytest.mark.parametrize("kind", FILES)
def test_files_have_the_types_and_values_of_the_source(source: RowType, tmp_path: Path, kind: str) -> None:
    """Decimals, dates, timestamps, arrays; what was stored is found again by its retraction, and is the same."""
    rows = [(source.row(every_type.row(number, finite=True)), 1) for number in range(every_type.ROWS)]
    binding, log = ViewBinding("entries", source, "copied", ("id",)), FileRecoveryLog("m", tmp_path / "log")

    def run(*cuts_of: Any) -> Any:
        Runtime("m", [binding], FILES[kind](tmp_path / "files"), cuts(*cuts_of, row_type=source), log=log).run()
        with closing(VIEWS[kind](tmp_path / "files")) as view:
            return view.read("copied")

    there = run(rows)
    kept = {one.name: one.type for one in there.schema}

    assert TYPED == {name: kept[name] for name in TYPED}
    assert {**kept, **TYPED} == kept and every_type.ROWS == there.num_rows
    found = {row["id"]: row for row in there.select(["id", "price", "cash", "day", "at3", "a_moment"]).to_pylist()}
    at = datetime(2024, 2, 29, 12, 34, 56, 100000, UTC)
    assert [Decimal("1234.50"), Decimal("-1234.56"), date(2024, 2, 29), [at]] == [
        found[0][name] for name in ("price", "cash", "day", "a_moment")
    ]
    assert datetime(2024, 2, 29, 12, 34, 56, 123000) == found[0]["at3"]
    assert 0 == run(rows, [(row, -1) for row, _ in rows]).num_rows


class DeltaByRows(DeltaDriver):
    """The same driver, which takes no Changes."""

    def open(self, message: Open) -> Opened:
        """As it is, but for that."""
        return replace(super().open(message), changes=frozenset())


@pytest.mark.parametrize("made", [DeltaDriver, DeltaByRows])
@pytest.mark.parametrize(("avro", "source", "value", "other"), [
    ("int", {"type": "date"}, 2146033979, 5), ("int", {"type": "int2"}, 2**15, 5),
    ("string", {"type": "numeric", "precision": 5, "scale": 2}, "1234.50", "7.50"),
])
def test_a_key_that_a_delta_table_cannot_hold_is_named_where_it_stays(
    tmp_path: Path, made: type[DeltaDriver], avro: str, source: dict[str, Any], value: Any, other: Any
) -> None:
    """With table and column. One that goes in the transaction in which it comes is in no row of the table."""
    column = {"name": "id", "type": avro, "cdcv2.source": source}
    row_type = RowType({"type": "record", "name": "t", "fields": [column]})
    binding, log = ViewBinding("entries", row_type, "t", ("id",)), FileRecoveryLog("m", tmp_path / "log")
    passing = [([([other], 1), ([value], 1)]), ([([value], -1)])]
    Runtime("m", [binding], made(tmp_path / "f"), cuts(*passing, row_type=row_type), log=log).run()
    with closing(open_delta(tmp_path / "f")) as view:
        assert [(other,)] == [key for key, _ in view.rows("t")]

    for diff, error in ((1, MalformedError), (-1, ViewError)):
        with pytest.raises(error, match="t: .*column 'id'" if diff > 0 else f"t, key .*{value}"):
            wrong = cuts(*passing, [([value], diff)], row_type=row_type)
            Runtime("m", [binding], made(tmp_path / "f"), wrong, log=log).run()


@pytest.mark.parametrize("kind", FILES)
def test_what_files_cannot_hold_is_an_error_that_names_it(tmp_path: Path, kind: str) -> None:
    """NaN and infinities, years BC and after 9999: never another value in their place."""
    for number, (avro, source, value) in enumerate([
        ("string", {"type": "numeric", "precision": 5, "scale": 2}, "NAN"), ("int", {"type": "date"}, 2146033979),
        ("int", {"type": "date"}, -719163), ("int", {"type": "date"}, 2932897),
        ("long", {"type": "timestamp"}, 2**63 - 1),
        ("long", {"type": "timestamp"}, 253402300800000000), ("string", {"type": "timestamptz"}, "infinity"),
        ("string", {"type": "timestamptz"}, "-0043-03-15T12:00:00.000000Z"),
        ("string", {"type": "numeric", "precision": 5, "scale": 2}, "1.505"),
        ("string", {"type": "numeric", "precision": 5, "scale": 2}, "many"), ("string", {"type": "money"}, "$1.50"),
        ("string", {"type": "timestamptz"}, "2020-01-01T00:00:00.1234567Z"),
    ]):  # fmt: skip
        row_type = RowType({"type": "record", "name": "t", "fields": [
            {"name": "id", "type": "int"}, {"name": "v", "type": avro, "cdcv2.source": source},
        ]})  # fmt: skip
        binding, log = ViewBinding("entries", row_type, "t", ("id",)), FileRecoveryLog("m", tmp_path / f"log{number}")
        with pytest.raises(MalformedError, match="t: .*column 'v'"):
            driver = FILES[kind](tmp_path / f"files{number}")
            Runtime("m", [binding], driver, cuts([([1, value], 1)], row_type=row_type), log=log).run()


@pytest.mark.parametrize("kind", FILES)
def test_files_that_were_made_before_go_on_as_they_are(tmp_path: Path, kind: str) -> None:
    """Their manifest states in which types they were made."""
    log, untyped = FileRecoveryLog("m", tmp_path / "log"), RowType(identity(PRICED.schema))
    first, second = [(["a", "1.50"], 1)], [(["a", "1.50"], -1), (["a", "2.50"], 1)]
    for row_type, history in ((untyped, [first]), (PRICED, [first, second])):
        binding = ViewBinding("entries", row_type, "entries", ("id",))
        Runtime("m", [binding], FILES[kind](tmp_path / "f"), cuts(*history, row_type=row_type), log=log).run()
    with closing(VIEWS[kind](tmp_path / "f")) as view:
        assert [{"id": "a", "amount": "2.50"}] == view.read("entries").to_pylist()


PRICED = RowType({"type": "record", "name": "entry", "fields": [
    {"name": "id", "type": "string"},
    {"name": "amount", "type": ["null", "string"], "cdcv2.source": {"type": "numeric", "precision": 12, "scale": 2}},
]})  # fmt: skip
PRICES = ViewBinding("entries", PRICED, "entries", ("id",))


def reduced(kind: str | dict[str, Any], source: dict[str, Any], values: list[tuple[Any, int]], one: Reduction) -> Any:
    """What a reduction of a column comes to, a transaction each."""
    row_type = RowType({"type": "record", "name": "t", "fields": [
        {"name": "k", "type": "int"}, {"name": "v", "type": ["null", kind], "cdcv2.source": source},
    ]})  # fmt: skip
    view = ViewBinding("t", row_type, "t", ("k",), {"found": one}).view()
    before = None
    for value, diff in values:
        store = view.after((1,), view.add(view.begin(), row_type.row([1, value]), 1, diff), before)
        before = before if store is None else store.values
    assert before is not None
    return before[0]


MONEY = [("1.50", 1), ("-0.25", 1), (None, 1), ("92233720368547758.07", 1), ("1.50", -1)]


@pytest.mark.parametrize(("source", "expected"), [
    ({"type": "numeric", "precision": 19, "scale": 2}, Decimal("92233720368547757.82")),
    ({"type": "money"}, Decimal("92233720368547757.82")),
    ({"type": "numeric"}, "92233720368547757.82"),
])
def test_sums_of_numerics_and_money_that_the_log_has_as_text(source: dict[str, Any], expected: Any) -> None:
    """Exact; without a scale the sum is text, which PostgreSQL has as a numeric."""
    assert expected == reduced("string", source, MONEY, Sum("v"))


@pytest.mark.parametrize(("source", "expected"), [
    ({"type": "numeric", "precision": 19, "scale": 2}, ("decimal", 2, None)),
    ({"type": "numeric", "precision": 19, "scale": 0}, ("decimal", 0, None)),
    ({"type": "numeric", "precision": 5, "scale": -3}, ("decimal", 0, None)),
    ({"type": "money"}, ("decimal", 2, None)),
    ({"type": "numeric"}, ("string", None, SourceType("numeric"))),
])
def test_what_a_sum_of_text_is_a_column_of(source: dict[str, Any], expected: Any) -> None:
    """A decimal of the source's scale, or what PostgreSQL makes a numeric of."""
    bound = replace(binding(source), reduce={"all of it": Sum("v")})
    (column, _) = bound.view().table.values

    assert ("all of it", *expected) == (column.name, column.kind, column.scale, column.source)


def test_a_sum_without_a_scale_is_written_out() -> None:
    """Every target, and the sum itself, reads it again."""
    assert "12000000" == reduced("string", {"type": "numeric"}, [("1.1E+7", 1), ("1E+6", 1)], Sum("v"))
    assert "0.0000000001" == reduced("string", {"type": "numeric"}, [("0.0000000001", 1)], Sum("v"))


def test_sums_of_numerics_that_the_log_has_as_records() -> None:
    """decimal.handling.mode=precise of a numeric without a scale."""
    parts = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
    kind = {"type": "record", "name": "n", "fields": parts}
    values = [({"scale": 3, "value": b"\x04\xd2"}, 1), ({"scale": 0, "value": b"\xff"}, 1)]

    assert "0.234" == reduced(kind, {"type": "numeric"}, values, Sum("v"))


@pytest.mark.parametrize("value", ["NAN", "POSITIVE_INFINITY"])
def test_a_sum_of_what_is_no_number_is_an_error(value: str) -> None:
    """It could never be taken away again."""
    with pytest.raises(MalformedError, match="found: a row has .* which no sum can give up again"):
        reduced("string", {"type": "numeric"}, [(value, 1)], Sum("v"))


def test_the_least_is_least_by_value() -> None:
    """And not by spelling."""
    numbers = [("9", 1), ("10", 1), ("NAN", 1)]
    moments = [("+10000-01-01T00:00:00Z", 1), ("-infinity", 1), ("2024-01-01T00:00:00.5Z", 1)]

    assert ("9", "NaN") == tuple(reduced("string", {"type": "numeric"}, numbers, one("v")) for one in (Min, Max))
    assert "+10000-01-01T00:00:00.000000Z" == reduced("string", {"type": "timestamptz"}, moments, Max("v"))
    assert marks([binding({"type": "numeric"})]) != marks([binding(None)]) == marks([binding({"type": "text"})])


def binding(source: dict[str, Any] | None) -> ViewBinding:
    """The least of a column of text."""
    field = {"name": "v", "type": "string"} | ({} if source is None else {"cdcv2.source": source})
    row_type = RowType({"type": "record", "name": "t", "fields": [{"name": "k", "type": "int"}, field]})
    return ViewBinding("t", row_type, "t", ("k",), {"least": Min("v")})


@pytest.mark.parametrize("source", [SourceType("varchar", length=3), SourceType("bpchar", length=3)])
def test_blanks_that_a_column_would_cut_are_an_error(source: SourceType) -> None:
    """PostgreSQL cuts them without a word: the column was altered in the source."""
    for wanted, one in ((source, "abc  "), (SourceType("array", items=source), '["abc", "abc  "]')):
        field = Field("v", "json" if wanted.items else "string", source=wanted)
        with pytest.raises(MalformedError, match=r"t: 'abc  ' of the column 'v' is not held exactly by char.*\(3\)"):
            demand_held(field, one, "t")
        demand_held(field, one.replace("abc  ", "ab "), "t")
