"""What the arguments of a capture on a remap come to: topics, logs, places, and the recipe."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.request import CaptureRequest, check_apart, temp_name, together
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import UsageError
from cdcv2.protocol.log_address import LogAddress
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE

ROWS = RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})
OTHER = RowType({"type": "record", "name": "u", "fields": [{"name": "id", "type": "long"}]})
BANK = Recipe("bank", {"public.t": ROWS, "public.u": OTHER}, notification_topic="notes", empty=frozenset({"public.u"}))
SHOP = Recipe("shop", {"public.t": OTHER}, snapshot="none", transaction_topic="ends", before=FROM_STATE,
              full_identity=frozenset({"public.t"}))  # fmt: skip
ASKED = CaptureRequest(
    {"plain": ("clicks", ROWS)},
    {
        "bank": (BANK, {"public.t": "bank.public.t", "public.u": "bank.public.u"}),
        "shop": (SHOP, {"public.t": "shop.public.t"}),
    },
    AS_COMPLETE,
)
FOLDER, TOPICS = LogAddress.parse("logs"), LogAddress.parse("kafka:logs.{table}")


def test_topics_by_what_they_are_for() -> None:
    """All, those in order, those that must be there; and the logs of tables that are empty by declaration."""
    tables = {"bank.public.t", "bank.public.u", "shop.public.t"}

    assert {"clicks", "bank.transaction", "notes", "ends", *tables} == ASKED.topics
    assert {"bank.transaction", "notes", "ends"} == ASKED.single
    assert {"clicks", "bank.transaction", "ends"} == ASKED.needed
    assert {"bank.public.u"} == ASKED.empty


def test_what_makes_a_topic_that_must_be_there() -> None:
    """The connector the one of its transactions, and what writes a stream the stream's."""
    by_connector = "The connector makes it with the first transaction after its start, if it has"

    assert ASKED.made_by("ends").startswith(by_connector) and ASKED.made_by("bank.transaction").startswith(by_connector)
    assert "What writes it makes it" == ASKED.made_by("clicks")


def test_the_logs_have_types() -> None:
    """TEMP of each database among them, by its name at the address."""
    assert {
        "plain": ROWS, "bank.public.t": ROWS, "bank.public.u": OTHER, "shop.public.t": OTHER,
        "_temp/bank": TEMP, "_temp/shop": TEMP,
    } == ASKED.logs(FOLDER)  # fmt: skip
    assert ("_temp.bank", "_temp/bank") == (temp_name(TOPICS, "bank"), temp_name(FOLDER, "bank"))
    assert TEMP == ASKED.logs(TOPICS)["_temp.shop"]


def test_the_recipe() -> None:
    """What is as it once always was is not in it; the name of the timeline is drawn."""
    recipe = ASKED.recipe

    assert {
        "plain": {"topic": "clicks", "row": ROWS.fingerprint},
        "bank.public.t": {"database": "bank", "table": "public.t", "row": ROWS.fingerprint},
        "bank.public.u": {"database": "bank", "table": "public.u", "row": OTHER.fingerprint},
        "shop.public.t": {"database": "shop", "table": "public.t", "row": OTHER.fingerprint},
    } == recipe.tables
    assert {
        "bank": {
            "snapshot": "initial", "notifications": "notes", "transactions": "bank.transaction", "ordering": "complete",
            "full_identity": [], "empty": ["public.u"],
        },
        "shop": {
            "snapshot": "none", "notifications": None, "transactions": "ends", "ordering": "complete",
            "full_identity": ["public.t"], "before": "from-state",
        },
    } == recipe.databases
    assert recipe.timeline and recipe.timeline != ASKED.recipe.timeline


def test_where_all_logs_are_together(tmp_path: Path) -> None:
    """In a directory that is not made of a template, and is no log itself."""
    assert (Path("logs"), None, None) == (
        together(FOLDER), together(TOPICS), together(LogAddress.parse("logs/{table}/log"))
    )  # fmt: skip
    (tmp_path / "_log.json").write_text("{}")
    with pytest.raises(UsageError, match="is itself a log"):
        together(LogAddress.parse(str(tmp_path)))


@pytest.mark.parametrize(
    ("remap", "logs"),
    [
        ("logs", "logs"), ("logs/", "logs"), ("other/../logs", "logs"), ("logs/plain", "logs"),
        ("logs/_temp/bank", "logs"), ("x/shop.public.t", "x/{table}"),
        ("kafka:logs.plain", "kafka:logs.{table}"), ("kafka:logs._temp.shop", "kafka:logs.{table}"),
    ],
)  # fmt: skip
def test_a_remap_in_a_place_of_the_logs_is_refused(remap: str, logs: str) -> None:
    """However it is spelled."""
    with pytest.raises(UsageError, match="are in one place"):
        check_apart(LogAddress.parse(remap), LogAddress.parse(logs), ASKED)


@pytest.mark.parametrize(
    ("remap", "logs"),
    [
        ("logs/_remap", "logs"), ("x", "x/{table}"), ("kafka:remap", "kafka:logs.{table}"), ("kafka:plain", "logs"),
        ("logs.plain", "kafka:logs.{table}"),
    ],
)  # fmt: skip
def test_a_remap_of_its_own(remap: str, logs: str) -> None:
    """Beside them, or of another kind."""
    check_apart(LogAddress.parse(remap), LogAddress.parse(logs), ASKED)


def test_logs_in_a_log_are_refused_first(tmp_path: Path) -> None:
    """As where they are together."""
    (tmp_path / "_log.json").write_text("{}")
    with pytest.raises(UsageError, match="is itself a log"):
        check_apart(LogAddress.parse("kafka:remap"), LogAddress.parse(str(tmp_path)), ASKED)
