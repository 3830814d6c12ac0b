"""The connector in docs/operations/connector.md is what ``cdcv2 init`` writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cdcv2.connectors.debezium.config import IDLE_SETTINGS, JSON_CONVERTERS, debezium_config
from cdcv2.errors import UsageError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations" / "connector.md").read_text("utf-8")


def test_the_connector_of_the_page_is_the_one_that_is_returned() -> None:
    """Setting for setting, in the same order, with a publication and converters of its own."""
    shown = json.loads(PAGE.split("```json\n")[1].split("```")[0])
    made = debezium_config(
        "shop", ["public.orders", "public.order_items"], host="db", port=5432, database="shop", user="cdc",
        replication=-1, publication="disabled", more={**JSON_CONVERTERS, **IDLE_SETTINGS},
    )  # fmt: skip

    assert list(made.items()) == list(shown.items())


def shop(**changes: Any) -> dict[str, str]:
    return debezium_config("shop", ["public.orders"], host="db", port=5432, database="s", user="cdc", **changes)


@pytest.mark.parametrize("password", ["secret", "", "${env:}", "a${env:X}", "${X}"])
def test_a_password_is_a_reference(password: str) -> None:
    """Connect shows a connector's configuration to everybody who asks; so does an error to a log."""
    with pytest.raises(UsageError, match="a reference to it") as caught:
        shop(password=password)

    assert "secret" not in str(caught.value)
    assert "${file:/run/pg:password}" == shop(password="${file:/run/pg:password}")["database.password"]


@pytest.mark.parametrize("factor", [3, -1])
def test_every_topic_has_the_replication_factor(factor: int) -> None:
    """One that is kept once, of two, is lost with one broker."""
    made = shop(replication=factor)

    assert {str(factor)} == {value for name, value in made.items() if name.endswith("replication.factor")}


def test_a_replication_factor_is_some_copies_or_the_clusters() -> None:
    """Connect would take 0, and fail with the first topic."""
    with pytest.raises(UsageError, match="replication factor 0"):
        shop(replication=0)
