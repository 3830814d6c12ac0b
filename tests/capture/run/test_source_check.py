"""A capture that lost its memory does not take the topics of another source for those that its logs were made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.capture.evidence import SourceEvidence
from cdcv2.capture.run.commit_times import Capture
from cdcv2.capture.run.loop import run
from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.connectors.dump_files import DumpedTopics
from cdcv2.errors import ForeignStateError, SourceStop, UnsafeTopicError
from cdcv2.logs.memory import MemoryLog
from tests.recorded import TABLES, dump, recipe

SPANS = {"a": (100, 130), "b": (100, 100), "c": (110, 120), "d": None}


@pytest.mark.parametrize(("said", "found"), [
    ([("a", 90)], "snapshot of a at 90, and its log begins at 100"),
    ([("d", 90)], "snapshot of d at 90, and its log has no updates"),
    ([110, 125, 130], "log of c has updates at 120, and no transaction ends there"),
    ([110, 120, 131], "log of a has updates at 130, and no transaction ends there"),
    ([110, 120, 125], "log of a has updates at 130, and the last END of the topics is at 125"),
    ([], "log of a has updates at 130, and the last END of the topics is at 0"),
    ([110, 120, 110, ("a", 100), ("b", 100), 120, 130, 140], None),
    ([("d", 100), ("c", 100), ("a", 140), 120, 130], None),
])  # fmt: skip
def test_the_first_and_the_last_times_must_be_found(said: list[int | tuple[str, int]], found: str | None) -> None:
    """Rows of the snapshot where the log begins, an END where it has updates last."""
    evidence = SourceEvidence(SPANS)
    assert not evidence.sure and SourceEvidence({"a": None}).sure

    def tell() -> None:
        for one in said:
            evidence.end(one) if isinstance(one, int) else evidence.snapshot(*one, 130)
        evidence.finished()

    if found is None:
        tell()
        assert evidence.sure
        return
    with pytest.raises(ForeignStateError, match=found):
        tell()


@pytest.mark.parametrize(("mine", "other"), [("crash_full", "clean_full"), ("clean_full", "crash_full")])
def test_without_a_memory_other_topics_are_refused(mine: str, other: str) -> None:
    """Recorded: of a source that lies before, and of one that lies behind, whose facts would all look like repeats."""
    logs = {table: MemoryLog() for table in TABLES}
    for _ in range(2):
        with pytest.raises(SourceStop, match="was truncated"):
            run(Capture(recipe(mine), logs), dump(mine))
    before = {table: len(list(log.read())) for table, log in logs.items()}
    with pytest.raises(ForeignStateError, match="the logs were made of other topics"):
        run(Capture(recipe(other), logs), dump(other))

    assert before == {table: len(list(log.read())) for table, log in logs.items()}


def test_a_dump_that_ends_before_the_memory_is_refused(tmp_path: Path) -> None:
    """It is an older one; where it ends as the memory does, there is nothing new."""
    lines = ['{"topic": "t", "partition": 0, "offset": %d, "key": null, "value": null}\n' % at for at in range(3)]
    (tmp_path / "dump.jsonl").write_text("".join(lines), "utf-8")
    topics = DumpedTopics(tmp_path / "dump.jsonl")

    assert [] == list(topics.read({("t", 0): 3, ("gone", 0): 9}))
    with pytest.raises(UnsafeTopicError, match="the topic 't' ends at 3 in partition 0, and was read up to 4 before"):
        topics.read({("t", 0): 4})


def test_a_topic_that_was_made_anew_is_told_by_its_identity(tmp_path: Path) -> None:
    """However long it is by now; remembered from run to run, also of topics that are not there for a while."""
    memory = MemoryFile(tmp_path / "memory.json")

    def started(**topics: str) -> None:
        capture = Capture(recipe("clean_full"), {table: MemoryLog() for table in TABLES}, memory=memory)
        capture.reads(topics)
        capture.save()

    started(a="1", b="2")
    started(a="1")
    with pytest.raises(ForeignStateError, match="the topic b is another one than the one that was captured before"):
        started(a="1", b="3")


def test_it_is_sure_when_nothing_more_is_to_be_compared() -> None:
    """Not by a part of the rows and ENDs; where the logs have the snapshot alone, by a row of it, or a later END."""
    evidence, scanned, ended = (
        SourceEvidence(SPANS),
        SourceEvidence({"a": (100, 100)}),
        SourceEvidence({"a": (100, 100)}),
    )
    evidence.snapshot("a", 100, 130)
    evidence.end(120)
    assert not (evidence.sure or scanned.sure)
    evidence.end(130)
    scanned.snapshot("a", 100, 100)
    ended.end(101)

    assert evidence.sure and scanned.sure and ended.sure


@pytest.mark.parametrize(("mine", "other"), [("crash_full", "clean_full"), ("clean_full", "crash_full")])
def test_one_that_is_stopped_before_it_is_sure_remembers_nothing(tmp_path: Path, mine: str, other: str) -> None:
    """With a state of what it had read until then, the next one would not ask again."""
    logs = {table: MemoryLog() for table in TABLES}
    with pytest.raises(SourceStop, match="was truncated"):
        run(Capture(recipe(mine), logs), dump(mine))
    memory = MemoryFile(tmp_path / "memory.json")
    capture = Capture(recipe(other), logs, memory=memory)
    run(capture, dump(other), stopping=lambda: True)
    capture.save()

    with pytest.raises(ForeignStateError, match="the logs were made of other topics"):
        run(Capture(recipe(other), logs, memory=memory), dump(other))
