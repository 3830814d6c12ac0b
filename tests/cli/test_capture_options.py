"""What the command and the job on Spark make of the same options is the same recipe."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from pathlib import Path

import pytest

from cdcv2.cli.main import parser_of
from cdcv2.cli.options.capture_options import (
    ALL_WAYS, COMMAND, COMMIT_TIMES, DUMPS, JOB, OPTIONS, REMAP, STREAM, CaptureOption, fields_of_pipelines,
)
from cdcv2.cli.options.capture_arguments import recipe_of
from cdcv2.cli.options.words import WORDS
from cdcv2.capture.connector import FROM_ENVELOPE, FROM_STATE
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import UsageError
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture import job
from tests.cli.test_help_examples import JOBS

SCHEMA = {"type": "record", "name": "t", "fields": [{"name": "text", "type": "string"}]}


def asked(folder: Path, **more: str) -> Recipe:
    """The recipe of these options, the rest left out."""
    words = [word for name, value in more.items() for word in (f"--{name.replace('_', '-')}", value)]
    given = ["d.jsonl", "--prefix", "shop", "--rows", str(folder), "--into", "logs", *words]
    return recipe_of(parser_of("capture").parse_args(given))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Row types of two tables."""
    for table in ("public.a", "größe.тест"):
        (tmp_path / f"{table}.avsc").write_text(json.dumps(SCHEMA))
    return tmp_path


def test_without_a_choice_all_tables_with_a_row_type_are_captured(rows: Path) -> None:
    """And nothing else is assumed."""
    found = asked(rows)

    assert {"public.a": RowType(SCHEMA), "größe.тест": RowType(SCHEMA)} == found.tables
    assert ("shop", "initial", None, frozenset()) == (
        found.prefix, found.snapshot, found.notification_topic, found.full_identity)


def test_each_option_is_in_the_recipe(rows: Path) -> None:
    """Lists have commas, and perhaps spaces."""
    found = asked(rows, tables=" public.a ,", snapshot="none", notifications="n", full_identity="public.a, ",
                  before=FROM_STATE)

    assert (["public.a"], "none", "n", {"public.a"}, FROM_STATE) == (
        list(found.tables), found.snapshot, found.notification_topic, found.full_identity, found.before)


@pytest.mark.parametrize(
    ("more", "said"),
    [({"tables": "public.b"}, "the row type of public.b is missing: .*public.b.avsc"),
     ({"tables": "public.aa"}, "public.aa.avsc; make it with cdcv2 rows; did you mean public.a?"),
     ({"tables": ","}, "--tables ',' names nothing"), ({"tables": ""}, "--tables '' names nothing"),
     ({"notifications": ""}, "--notifications '' names no topic"), ({"empty": ""}, "--empty '' names nothing"),
     ({"full_identity": ""}, "--full-identity '' names nothing"),
     ({"full_identity": " , "}, "--full-identity ' , ' names nothing"),
     ({"full_identity": "public.b"}, "public.b, which is not captured"),
     ({"tables": "../public.a"}, "the table '../public.a' cannot be taken: .*'/'")],
)
def test_what_cannot_be_is_refused(rows: Path, more: dict[str, str], said: str) -> None:
    """With the option's value."""
    with pytest.raises(UsageError, match=said):
        asked(rows, **more)


@pytest.mark.parametrize(("content", "said"), [("{", "is no JSON"), ('"long"', "an Avro record schema")])
def test_a_file_without_a_row_type_is_wrong_usage(rows: Path, content: str, said: str) -> None:
    """Of every capture."""
    (rows / "public.a.avsc").write_text(content)
    with pytest.raises(UsageError, match=f"public.a.avsc.*{said}"):
        asked(rows)


def test_a_folder_without_row_types_is_refused(tmp_path: Path) -> None:
    """With the remedy."""
    with pytest.raises(UsageError, match="there is no row type in .*cdcv2 rows"):
        asked(tmp_path)


BASE = ["d", "--rows", "r", "--into", "l"]
CHOOSE = {COMMIT_TIMES: [], REMAP: ["--remap", "m"], STREAM: ["--stream", "a=t"]}
WAYS = {option.name: option.ways for option in OPTIONS if option.ways != ALL_WAYS}
KAFKA = {option.name: option.places for option in OPTIONS if option.places and DUMPS not in option.places}


@pytest.mark.parametrize("program", ["capture", "capture.py"])
@pytest.mark.parametrize("way", CHOOSE)
def test_an_option_that_would_be_ignored_is_refused(program: str, way: str) -> None:
    """Also with its default as its value, and as one word; each that goes is taken, by the command and by the job."""
    parser = parser_of("capture") if program == "capture" else JOBS["capture"]()
    for option, ways in WAYS.items():
        action = parser._option_string_actions.get(option)
        if action is None or option in CHOOSE:
            continue
        value = next(iter(action.choices)) if action.choices else "1"
        given = [option] if action.nargs == 0 else [f"{option}={value}"]
        if way in ways:
            parser.parse_args([*BASE, *CHOOSE[way], *given])
            continue
        with pytest.raises(UsageError, match=f"^{option} (goes with|does not go with) --"):
            parser.parse_args([*BASE, *CHOOSE[way], *given])


