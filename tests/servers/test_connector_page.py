"""The connector in docs/operations/set-up-a-source.md is what ``debezium_config`` returns."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.servers.connect import debezium_config

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operations" / "set-up-a-source.md").read_text("utf-8")


#: What the page has besides: a publication made by hand takes fewer rights, and a worker may have other converters.
MORE = {
    "publication.autocreate.mode": "disabled",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


def test_the_connector_of_the_page_is_the_one_that_is_returned() -> None:
    """Setting for setting, in the same order, with a publication and converters of its own."""
    shown = json.loads(PAGE.split("```json\n")[1].split("```")[0])
    made = debezium_config(
        "shop", ["public.orders", "public.order_items"], host="db", port=5432, database="shop", user="cdc",
        more=MORE,
    )  # fmt: skip

    assert list(made.items()) == list(shown.items())
