"""Logs in directories: durable when flushed, whole or not there, open to many writers, and refused when damaged."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from cdcv2 import failpoints
from cdcv2.core.order import Product
from cdcv2.errors import (
    ForeignStateError,
    MalformedError,
    MissingLogError,
    OutputError,
    RefusedError,
    UnavailableError,
    UnsafeTopicError,
    UsageError,
)
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.container import pack
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import GarbledMessage, Message, Progress, Updates
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from tests.logs.polling import next_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {"type": "record", "name": "data", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": "string"}]}
ROW = RowType(SCHEMA)
OTHER = RowType({"type": "record", "name": "data", "fields": [{"name": "id", "type": "long"}]})
FIRST, SECOND = Updates([(ROW.row([1, "a"]), 3, 1)]), Progress([0], [5], {3: 1})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a log will be."""
    return tmp_path / "logs" / "orders"


def written(path: Path, *flushes: list[Message]) -> DirectoryLog:
    """A log with one file for each list."""
    log = DirectoryLog(path, ROW, create=True)
    for messages in flushes:
        for message in messages:
            log.send(message)
        log.flush()
    return log


def messages(log: DirectoryLog, after: dict[int, int] | None = None) -> list[Any]:
    """What is read from the log now."""
    return [entry.message for entry in log.read(after) if entry is not None]


def files(path: Path) -> list[str]:
    """The names in a directory."""
    return sorted(entry.name for entry in path.iterdir())


def test_messages_come_back_with_their_positions(path: Path) -> None:
    """In the order in which they were written, each with file and ordinal."""
    log = written(path, [FIRST, SECOND], [Progress([5], [])])
    entries = [entry for entry in log.read() if entry is not None]

    assert [FIRST, SECOND, Progress([5], [])] == [entry.message for entry in entries]
    assert [(0, 0), (0, 1), (1, 0)] == [(entry.position.offset, entry.position.index) for entry in entries]
    assert f"{path}[0]@0#1" == str(entries[1].position)
    assert {0: 2} == log.ends() and str(path) == log.name
    assert [Progress([5], [])] == messages(log, {0: 1}) and [] == messages(log, {0: 2})


def test_a_log_is_opened_by_whoever_knows_its_path(path: Path) -> None:
    """It describes itself."""
    written(path, [FIRST])
    log = DirectoryLog(path)

    assert (ROW, "int", [FIRST]) == (log.row_type, log.times, messages(log))
    assert [FIRST] == messages(DirectoryLog(path, ROW, create=True, times="int"))


def test_nothing_is_in_the_log_before_it_is_flushed(path: Path) -> None:
    """Durable is what `flush` returned for, nothing else; a closed sink forgets the rest."""
    log = written(path)
    log.send(FIRST)
    assert [] == messages(log)
    log.close()
    log.flush()

    assert [] == messages(log) and ["_log.json"] == files(path)


def test_product_times_are_kept(path: Path) -> None:
    """The log states of which kind its times are."""
    log = DirectoryLog(path, ROW, create=True, times=2)
    message = Updates([(ROW.row([1, "a"]), Product(1, 2), 1)])
    log.send(message)
    log.flush()

    assert [message] == messages(DirectoryLog(path)) and 2 == DirectoryLog(path).times


def test_files_are_cut_at_their_size(path: Path) -> None:
    """A flush of any size makes files that a reader can hold."""
    log = DirectoryLog(path, ROW, create=True, file_bytes=1000)
    many = [Updates([(ROW.row([number, "x" * 300]), 3, 1)]) for number in range(20)]
    for message in many:
        log.send(message)
    log.flush()

    assert many == messages(log)
    assert 5 == log.ends()[0] and max(file.stat().st_size for file in path.glob("*.avro")) < 2000


def test_the_files_are_avro_containers_for_everyone(path: Path) -> None:
    """Spark, DuckDB or Java read them as a table of one binary column, named as published."""
    written(path, [FIRST, SECOND])
    reader: Any = fastavro.reader(io.BytesIO((path / ("0" * 20 + ".avro")).read_bytes()))
    codec = MessageCodec(ROW)

    assert [FIRST, SECOND] == [codec.decode(record["value"]) for record in reader]
    assert "com.materialize.cdc.file.message" == reader.writer_schema["name"]


