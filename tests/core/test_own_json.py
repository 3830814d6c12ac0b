"""What is kept as JSON is damaged, one value at a time: it is refused with its path, and ends in no other error."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.commit_transactions import CommitTransactions
from cdcv2.capture.memory import CaptureMemory
from cdcv2.capture.memory_format import plain_memory, read_memory
from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.core.antichain import Antichain
from cdcv2.core.own_json import check_shape, with_digest
from cdcv2.errors import Cdcv2Error, ForeignStateError, RefusedError
from cdcv2.logs import log_json
from cdcv2.logs.capture_manifest import CAPTURE_FILE, add_to_manifest, manifest_of, put_manifest
from cdcv2.logs.description import LogDescription
from cdcv2.logs.release_times import TIMES_FILE, ReleaseTime, ReleaseTimes
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.logs.stops import Stop, in_folder, put_in_folder
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.recovery_log import after_start
from cdcv2.materialize.recovery_log_stores import FileRecoveryLog, SqliteRecoveryLog
from cdcv2.materialize.targets.lake.manifest import LakeFolder
from cdcv2.rows.row_type import RowType
from cdcv2.store.numbered import NumberedFiles
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.minting import follow, run
from cdcv2.timeline.records import Genesis, Proposal, encode
from cdcv2.timeline.shared_remap import SharedRemap

GOLDEN = Path(__file__).parent.parent / "golden" / "captures"
ABSENT = object()
VALUES = [ABSENT, None, "x", -1, 1.5, [], {}, [1], True, 10**30]


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a value; of a list only its first two."""
    inner = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for name, one in inner:
        yield (*place, name)
        yield from places(one, (*place, name))


