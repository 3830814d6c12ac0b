"""An option that a reader of logs would ignore is refused, by its name; the same option is taken where it counts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.rows import row_file, unused_row_word
from cdcv2.errors import UsageError
from tests.cli.conftest import Run
from tests.cli.test_help_examples import JOBS

#: Program -> the rest of what it must be given, beside what it reads.
NEEDED: dict[str, list[str]] = {
    "when": ["17"], "compare": ["--source", "env"], "mangle": ["to"], "rewrite": ["to"],
    "instance": ["--index", "t=id", "--instance", "s"],
    "replicas": ["--index", "t=id", "--instance", "s", "--of", "o", "--state", "f"],
    "replay.py": ["--state", "s", "--output", "o"],
}
#: Word -> a value that argparse takes.
VALUES = {"--bootstrap": "localhost:1", "--kafka-config": "f", "--patience": "30", "--row": "x.avsc", "--rows": "r",
          "--times": "int", "--partitions": "1", "--max-records": "9", "--max-files": "9"}  # fmt: skip
#: Those that are about directories, and not about topics.
OF_DIRECTORIES = {"--max-files"}


def parsers() -> dict[str, OptionParser]:
    """Each program that reads logs or a remap, and has words for how: its parser. A capture has a test of its own."""
    named = {name: parser_of(name) for name in COMMANDS} | {f"{name}.py": made() for name, made in JOBS.items()}
    return {
        name: parser for name, parser in named.items()
        if "--bootstrap" in parser._option_string_actions and name not in ("capture", "capture.py", "init")
    }


CASES = [(name, word) for name, parser in parsers().items() for word in VALUES if word in parser._option_string_actions]


def line(name: str, place: str, *more: str) -> list[str]:
    """A command line whose logs, and whose copies, are at a place."""
    rest = [place if word == "to" else word for word in NEEDED.get(name, [])]
    return [place, *rest, *more]


@pytest.mark.parametrize(("name", "word"), CASES)
@pytest.mark.parametrize("joined", [False, True], ids=["two words", "one word"])
def test_what_is_about_kafka_is_refused_where_directories_are_named(name: str, word: str, *, joined: bool) -> None:
    """Also with its default as its value; and it is taken with topics. What is about directories is so the other way
    round.
    """
    more = [f"{word}={VALUES[word]}"] if joined else [word, VALUES[word]]
    right, wrong = ("d", "kafka:t") if word in OF_DIRECTORIES else ("kafka:t", "d")
    parsers()[name].parse_args(line(name, right, *more))

    with pytest.raises(UsageError, match=f"^{word}( x.avsc| r)? goes with .*: leave it out"):
        parsers()[name].parse_args(line(name, wrong, *more))


def test_all_that_read_logs_are_tried() -> None:
    """Those of the table on the page; and a default is no word that was given."""
    assert {"verify", "mangle", "rewrite", "replay.py", "compact-remap", "compare"} < parsers().keys()
    assert len(CASES) > 60
    for name, parser in parsers().items():
        parser.parse_args(line(name, "d"))


@pytest.mark.parametrize("words", [["--bootstrap", "localhost:1"], ["--patience", "5"], ["--times", "2"],
                                   ["--rows", "/nonexistent"], ["--row", "x.avsc"]])  # fmt: skip
def test_the_command_ends_with_2(run: Run, tmp_path: Path, words: list[str]) -> None:
    """Before it looks for the logs."""
    said = run("verify", tmp_path, *words)

    assert (2, True) == (said.code, said.err.startswith(f"cdcv2 verify: {words[0]}")), said.err


@pytest.mark.parametrize(("words", "text"), [
    (["compare", "f.yaml", "--bootstrap", "b"], "--bootstrap goes with LOG, and f.yaml states how its logs are read"),
    (["compare", "f.yml", "--timeline", "t"], "--timeline goes with LOG"),
    (["draw", "f.yaml", "--rows", "r"], "--rows goes with LOG"),
    (["inspect", "kafka:r", "--bindings", "--row", "f"], "--row goes with logs, and remaps are named here"),
    (["mangle", "kafka:t", "copy", "--partitions", "2"], "--partitions goes with a copy in Kafka, and copy is a dir"),
    (["verify", "kafka:a", "--row", "b=f"], "--row names b, of which no log is given that needs it"),
    (["verify", "kafka:aaaaa", "--row", "aaaab=f"], "did you mean aaaaa"),
    (["verify", "a=d", "b=kafka:t", "--row", "a=f"], "--row names a, of which"),
    (["verify", "kafka:a", "--row", "f", "--rows", "r"], "--rows r goes with a log in Kafka whose row type no other"),
    (["verify", "kafka:a", "--row", "f", "--row", "a=g"], "--row f goes with"),
    (["verify", "kafka:a", "--row", "a=f", "--row", "a=g"], "--row a=f goes with"),
])  # fmt: skip
def test_what_else_would_be_ignored_is_refused(words: list[str], text: str) -> None:
    """With what it goes with, or what is meant."""
    with pytest.raises(UsageError) as caught:
        parser_of(words[0]).parse_args(words[1:])

    assert text in str(caught.value)


def test_one_topic_among_directories_is_enough() -> None:
    """As the source, or as the copy."""
    parser_of("verify").parse_args(["a", "b=kafka:t", "--row", "b=f", "--bootstrap", "b", "--times", "2"])
    parser_of("rewrite").parse_args(["a", "kafka:t", "--bootstrap", "b", "--partitions", "3", "--patience", "9"])
    parser_of("draw").parse_args(["remap", "kafka:t", "--bootstrap", "b", "--rows", "r"])
    JOBS["replay"]().parse_args([
        "a", "kafka:t", "--state", "s", "--output", "o", "--max-files", "1", "--max-records", "1", "--rows", "r",
    ])  # fmt: skip


def test_a_job_compares_the_row_type_of_a_directory_with_what_is_named() -> None:
    """So that of --row TABLE= is not ignored there; that for all tables is."""
    words = ["a=d", "--state", "s", "--output", "o", "--row"]
    JOBS["replay"]().parse_args([*words, "a=f"])

    with pytest.raises(UsageError, match="^--row f goes with"):
        JOBS["replay"]().parse_args([*words, "f"])


def test_a_timeline_beside_a_remap_is_refused(run: Run, tmp_path: Path) -> None:
    """The remap has one."""
    remap = tmp_path / "remap"
    remap.mkdir()
    (remap / f"{0:020}.json").write_text("{}")
    said = run("draw", remap, "--timeline", "t")

    assert (2, True) == (said.code, "--timeline goes with LOG alone, and" in said.err)


TABLES = st.sampled_from(["a", "b", "c"])
#: Each file is another one, so that what a word changes is seen.
WORDS_OF_ROWS = st.lists(st.one_of(st.none(), TABLES), max_size=4).map(
    lambda tables: [f"f{number}" if table is None else f"{table}=f{number}" for number, table in enumerate(tables)]
)


@given(st.sets(TABLES), WORDS_OF_ROWS, st.sampled_from([None, "dir"]))
def test_a_word_is_unused_if_and_only_if_its_absence_changes_no_table(
    tables: set[str], row: list[str], rows: str | None
) -> None:
    """The oracle asks for each table's file, with the word and without it."""
    def files(**words: Any) -> list[str | None]:
        return [row_file(table, argparse.Namespace(**words)) for table in sorted(tables)]

    whole = files(row=row, rows=rows)
    unused = [f"--row {word}" for word in row if files(row=[one for one in row if one != word], rows=rows) == whole]
    unused += [f"--rows {rows}"] if rows is not None and files(row=row, rows=None) == whole else []
    try:
        found = unused_row_word(tables, argparse.Namespace(row=row, rows=rows))
    except UsageError:
        # Of a table that is not there; the message names it.
        assert {word.partition("=")[0] for word in row if "=" in word} - tables
        return

    assert found in unused if unused else found is None