def test_many_writers_of_one_log_lose_nothing(path: Path) -> None:
    """A file is put if absent, so each gets numbers of its own, without gaps."""
    written(path)
    ready = threading.Barrier(4)
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            log = DirectoryLog(path)
            ready.wait()
            for number in range(25):
                log.send(Updates([(ROW.row([writer * 100 + number, "x"]), 3, 1)]))
                log.flush()
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    written_ids = sorted(message.updates[0][0].id for message in messages(DirectoryLog(path)))

    assert [] == failed
    assert sorted(writer * 100 + number for writer in range(4) for number in range(25)) == written_ids
    assert 101 == len(files(path)) and {0: 100} == DirectoryLog(path).ends()


def test_two_may_create_a_log_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one finds the log that the first one made, and they agree on it or it is refused."""
    real = os.link

    def overtaken(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "link", real)
        DirectoryLog(path, ROW, create=True)
        real(source, target)

    monkeypatch.setattr(os, "link", overtaken)
    assert [] == messages(DirectoryLog(path, ROW, create=True))
    assert ["_log.json"] == files(path)


@pytest.mark.parametrize(("step", "there"), [("files.before-link", []), ("files.after-link", [FIRST])])
def test_a_crash_while_a_file_is_put_leaves_it_whole_or_not_there(path: Path, step: str, there: list[Message]) -> None:
    """What the crash leaves behind is no part of the log, and the next writer goes on."""
    log = written(path)
    log.send(FIRST)
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        log.flush()

    assert there == messages(DirectoryLog(path))
    assert 1 == len([name for name in files(path) if name.startswith(".")])
    again = written(path, [SECOND])
    assert [*there, SECOND] == messages(again)


@pytest.mark.parametrize("step", ["files.before-link", "files.after-link"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_writer_killed_at_any_put_is_run_again_and_the_log_is_right(path: Path, step: str, nth: int) -> None:
    """SIGKILL in the middle, then the same program once more: one history, complete, nothing twice."""
    script = (
        "import sys; from cdcv2 import Writer; from cdcv2.logs.directory import DirectoryLog\n"
        "from cdcv2.rows.row_type import RowType\n"
        f"row_type = RowType({SCHEMA!r})\n"
        "with Writer(DirectoryLog(sys.argv[1], row_type, create=True)) as writer:\n"
        "    for time in (1, 2):\n"
        "        if not writer.known.less_equal(time): continue\n"
        "        writer.extend([(row_type.row([number, 'x']), time, 1) for number in range(3)])\n"
        "        writer.advance([time + 1])\n"
        "    writer.finish()\n"
    )
    crash = {"CDCV2_CRASH": f"{step}:{nth}", "CDCV2_CRASH_HOW": "kill"}
    run = [sys.executable, "-c", script, str(path)]
    first = subprocess.run(run, env={**os.environ, **crash}, cwd=ROOT, check=False)
    second = subprocess.run(run, cwd=ROOT, check=False, capture_output=True)
    reader = Iter(DirectoryLog(path).read())
    history = [update for updates, _ in reader for update in updates]

    assert -9 == first.returncode
    assert 0 == second.returncode or b"LogFinishedError" in second.stderr
    assert [(number, time) for time in (1, 2) for number in range(3)] == [(row.id, time) for row, time, _ in history]
    assert reader.closed and not reader.missing()


def test_a_directory_in_the_place_of_a_file_is_named_with_what_to_do(path: Path) -> None:
    """Of a log's own file, and of the one that describes it."""
    log = written(path, [FIRST])
    text = "cannot be read: Is a directory: .*; move the directory away, and bring the file back"
    for name in ("00000000000000000000.avro", LOG_FILE):
        (path / name).rename(path / f"kept {name}")
        (path / name).mkdir()
        with pytest.raises(UnavailableError, match=text):
            list(log.read() if name != LOG_FILE else DirectoryLog(path, ROW).read())


