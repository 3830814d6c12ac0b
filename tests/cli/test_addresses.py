"""No word that names a log in a way that is not supported becomes a local folder, in any command, job or YAML file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cdcv2.control.materialization_file import read_plan
from cdcv2.control.materialization_logs import FileLogs
from cdcv2.logs.log_names import named_after
from cdcv2.logs.memory import MemoryLog
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run

URLS = ("s3://bucket/logs", "file:///nowhere/logs")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a command would make of a relative path would be here."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("into", [*URLS, "kafka:cdc.{table}", "kafka:cdc", "logs/{table}", "t=logs", "t=kafka:cdc"])
def test_capture_makes_no_folder_of_such_a_word(run: Run, captured: Path, elsewhere: Path, into: str) -> None:
    """Exit 2, with the word; topics are for --remap."""
    said = run("capture", captured / "topics.jsonl.gz", "--rows", captured / "rows", "--prefix", "clean_full",
               "--into", into)  # fmt: skip

    assert (2, "", True) == (said.code, said.out, into in said.err)
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize("dump, rows", [("s3://dump", None), ("dump", "s3://rows")])
@pytest.mark.parametrize("more", [(), ("--remap", "remap", "--notifications", "n")])
def test_what_a_capture_reads_is_named_as_it_was_written(
    run: Run, captured: Path, elsewhere: Path, dump: str, rows: str | None, more: tuple[str, ...]
) -> None:
    """A dump and a folder of row types that a machine does not have as files."""
    said = run("capture", dump, "--rows", rows or captured / "rows", "--prefix", "p", "--into", "logs", *more)

    assert (2, "", True) == (said.code, said.out, f"{rows or dump}: s3: is not supported" in said.err), said.err
    assert [] == list(elsewhere.iterdir())


def test_a_directory_is_called_by_the_word_that_was_given(run: Run, captured: Path, elsewhere: Path) -> None:
    """What a symbolic link leads to is called otherwise; of a log that the job on Spark reads, too."""
    (elsewhere / "mine").symlink_to(captured / "logs" / "public.orders")
    said = run("verify", "mine")

    assert (0, True) == (said.code, said.out.startswith("mine: complete through")), said.out
    assert "mine" == named_after("mine/") == named_after(elsewhere / "mine")


@pytest.mark.parametrize("url", [*URLS, "t=place"])
@pytest.mark.parametrize("option", ["--remap", "--into"])
def test_a_capture_on_a_remap_makes_none(run: Run, captured: Path, elsewhere: Path, option: str, url: str) -> None:
    """Neither of its logs nor of the remap."""
    words = {"--remap": "remap", "--into": "logs", option: url}
    said = run("capture", captured / "topics.jsonl.gz", "--rows", captured / "rows", "--prefix", "clean_full",
               *(word for pair in words.items() for word in pair))  # fmt: skip

    assert (2, "", True) == (said.code, said.out, url in said.err)
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize("to", [*URLS, "kafka:copies", "t=copies"])
def test_mangle_makes_none(run: Run, captured: Path, elsewhere: Path, to: str) -> None:
    """The logs of several tables do not fit into one topic either."""
    said = run("mangle", captured / "logs", to)

    assert (2, "", True) == (said.code, said.out, to in said.err)
    assert (to == "kafka:copies") == ("need names" in said.err)
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize(
    "words",
    [("verify",), ("replay",), ("as-of",), ("inspect",), ("open-transactions",), ("where",), ("when",),
     ("compact-remap",), ("compare", "--source", "env")],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize("address", [*URLS, "kafka:cdc.{table}"])
def test_every_reader_refuses_it_as_such(run: Run, words: tuple[str, ...], address: str) -> None:
    """It is not a directory that is not there."""
    said = run(words[0], address, *words[1:], *(["17"] if words[0] == "when" else []))

    assert (2, "", True) == (said.code, said.out, address in said.err)
    assert "no directory" not in said.err


@pytest.mark.parametrize(
    ("logs", "why"),
    [("s3://bucket/logs", "s3: is not supported"), ("{t: 'file:///nowhere'}", "file: is not supported"),
     ("kafka:t", "need names, kafka:NAME.{table}"), ("{t: kafka:t}", "t.avsc with types: DIR, or write {kafka: t, row"),
     ("kafka:cdc.{table}", "the row type of kafka:cdc.t is not given"), ("{t: 'kafka:{table}'}", "for each table"),
     ("{t: {kafka: 's3://b/t', row: row.avsc}}", "no name of a topic")],
)
def test_a_yaml_file_names_logs_in_the_same_words(run: Run, elsewhere: Path, logs: str, why: str) -> None:
    """Exit 2, with the line, once."""
    pytest.importorskip("yaml")
    (elsewhere / "row.avsc").write_text('{"type": "record", "name": "t", "fields": [{"name": "id", "type": "long"}]}')
    (elsewhere / "m.yaml").write_text(
        f"materialization: m\nlogs: {logs}\nbindings: [{{log: t, target: t, key: [id]}}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8"
    )  # fmt: skip
    said = run("materialize", "m.yaml")

    assert (2, "", True, 1) == (said.code, said.out, why in said.err, said.err.count("m.yaml, line 2"))
    assert ["m.yaml", "row.avsc"] == sorted(path.name for path in elsewhere.iterdir())


@pytest.mark.parametrize("written", ["folder", "recovery_log"])
def test_a_materialization_writes_nothing_among_its_logs(
    run: Run, captured: Path, elsewhere: Path, written: str
) -> None:
    """The directory of the capture has them: a table of a lake may be called as a log is."""
    pytest.importorskip("yaml")
    logs = captured / "logs"
    places = {"folder": elsewhere / "lake", "recovery_log": elsewhere / "recovery", written: logs}
    (elsewhere / "m.yaml").write_text(
        f"materialization: m\nlogs: {logs}\nbindings: [{{log: public.orders, target: t}}]\n"
        f"target: {{driver: lake, folder: {places['folder']}}}\nrecovery_log: {places['recovery_log']}\n", "utf-8"
    )  # fmt: skip
    before = sorted(logs.iterdir())
    said = run("materialize", "m.yaml")

    assert (2, True) == (said.code, f"{logs} holds the logs that are read" in said.err), said.err
    assert (["m.yaml"], before) == ([path.name for path in elsewhere.iterdir()], sorted(logs.iterdir()))


@pytest.mark.parametrize(
    ("logs", "topics"),
    [("{a: kafka:one, b: [kafka:two, kafka:three]}", ["one", "two", "three"]),
     ("kafka:cdc.{table}", ["cdc.a", "cdc.b"])],
)
def test_the_topics_of_a_yaml_file_have_the_row_types_of_its_types(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, logs: str, topics: list[str]
) -> None:
    """Named by the words of the commands, one by one or all that a capture writes."""
    pytest.importorskip("yaml")
    made: list[tuple[str, tuple[str, ...]]] = []

    def opened(reader: FileLogs, topic: str, row_type: RowType) -> MemoryLog:
        made.append((topic, row_type.columns))
        return MemoryLog(topic)

    monkeypatch.setattr(FileLogs, "_kafka_log", opened)
    (elsewhere / "rows").mkdir()
    for name in ("a", "b"):
        schema = {"type": "record", "name": name, "fields": [{"name": name, "type": "long"}]}
        (elsewhere / "rows" / f"{name}.avsc").write_text(json.dumps(schema), "utf-8")
    (elsewhere / "m.yaml").write_text(
        f"materialization: m\nlogs: {logs}\ntypes: rows\ntimeline: m\nkafka: {{bootstrap: 'x:1'}}\n"
        "bindings: [{log: a, target: a, key: [a]}, {log: b, target: b, key: [b]}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8"
    )  # fmt: skip
    plan = read_plan("m.yaml")

    assert topics == [topic for topic, _ in made]
    assert [("a",), *[("b",)] * (len(topics) - 1)] == [columns for _, columns in made]
    assert ["a", "b"] == [binding.log for binding in plan.bindings]


@pytest.mark.parametrize("words", [["resolve", "s3://bucket/q"], ["replay", "{log}", "--quarantine", "s3://bucket/q"]])
def test_a_quarantine_is_a_folder_of_this_machine(run: Run, prices: Path, words: list[str]) -> None:
    """The address of something else is no name of a new folder."""
    said = run(*(word.format(log=prices) for word in words))

    assert 2 == said.code and "s3://bucket/q: s3: is not supported" in said.err