def damaged(plain: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The value with one of its values in another type, or without it; and where that is."""
    for place in places(plain):
        for value in VALUES:
            other = inner = copy.deepcopy(plain)
            for name in place[:-1]:
                inner = inner[name]
            if value is ABSENT:
                del inner[place[-1]]
            else:
                inner[place[-1]] = value
            # True == 1 == 1.0 to Python, and not in JSON.
            if json.dumps(other) != json.dumps(plain):
                yield place, other


def outcomes(path: Path, read: Callable[[], object]) -> Iterator[tuple[tuple[Any, ...], str | None]]:
    """For each damage of a file: where it is, and how reading it is refused; None where it is read all the same."""
    whole = path.read_bytes()
    for place, other in damaged(json.loads(whole)):
        path.write_text(json.dumps(other), "utf-8")
        try:
            read()
        except Cdcv2Error as error:
            yield place, str(error)
        else:
            yield place, None
    path.write_bytes(whole)


def row_type() -> RowType:
    """A row type of one column."""
    return RowType({"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]})


def older_memory() -> Any:
    """A memory from before there were digests, without what is not read of it any more, and with one log."""
    plain = json.loads((GOLDEN / "commit-times" / "logs" / "_memory.json").read_text("utf-8"))
    del plain["commits"]["released"], plain["logs"]["public.orders"]
    return plain


def memory(folder: Path) -> tuple[Path, Callable[[], object]]:
    """The memory of a capture by commit times."""
    kept = MemoryFile(folder / "_memory.json")
    kept.save(older_memory())
    return kept.path, kept.load


def manifest(folder: Path) -> tuple[Path, Callable[[], object]]:
    """Whatever is kept in numbered files: a lake, a recovery log, the state of a job."""
    numbered = NumberedFiles(folder, "the lake")
    numbered.put(7, {"version": 1, "tables": {"t": {"key": [["id", "int", False, None, None]]}}, "applied": [[0, 9]]})
    return next(folder.glob("*.json")), numbered.last


def description(folder: Path) -> tuple[Path, Callable[[], object]]:
    """What a log in a directory states of itself."""
    log_json.make(folder, row_type(), "int", LogDescription(timeline="7f", start="70"))
    return folder / log_json.LOG_FILE, lambda: log_json.read(folder)


def stop(folder: Path) -> tuple[Path, Callable[[], object]]:
    """Why a capture stopped."""
    put_in_folder(folder, Stop("a row is missing", "start over"))
    return next(folder.glob("_stop.*.json")), lambda: in_folder(folder)


def release_time(folder: Path) -> tuple[Path, Callable[[], object]]:
    """When a release was committed; a file of one line."""
    times = ReleaseTimes(folder)
    times.keep(ReleaseTime(10, 1795251720505))
    return folder / TIMES_FILE, times.read


def record(folder: Path) -> tuple[Path, Callable[[], object]]:
    """A record of a shared remap."""
    remap = DirectoryRemap(folder, create=True)
    remap.append(encode(Genesis(Antichain([0]), "v1", "a")), 0)
    remap.append(encode(Proposal(0, Binding(1, 1001, Antichain([7])), "v2", "b")), 1)
    return folder / f"{1:020d}.json", lambda: run(remap, follow(SharedRemap(name="c")))


def added(folder: Path) -> tuple[Path, Callable[[], object]]:
    """What was added to the note of a capture."""
    put_manifest(folder, {"tables": []})
    add_to_manifest(folder, {"tables": ["t"]})
    return next(folder.glob("_capture.*.json")), lambda: manifest_of(folder)


@pytest.mark.parametrize("kind", [memory, manifest, description, stop, added, release_time, record])
def test_a_file_that_was_changed_after_it_was_written_is_refused(
    tmp_path: Path, kind: Callable[[Path], tuple[Path, Callable[[], object]]]
) -> None:
    """Whatever is changed in it, with its path; only a file without its digest is taken for an older one."""
    path, read = kind(tmp_path)
    read()
    found = list(outcomes(path, read))
    assert len(found) > 10
    for place, said in found:
        assert (said is None) == (said is None and place == ("digest",)), place
        # A record of another version is named by its number: nothing else is known of it.
        assert said is None or str(tmp_path) in said or place == ("cdcv2-remap",), said


def test_a_release_time_of_another_type_is_refused_with_the_path(tmp_path: Path) -> None:
    """A line that was broken off is passed over, and one that is whole and damaged is not."""
    path = tmp_path / TIMES_FILE
    path.write_text('{"version": 1, "lsn": 10, "ts_ms": 1795251720505}', "utf-8")
    found = [said for _, said in outcomes(path, ReleaseTimes(tmp_path).read)]
    # It has no digest, as those of earlier releases. To Python true is 1, and a moment may be before 1970.
    assert 2 == found.count(None) and all(said is None or str(path) in said for said in found)
    for line in ("[1]", "null", "3", '"x"', "{}"):
        path.write_text(line, "utf-8")
        with pytest.raises(RefusedError, match=TIMES_FILE):
            ReleaseTimes(tmp_path).read()
    path.write_text('{"version": 1, "ls', "utf-8")
    assert [] == ReleaseTimes(tmp_path).read()


def test_a_note_of_another_type_is_refused_with_the_path(tmp_path: Path) -> None:
    """It has no digest: its values are known by their types."""
    put_manifest(tmp_path, {"tables": ["t"], "timeline": "7f"})
    for _, said in outcomes(tmp_path / CAPTURE_FILE, lambda: manifest_of(tmp_path)):
        assert said is None or CAPTURE_FILE in said


def test_older_manifests_without_a_digest_never_end_in_another_error(tmp_path: Path) -> None:
    """Of a lake and of a recovery log: a value of another type is refused, or does no harm."""
    lake, name = LakeFolder(tmp_path / "lake"), "00000000000000000007.json"
    for kind, place in (("recovery", tmp_path / "rec"), ("tables/_manifests", tmp_path / "lake" / "_manifests")):
        place.mkdir(parents=True)
        (place / name).write_bytes(max((GOLDEN / "lake" / kind).glob("*.json")).read_bytes())
    last = lake.last()[1]
    assert last is not None

    def read_lake() -> None:
        lake.last()
        lake.orphans()

    refused = [said for _, said in outcomes(tmp_path / "lake" / "_manifests" / name, read_lake) if said]
    assert refused and all(str(tmp_path / "lake") in said for said in refused)

    def read_recovery() -> None:
        log = FileRecoveryLog(last.materialization, tmp_path / "rec")
        log.checkpoints()
        after_start(log.holdings(), Range(), Antichain([0]))

    refused = [said for _, said in outcomes(tmp_path / "rec" / name, read_recovery) if said]
    assert any(str(tmp_path / "rec") in said for said in refused)


def test_an_older_memory_without_a_digest_never_ends_in_another_error(tmp_path: Path) -> None:
    """Its positions, its decisions, the states of its readers."""
    plain = older_memory()
    path = tmp_path / "_memory.json"
    path.write_text(json.dumps(plain), "utf-8")

    def read() -> None:
        kept = MemoryFile(path).load()
        assert kept is not None
        read_memory(CaptureMemory, kept, plain["capture"])
        CommitTransactions.restore(kept["commits"], plain["commits"]["tables"], known=plain["commits"]["through"] + 1)

    assert any(said for _, said in outcomes(path, read))


def test_each_value_of_a_memory_is_checked_by_its_shape() -> None:
    """A text in place of a number, an object or a list is refused, wherever a capture reads it."""
    plain = json.loads(json.dumps(plain_memory(CaptureMemory(
        {
            "version": 1, "tables": ["t"], "mode": "initial", "through": 9, "lost": None, "spoilt": None,
            "snapshot": {
                "released": True, "lsn": 5, "completed": True, "notified": 3,
                "rows": {"released": {"t": [5, 1]}, "rows": {"t": 1}, "read": {"p.t": {"0": 4}}},
            },
            "again": {"told": [8], "runs": 1, "notified": 6}, "first": [7],
        },
        {("p.t", 0): 4}, {"p.t": "7f"}, {"t": {"positions": {"0": 2}, "marks": {}, "rows": 1, "reader": {}}},
    ), {})))
    assert plain == plain_memory(read_memory(CaptureMemory, plain, {}), {})
    taken = []
    for place in places(plain):
        other = inner = copy.deepcopy(plain)
        for name in place[:-1]:
            inner = inner[name]
        was, inner[place[-1]] = inner[place[-1]], "x"
        try:
            read_memory(CaptureMemory, other, {})
        except ForeignStateError:
            continue
        taken += [] if type(was) is str else [place]

    assert [("commits", "version")] == taken


@pytest.mark.parametrize("value, shape", [([1, "x"], list), ({"a": [1]}, dict), ([], list), ([[1]], list[list])])
def test_a_shape_without_the_types_of_its_items_takes_any(value: Any, shape: Any) -> None:
    """A list is a list then, and an object an object."""
    check_shape(value, shape)
    with pytest.raises(TypeError, match="is no"):
        check_shape("x", shape)


def test_a_damaged_recovery_log_in_sqlite_is_refused_with_its_path(tmp_path: Path) -> None:
    """It has the same digest as one in a folder."""
    path = tmp_path / "recovery.sqlite"
    log = SqliteRecoveryLog("m", path)
    log.open(Range(), Antichain([0]))
    [[text]] = log._file.rows("SELECT log FROM cdcv2_recovery_log", [])
    for other in ("{", "3", "null", json.dumps({**json.loads(text), "holdings": -1}), text.replace("0", "1", 1)):
        log._file.rows("UPDATE cdcv2_recovery_log SET log = ?", [other])
        with pytest.raises(ForeignStateError, match="recovery.sqlite"):
            log.holdings()
    log.close()


def test_the_digest_is_of_what_json_makes_of_a_value() -> None:
    """Numbers as names are texts, tuples lists, and a digest that was there before is not part of it."""
    assert with_digest({"a": {2: (1, 2), 10: []}}) == with_digest(json.loads(
        '{"digest": 3, "a": {"10": [], "2": [1, 2]}}'
    ))


def test_the_digest_of_a_value_never_changes() -> None:
    """What was kept by an earlier version has it: it is part of the format."""
    assert "be8a48b71185040b59fbe1445daaf5f9" == with_digest({"b": [1, 2], "a": {"c": None}})["digest"]