def test_a_torn_temporary_file_is_no_part_of_the_log(path: Path) -> None:
    """Its name begins with a dot; no reader opens it."""
    log = written(path, [FIRST])
    (path / ".torn.tmp").write_bytes(b"Obj\x01\x04")

    assert [FIRST] == messages(log) and [FIRST] == messages(DirectoryLog(path, ROW, create=True))


def test_writer_and_reader_meet_in_a_directory(path: Path) -> None:
    """The whole road: write, resume, finish, read."""
    with Writer(DirectoryLog(path, ROW, create=True)) as writer:
        writer.update(ROW.row([1, "a"]), 1, 1)
        writer.advance([2])
    with Writer(DirectoryLog(path)) as writer:
        assert [2] == writer.known.to_plain()
        writer.update(ROW.row([1, "a"]), 2, -1)
        writer.finish()
    reader = Iter(DirectoryLog(path).read())

    assert [((1, "a"), 1, 1), ((1, "a"), 2, -1)] == [update for updates, _ in reader for update in updates]
    assert reader.closed


def test_a_followed_log_goes_on(path: Path) -> None:
    """Nothing now is yielded as None, and what is written later comes."""
    log = written(path, [FIRST])
    followed = DirectoryLog(path, idle_wait=0.001).read(follow=True)

    assert FIRST == next_of(followed).message
    assert next(followed) is None
    log.send(SECOND)
    log.flush()
    assert Entry(Position(str(path), 0, 1), SECOND) == next_of(followed)


def test_a_followed_log_is_not_listed_as_long_as_nothing_comes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look is cheap however many files there are; what was removed is found by the list, which is made seldom."""
    log = written(path, [FIRST])
    followed = DirectoryLog(path, idle_wait=0).read(follow=True)
    next(followed)
    listed = []
    monkeypatch.setattr(DirectoryLog, "_end_beyond", lambda self, start: listed.append(start) or 1)
    monkeypatch.setattr("cdcv2.logs.directory._LISTING", 1000.0)
    assert [next(followed) for _ in range(20)] == [None] * 20 and listed == []
    monkeypatch.undo()
    log.send(SECOND)
    log.flush()
    assert next_of(followed).message == SECOND
    (path / f"{0:020d}.avro").unlink()
    monkeypatch.setattr("cdcv2.logs.directory._LISTING", 0.0)
    with pytest.raises(UnsafeTopicError, match=f"has no file {0:020d}.avro"):
        next(followed)


def damaged(path: Path, content: bytes) -> Iterator[Any]:
    """What is read of a log whose second file has this content."""
    log = written(path, [FIRST], [SECOND], [FIRST])
    (path / f"{1:020d}.avro").write_bytes(content)
    return iter([(entry.position.offset, entry.position.index, entry.message) for entry in log.read() if entry])


def test_bytes_that_are_no_message_are_given_as_such(path: Path) -> None:
    """With their position, between the messages before and behind them; the consumer judges."""
    good = MessageCodec(ROW).encode(SECOND)
    first, whole, bad, last = damaged(path, pack([good, good[:-1]]))

    assert [(0, 0, FIRST), (1, 0, SECOND), (2, 0, FIRST)] == [first, whole, last]
    assert (1, 1) == bad[:2]
    assert isinstance(bad[2], GarbledMessage) and good[:-1] == bad[2].raw and "middle of a value" in bad[2].reason


@pytest.mark.parametrize("content", [b"", b"junk", pack([b"\x00\x00"])[:-3]])
def test_a_damaged_file_is_given_as_such(path: Path, content: bytes) -> None:
    """The rest of the log is read all the same."""
    first, bad, last = damaged(path, content)

    assert [(0, 0, FIRST), (2, 0, FIRST)] == [first, last]
    assert isinstance(bad[2], GarbledMessage) and content == bad[2].raw and bad[2].reason


def test_a_file_that_is_gone_is_an_error(path: Path) -> None:
    """A reader that passed over it might wait for ever, or miss a contradiction."""
    log = written(path, [FIRST], [SECOND], [FIRST])
    (path / f"{1:020d}.avro").unlink()
    # Nor one that was there before: what is complete through a time is so in the log, and not in a memory of it.
    for start in (0, 1, 2, 3):
        with pytest.raises(UnsafeTopicError, match=rf"has no file {1:020d}.avro, though later ones"):
            messages(log, {0: start})


def test_a_file_that_comes_while_names_are_read_is_no_gap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing need not have what was put there meanwhile, and can have what was put after it."""
    log = written(path, [FIRST], [SECOND], [FIRST])
    names = [name for name in os.listdir(path) if not name.startswith(f"{1:020d}")]
    monkeypatch.setattr(os, "listdir", lambda folder: names)

    assert [FIRST] == messages(log, {0: 2})


