"""A word that names a log is taken apart in one place; what is not supported is refused, and never becomes a folder."""

from __future__ import annotations

import pytest

from cdcv2.errors import UsageError
from cdcv2.protocol.log_address import LogAddress

#: Words that name no log here.
UNSUPPORTED = (
    "s3://bucket/logs", "s3a://bucket/logs", "file:///logs", "file:/logs", "hdfs://host/logs", "abfs+x.y-z://c/logs",
    "Kafka:orders", "kakfa:orders", "S3:bucket",
)


@pytest.mark.parametrize("path", ["logs", "/data/logs", "./s3:bucket", "../a:b", "a/b:c", "1:x", "größe", ".", "a=b"])
def test_a_path_is_a_directory(path: str) -> None:
    """As it is written; a colon behind the first folder, or behind what is no scheme, is one of its characters."""
    assert LogAddress("directory", path) == LogAddress.parse(path)
    assert LogAddress("directory", path, "t") == LogAddress.parse(path, "t")
    assert path == str(LogAddress.parse(path))


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_what_begins_with_another_scheme_is_refused_by_its_name(text: str) -> None:
    """The message names the word, the scheme, and what is supported."""
    with pytest.raises(UsageError, match="is not supported.*kafka:TOPIC") as caught:
        LogAddress.parse(text)
    assert repr(text) in str(caught.value) and f"{text.partition(':')[0]}:" in str(caught.value)
    assert ("./" in str(caught.value)) is ("://" not in text)


@pytest.mark.parametrize("text", ["kafka:orders", "kafka:a.B_c-9", "kafka:cdc.{table}", "kafka:{table}-copy"])
def test_a_topic_is_one_with_the_name_of_one(text: str) -> None:
    """Or a template of such names."""
    assert LogAddress("topic", text.removeprefix("kafka:"), "t") == LogAddress.parse(text, "t")
    assert text == str(LogAddress.parse(text))


@pytest.mark.parametrize("text", ["kafka://host/topic", "kafka:a b", "kafka:a/b", "kafka:{x}", f"kafka:{'x' * 250}"])
def test_what_no_topic_is_called_is_refused(text: str) -> None:
    """Before Kafka is asked for it."""
    with pytest.raises(UsageError, match="no name of a topic"):
        LogAddress.parse(text)


@pytest.mark.parametrize("text", ["", "kafka:"])
def test_nothing_is_named(text: str) -> None:
    """A variable that was not set must not be the current directory."""
    with pytest.raises(UsageError, match="names nothing"):
        LogAddress.parse(text)


@pytest.mark.parametrize(
    ("logs", "one"),
    [("logs", "logs/public.orders"), ("logs/", "logs/public.orders"), ("/", "/public.orders"),
     ("MAX/", "MAX/public.orders"), ("a/{table}/log", "a/public.orders/log"),
     ("kafka:cdc.{table}", "kafka:cdc.public.orders")],
)
def test_logs_of_several_tables_have_an_address_each(logs: str, one: str) -> None:
    """In the place of the template, or in the directory."""
    of = LogAddress.parse(logs).of("public.orders")
    assert (one, LogAddress.parse(one).kind) == (str(of), of.kind)


def test_one_topic_is_not_for_several_tables() -> None:
    """Nor is a template a place to read."""
    with pytest.raises(UsageError, match=r"kafka:NAME\.\{table\}"):
        LogAddress.parse("kafka:cdc").of("orders")
    with pytest.raises(UsageError, match="name one of these"):
        LogAddress.parse("kafka:{table}").demand_one()
    with pytest.raises(UsageError, match="no name of a topic"):
        LogAddress.parse("kafka:{table}").of("My Table")
    LogAddress.parse("logs/{table}").demand_one()
