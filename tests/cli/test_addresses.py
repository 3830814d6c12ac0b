"""No word that names a log in a way that is not supported becomes a local folder, in any command, job or YAML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Run

URLS = ("s3://bucket/logs", "file:///nowhere/logs")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a command would make of a relative path would be here."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.mark.parametrize("into", [*URLS, "kafka:cdc.{table}", "kafka:cdc", "logs/{table}"])
def test_capture_makes_no_folder_of_such_a_word(run: Run, captured: Path, elsewhere: Path, into: str) -> None:
    """Exit 2, with the word; topics are for --remap."""
    said = run("capture", captured / "topics.jsonl.gz", "--rows", captured / "rows", "--prefix", "clean_full",
               "--into", into)  # fmt: skip

    assert (2, "", True) == (said.code, said.out, into in said.err)
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("option", ["--remap", "--into"])
def test_a_capture_on_a_remap_makes_none(run: Run, captured: Path, elsewhere: Path, option: str, url: str) -> None:
    """Neither of its logs nor of the remap."""
    words = {"--remap": "remap", "--into": "logs", option: url}
    said = run("capture", captured / "topics.jsonl.gz", "--rows", captured / "rows", "--prefix", "clean_full",
               *(word for pair in words.items() for word in pair))  # fmt: skip

    assert (2, "", True) == (said.code, said.out, url in said.err)
    assert [] == list(elsewhere.iterdir())


@pytest.mark.parametrize("to", [*URLS, "kafka:copies"])
def test_mangle_makes_none(run: Run, captured: Path, elsewhere: Path, to: str) -> None:
    """The logs of several tables do not fit into one topic either."""
    said = run("mangle", captured / "logs", to)

    assert (2, "", True) == (said.code, said.out, to in said.err)
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
     ("kafka:t", "{kafka: t, row: FILE.avsc}"), ("{t: {kafka: 's3://b/t', row: row.avsc}}", "no name of a topic")],
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