def test_a_log_that_was_made_anew_is_not_read_on(path: Path) -> None:
    """The positions are another log's."""
    log = written(path, [FIRST])
    with pytest.raises(UnsafeTopicError, match="made again"):
        log.read({0: 2})
    followed = log.read(follow=True)
    assert FIRST == next_of(followed).message
    (path / f"{0:020d}.avro").unlink()
    with pytest.raises(UnsafeTopicError, match="made again"):
        next_of(followed)


def test_a_directory_that_is_no_log_is_a_missing_log(path: Path) -> None:
    """Reported with the path, and not made by accident."""
    with pytest.raises(MissingLogError, match="no directory .*orders"):
        DirectoryLog(path, ROW)
    assert not path.exists()
    path.mkdir(parents=True)
    with pytest.raises(MissingLogError, match="no _log.json"):
        DirectoryLog(path)
    (path / "file").write_text("")
    with pytest.raises(MissingLogError, match="no directory"):
        DirectoryLog(path / "file")
    with pytest.raises(UsageError, match="row type"):
        DirectoryLog(path / "new", create=True)


def test_a_directory_that_cannot_be_listed_is_unavailable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing rights, or a network that is down."""
    log = written(path, [FIRST])

    def refused(*args: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refused)
        with pytest.raises(UnavailableError, match="Permission denied"):
            log.ends()
        patch.setattr(Path, "read_text", refused)
        with pytest.raises(UnavailableError, match="Permission denied"):
            DirectoryLog(path)
    assert {0: 1} == log.ends()


def test_a_url_is_no_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a path it would be a folder called `s3:`."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="put-if-absent"):
        DirectoryLog("s3://bucket/orders", ROW, create=True)

    assert [] == files(tmp_path)


def test_a_log_that_goes_away_is_unavailable(path: Path) -> None:
    """Also while it is followed."""
    log = written(path)
    (path / "_log.json").unlink()
    path.rmdir()
    with pytest.raises(UnavailableError, match="is missing since it was opened"):
        log.ends()


def test_a_directory_with_other_things_is_not_taken_over(path: Path) -> None:
    """A typing error in a path must not put a log among somebody's files."""
    path.mkdir(parents=True)
    (path / "thesis.txt").write_text("")
    with pytest.raises(RefusedError, match="thesis.txt"):
        DirectoryLog(path, ROW, create=True)


def changed(path: Path, **change: Any) -> None:
    """A change of the log's description, by a writer that gives no digest of it."""
    described = path / "_log.json"
    said = {**json.loads(described.read_text()), **change}
    del said["digest"]
    described.write_text(json.dumps(said))


@pytest.mark.parametrize(("change", "error", "said"), [
    ({"version": 2}, RefusedError, "version 2"), ({"version": None}, RefusedError, "version"),
    ({"format": "other"}, RefusedError, "does not describe a log"), ({"row": "long"}, RefusedError, "damaged"),
    ({"row": None}, RefusedError, "damaged"), ({"times": "long"}, RefusedError, "damaged"),
    ({"row": OTHER.schema}, ForeignStateError, "another type"), ({"times": 2}, ForeignStateError, "kind"),
])
def test_a_log_of_another_kind_is_refused(path: Path, change: Any, error: type[Exception], said: str) -> None:
    """Another version, row type or kind of times: reading it would give wrong rows."""
    written(path, [FIRST])
    changed(path, **change)
    with pytest.raises(error, match=said):
        DirectoryLog(path, ROW, create=True, times="int")