@pytest.mark.parametrize("program", ["capture", "capture.py"])
@pytest.mark.parametrize("way", CHOOSE)
@pytest.mark.parametrize("option", KAFKA)
def test_an_option_about_kafka_goes_with_what_is_there(program: str, way: str, option: str) -> None:
    """Dumps, logs and a remap that are files need no broker; one of them in Kafka does."""
    parser = parser_of("capture") if program == "capture" else JOBS["capture"]()
    if option not in parser._option_string_actions:
        return
    files = ["--rows", "r", *CHOOSE[way]]
    flag = parser._option_string_actions[option].nargs == 0
    for given in ([option],) if flag else ([f"{option}=1"], [option, "1"]):
        for source in (["d.jsonl"], ["d", "e.jsonl"]):
            with pytest.raises(UsageError, match=f"^{option} goes with .*, and dumps, logs and remap are files here"):
                parser.parse_args([*source, *files, "--into", "l", *given])
            parser.parse_args([*source, *files, "--into", "kafka:l.{table}", *given])
        if way == REMAP:
            parser.parse_args(["d.jsonl", "--rows", "r", "--remap", "kafka:m", "--into", "l", *given])
        for source in (["kafka"], []):
            if KAFKA[option] == {"writes"}:
                with pytest.raises(UsageError, match=f"{option} goes with logs or a remap in Kafka"):
                    parser.parse_args([*source, *files, "--into", "l", *given])
            else:
                parser.parse_args([*source, *files, "--into", "l", *given])


def test_a_limit_of_files_goes_with_dumps() -> None:
    """A topic has none; the job alone has the option."""
    words = ["--rows", "r", "--into", "l", "--max-files", "3"]
    JOBS["capture"]().parse_args(["d", *words])

    for source in (["kafka"], []):
        with pytest.raises(UsageError, match="^--max-files goes with dumps, and the topics are in Kafka here: leave"):
            JOBS["capture"]().parse_args([*source, *words])


def test_every_option_of_a_remap_and_of_streams_is_known() -> None:
    """One that is new cannot be forgotten."""
    groups = {group.title: group for group in parser_of("capture")._action_groups}
    for title, way in (("on a shared remap", REMAP), ("records with times of their own", "--stream")):
        options = {word for action in groups[title]._group_actions for word in action.option_strings} - {"--stream"}
        assert {(way,)} == {WAYS[option] for option in options}


#: Options that mean the same however a capture is done.
WITH_ALL_WAYS = {
    "--app-name", "--events", "--follow", "--help", "--into", "--json", "--max-records", "--no-follow", "--rows",
    "--spark-log", "-h",
}


@pytest.mark.parametrize("program", ["capture", "capture.py"])
def test_an_option_goes_with_all_ways_only_if_that_is_stated(program: str) -> None:
    """An option that is new, and that no list has, would be ignored by the ways that do not know it."""
    parser = parser_of("capture") if program == "capture" else JOBS["capture"]()
    options = {word for action in parser._actions if action.help != SUPPRESS for word in action.option_strings}
    listed = WAYS.keys() | KAFKA.keys() | CHOOSE.keys()

    assert WITH_ALL_WAYS & options == options - listed
    assert not WITH_ALL_WAYS & listed


@pytest.mark.parametrize("option", [one for one in OPTIONS if one.from_state])
def test_an_option_that_from_state_would_ignore_is_refused(option: CaptureOption) -> None:
    """With what to do; a pipeline's file has it, too."""
    parser = parser_of("capture")
    parser.parse_args([*BASE, option.name, "1", "--before", FROM_ENVELOPE])

    with pytest.raises(UsageError, match=f"^{option.name} does not go with --before .*Leave out {option.name}, or"):
        parser.parse_args([*BASE, option.name, "1", "--before", FROM_STATE])
    assert option.name.removeprefix("--") in fields_of_pipelines(COMMAND)


@pytest.mark.parametrize("program", [COMMAND, JOB])
def test_a_program_has_the_options_of_the_table_and_no_other(program: str) -> None:
    """An option that is stated elsewhere would have no ways."""
    parser = parser_of("capture") if program == COMMAND else JOBS["capture"]()
    options = {action.option_strings[0] for action in parser._actions if action.option_strings}

    named = {one.name for one in OPTIONS if program in one.programs and not one.several and one.name.startswith("-")}
    assert options == {*named, "-h", "--no-follow"}


@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf", "soon"])
def test_a_patience_that_is_none_is_refused(value: str) -> None:
    """In every command that has it, with its value."""
    with pytest.raises(UsageError, match=f"--patience: .*{value}"):
        parser_of("capture").parse_args([*BASE, f"--patience={value}"])


def test_the_job_names_files_that_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the command does, and Spark by itself does not; of many the first."""
    for number in range(7):
        (tmp_path / f"_{number}.jsonl").touch()
    assert 2 == job.main([str(tmp_path), "--prefix", "shop", "--rows", str(tmp_path), "--into", "l"])

    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("capture: not read, as their names begin") and said[0].endswith("_4.jsonl, and 2 more")


def test_the_table_states_which_options_have_a_path() -> None:
    """Those whose value is called a directory, a file, logs or a remap: in a pipeline's file it is from its folder."""
    called = {one.name: {**WORDS.get(one.name, {}), **one.settings}.get("metavar") for one in OPTIONS}

    assert {name for name, what in called.items() if what in ("DIR", "FILE", "LOGS", "REMAP")} == {
        one.name for one in OPTIONS if one.is_path
    }


def test_a_capture_of_a_pipeline_has_what_the_file_does_not_state_elsewhere() -> None:
    """By the names of the options; the job has more of its own."""
    command, job_alone = fields_of_pipelines(COMMAND), fields_of_pipelines(JOB).keys() - fields_of_pipelines(COMMAND)

    assert {"remap", "before", "stream", "patience"} <= command.keys()
    assert not {"source", "rows", "into", "follow", "events", "kafka-config"} & command.keys()
    assert {"log-bootstrap", "partitions", "interval", "max-files", "app-name", "spark-log"} == job_alone