def test_a_damaged_description_is_refused(path: Path) -> None:
    """It is not made again: perhaps the log is another one."""
    written(path, [FIRST])
    for text in ("{", "[]", "5"):
        (path / "_log.json").write_text(text)
        with pytest.raises(RefusedError, match="_log.json"):
            DirectoryLog(path, ROW, create=True)


def test_a_description_that_was_changed_is_refused(path: Path) -> None:
    """Columns that changed their names, or long for int, would give other rows from the same bytes, without a word."""
    written(path, [FIRST])
    described = path / "_log.json"
    text = described.read_text()
    for old, new in (('"id"', '"ie"'), ('"times": "int"', '"times": 2'), ('"record"', '"recore"'), ('"long"', '"int"')):
        described.write_text(text.replace(old, new))
        assert text != described.read_text()
        with pytest.raises(RefusedError, match="damaged .it was changed after"):
            DirectoryLog(path)
    described.write_text(json.dumps(dict(reversed(json.loads(text).items()))))

    assert [FIRST] == messages(DirectoryLog(path))


def test_rows_of_another_type_are_refused_by_the_sink(path: Path) -> None:
    """Before anything is written."""
    log = written(path)
    with pytest.raises(MalformedError, match="column 'id'"):
        log.send(Updates([(("x", "y"), 3, 1)]))
    log.flush()

    assert [] == messages(log)


def test_a_failing_disk_is_an_output_error_and_the_flush_can_be_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that was sent is lost, and no temporary file is left."""
    log = written(path)
    log.send(FIRST)
    for call in ("fsync", "link"):
        def full(*args: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            with pytest.raises(OutputError, match="No space left"):
                log.flush()
        assert ["_log.json"] == files(path)
    log.flush()

    assert [FIRST] == messages(log)


def test_a_place_where_no_log_can_be_made_is_an_output_error(tmp_path: Path) -> None:
    """As a file in the way."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="file"):
        DirectoryLog(tmp_path / "file" / "log", ROW, create=True)


def test_a_file_that_cannot_be_read_is_unavailable(path: Path) -> None:
    """Missing rights or a failing disk: not a damaged log."""
    log = written(path, [FIRST])
    (path / f"{0:020d}.avro").unlink()
    (path / f"{0:020d}.avro").mkdir()
    with pytest.raises(UnavailableError, match="cannot be read"):
        messages(log)


def test_a_log_is_marked_with_another_ordering_than_that_of_commits(path: Path) -> None:
    """A writer with the attribute marks it, also an existing log; it stays marked, and the rest as it was."""
    log = written(path, [FIRST])
    before = json.loads((path / "_log.json").read_text("utf-8"))
    opened = DirectoryLog(path, description=LogDescription(AS_COMPLETE))
    again = DirectoryLog(path, ROW, create=True)
    fresh = DirectoryLog(path.parent / "fresh", ROW, create=True, description=LogDescription(AS_COMPLETE))

    assert COMMIT_ORDER == before.get("ordering", COMMIT_ORDER)
    assert [AS_COMPLETE] * 4 == [one.description().ordering for one in (log, opened, again, fresh)]
    after = json.loads((path / "_log.json").read_text("utf-8"))
    assert {**before, "digest": 0} == {name: one for name, one in {**after, "digest": 0}.items() if name != "ordering"}
    assert [FIRST] == messages(again)
    with pytest.raises(UsageError, match="ordering"):
        DirectoryLog(path, description=LogDescription("random"))


def test_a_log_that_was_begun_in_another_way_meanwhile_is_not_written(tmp_path: Path) -> None:
    """Nothing was in it when it was opened, so another capture could take the place: its rows are of another type."""
    log = DirectoryLog(tmp_path / "log", ROW, create=True)
    log.send(Progress([0], [1], {}))
    (tmp_path / "log" / "_log.json").unlink()
    other = RowType({"type": "record", "name": "data", "fields": [{"name": "other", "type": "int"}]})
    DirectoryLog(tmp_path / "log", other, create=True)
    with pytest.raises(ForeignStateError, match="holds rows of another type"):
        log.flush()
    assert [] == list((tmp_path / "log").glob("*.avro"))
