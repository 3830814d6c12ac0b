"""`cdcv2 capture --follow` waits for what a young source has not made yet, and reports how far it is."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from cdcv2 import events
from cdcv2.capture.facts import Record
from cdcv2.capture.run import remap_loop
from cdcv2.capture.topics import Item, TopicExtents
from cdcv2.capture.topics_check import check_meet
from cdcv2.cli import capture, shared_capture
from cdcv2.cli.options.calm_lines import Lines
from cdcv2.connectors import kafka_ranges, kafka_topics
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import MissingLogError
from cdcv2.event_stream import read_events
from cdcv2.protocol.log import Place
from cdcv2.rows.row_type import RowType
from tests.cli.conftest import Run
from tests.cli.test_command_capture_edges import note, row, scanned

ROW = {"type": "record", "name": "t", "fields": [{"name": "id", "type": "int"}]}
ENDS = [
    Record("src.transaction", 0, at, None, json.dumps({"status": "END", "id": f"{at}:{70 + at}"}).encode())
    for at in range(3)
]


class Cluster:
    """A young source in Kafka, on a clock: its transaction topic comes late. It stops the capture at the end."""

    #: How that is done, and what topics there are besides.
    ends_by = signal.SIGTERM
    others: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.now = 0.0
        self.made = False
        self.sent = 0

    def __call__(self, *_: object, **__: object) -> Cluster:
        """For the classes that it stands in for."""
        return self

    def turn(self, seconds: float) -> None:
        """Time goes by; in the end somebody stops the capture."""
        self.now += seconds
        self.made = self.now >= 20
        if self.now > 60:
            os.kill(os.getpid(), self.ends_by)

    def topics(self) -> list[str]:
        """All that there are."""
        return ["src.public.t", *self.others, *(["src.transaction"] if self.made else [])]

    # -- as KafkaTopics

    known_topics = topics

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """Nothing, then the ENDs, then nothing for ever."""
        while True:
            self.turn(0.5)
            yield None
            while self.made and self.sent < len(ENDS):
                self.sent += 1
                yield ENDS[self.sent - 1]

    def identities(self) -> dict[str, str]:
        """Each its name."""
        return {topic: topic for topic in self.topics()}

    def ranges(self, topic: str) -> Ranges:
        """The same topics, to be read by ranges."""
        return Ranges()

    def ends(self) -> dict[Place, int]:
        """Those of the ENDs."""
        return {("src.transaction", 0): len(ENDS)} if self.made else {}

    def unread(self) -> int | None:
        """Of the ENDs."""
        return len(ENDS) - self.sent if self.made else 0

    def waits(self) -> str | None:
        """The transaction topic."""
        return None if self.made else "there is no topic 'src.transaction'"

    def let_wait(self, is_ahead: object) -> None:
        """Not at all."""


class Ranges(Cluster):
    """The same, to be read by ranges."""

    def look(self) -> TopicExtents:
        """How far it is."""
        self.turn(0.5)
        return TopicExtents(
            {place: (0, end) for place, end in self.ends().items()}, self.identities() if self.made else {}
        )

    def read(self, ranges: Mapping[Place, Any], **_: object) -> Iterator[Record]:  # type: ignore[override]
        """The ENDs in the range."""
        for low, high in ranges.values():
            yield from ENDS[low:high]

    def close(self) -> None:
        """Nothing."""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A capture that follows one table, by a clock that the cluster moves."""
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "public.t.avsc").write_text(json.dumps(ROW), "utf-8")
    cluster, ranges = Cluster(), Ranges()
    monkeypatch.setattr(kafka_topics, "KafkaTopics", cluster)
    monkeypatch.setattr(kafka_ranges, "KafkaRanges", ranges)
    monkeypatch.setattr(capture, "Lines", partial(Lines, clock=lambda: cluster.now))
    monkeypatch.setattr(shared_capture, "Lines", partial(Lines, clock=lambda: ranges.now))
    monkeypatch.setattr(remap_loop, "WAIT", 0.0)
    for module in (capture, shared_capture):
        monkeypatch.setattr(module, "kafka_client", lambda args: None)
    return ["capture", "kafka", "--bootstrap", "nobody:1", "--prefix", "src", "--rows", tmp_path / "rows", "--follow",
            "--snapshot", "none", "--empty", "public.t", "--into", tmp_path / "logs"]  # fmt: skip


def test_it_waits_for_the_transaction_topic_and_reports_how_far_it_is(run: Run, words: list[object]) -> None:
    """Of an idle database the topic is not there yet. A line when something changes; none of them twice in a minute."""
    said = run(*words)
    lines = said.err.splitlines()

    assert (0, True) == (said.code, said.out.startswith("complete through 72: 3 transactions"))
    assert [
        "cdcv2 capture: nothing is complete yet: 0 transactions, 0 rows; there is no topic 'src.transaction'",
        "cdcv2 capture: nothing is complete yet: 0 transactions, 0 rows; 3 records to be read",
        "cdcv2 capture: complete through 72: 3 transactions, 0 rows; nothing is open",
    ] == [line for line in lines if "transactions, " in line]


class IdleSource(Cluster):
    """A source whose snapshot is in its topics, and in which nothing was committed since the connector started."""

    def __init__(self) -> None:
        super().__init__()
        lines = [note(0, "STARTED"), scanned(1, 2), note(2, "COMPLETED"), row(0, 0, 1), row(0, 1, 2)]
        plain = map(json.loads, lines)
        self.records = [Record(one["topic"], 0, one["offset"], None, one["value"].encode()) for one in plain]

    def topics(self) -> list[str]:
        """All but the transaction topic."""
        return ["p.public.t", "p.notifications"]

    def waits(self) -> str | None:
        """The transaction topic."""
        return "there is no topic 'p.transaction'"

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """The snapshot, then nothing for ever."""
        yield from self.records
        while True:
            self.turn(5)
            yield None

    def ends(self) -> dict[Place, int]:
        """Those of the snapshot."""
        return {("p.public.t", 0): 2, ("p.notifications", 0): 3}

    def unread(self) -> int:
        """Nothing."""
        return 0


def test_the_snapshot_of_an_idle_source_is_released_before_the_first_transaction(
    run: Run, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By commit times it needs no END; the line names the topic that is waited for all the same."""
    source = IdleSource()
    monkeypatch.setattr(kafka_topics, "KafkaTopics", source)
    monkeypatch.setattr(capture, "Lines", partial(Lines, clock=lambda: source.now))
    fields = [{"name": "id", "type": "int"}, {"name": "v", "type": ["null", "int"]}]
    (tmp_path / "rows" / "public.t.avsc").write_text(json.dumps({"type": "record", "name": "t", "fields": fields}))
    said = run("capture", "kafka", "--bootstrap", "nobody:1", "--prefix", "p", "--rows", tmp_path / "rows", "--follow",
               "--notifications", "p.notifications", "--into", tmp_path / "logs")  # fmt: skip

    line = "cdcv2 capture: complete through 100: 0 transactions, 2 rows; there is no topic 'p.transaction'"
    assert (0, True) == (said.code, line in said.err.splitlines()), said
    assert ["id,v", "1,0", "2,0"] == run("as-of", tmp_path / "logs", "--table", "public.t").out.splitlines()


def progress(path: Path) -> list[dict[str, Any]]:
    """What a run states while it is at work; it ended well, by SIGTERM."""
    start, *between, end = read_events(path)
    assert ("start", "end", 0, None) == (start["event"], end["event"], end["exit"], end["retry"])
    assert between[-1]["frontier"] == end["frontier"]
    return between


@pytest.fixture
def on_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change is stated, as soon as there is one."""
    monkeypatch.setattr(events, "CHANGED", 0.0)


def test_its_events_name_what_it_waits_for(
    run: Run, words: list[object], tmp_path: Path, on_the_clock: None
) -> None:
    """The same as its lines, as data; and the end, though it never ends by itself."""
    said = run(*words, "--events", tmp_path / "events")
    stated = progress(tmp_path / "events")

    assert 0 == said.code, said.err
    assert [[0], [73]] == [list(one) for one in dict.fromkeys(tuple(one["frontier"]) for one in stated)]
    assert "there is no topic 'src.transaction'" == stated[0]["waits"][0]["text"]
    assert {"records": 3} in [wait["place"] for one in stated for wait in one["waits"]]
    assert [] == stated[-1]["waits"]
    # Not before what was read is released, nor while a topic is not there.
    assert {((73,), True)} == {(tuple(one["frontier"]), one["caught_up"]) for one in stated if one["caught_up"]}
    assert not any(one["caught_up"] for one in stated if one["waits"])


class SlowCluster(Cluster):
    """Topics whose reader waits once before anything came; then all of it comes at once, and nothing after it."""

    def read(self, positions: Mapping[Place, int], *, follow: bool = False) -> Iterator[Item]:
        """Nothing yet, the ENDs, then nothing for ever."""
        yield None
        for self.sent, one in enumerate(ENDS, 1):
            yield one
        while True:
            self.turn(5)
            yield None

    def topics(self) -> list[str]:
        """It is all there."""
        return ["src.public.t", "src.transaction"]

    def unread(self) -> int | None:
        """Not known before something came; of a batch nothing is left."""
        return 0 if self.sent else None

    def waits(self) -> None:
        """Nothing."""


def test_it_has_not_caught_up_before_it_was_given_anything(
    run: Run, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_the_clock: None
) -> None:
    """Nor while it is given the first record that came after a rest."""
    slow = SlowCluster()
    monkeypatch.setattr(kafka_topics, "KafkaTopics", slow)
    monkeypatch.setattr(capture, "Lines", partial(Lines, clock=lambda: slow.now))
    said = run(*words, "--events", tmp_path / "events")
    stated = progress(tmp_path / "events")

    assert 0 == said.code, said.err
    assert {(0, False), (73, True)} == {(one["frontier"][0], one["caught_up"]) for one in stated}


def test_its_events_on_a_remap(run: Run, words: list[object], tmp_path: Path, on_the_clock: None) -> None:
    """Topics that are not there, then records that are not bound, then a frontier of milliseconds."""
    said = run(*words, "--remap", tmp_path / "remap", "--bind-every", "0", "--bind-idle", "0", "--events",
               tmp_path / "events")  # fmt: skip
    stated = progress(tmp_path / "events")
    last = stated[-1]

    assert 0 == said.code, said.err
    assert "waits for the topic src.transaction" in stated[0]["waits"][0]["text"]
    assert last["committed_at"] == (last["frontier"][0] - 1) / 1000
    assert {"records": 3} == last["counts"]


def test_on_a_remap_it_does_so_too(run: Run, words: list[object], tmp_path: Path) -> None:
    """The remap is made when the topic is there."""
    said = run(*words, "--remap", tmp_path / "remap", "--bind-every", "0", "--bind-idle", "0", "--bind-as", "a")
    lines = said.err.splitlines()

    assert 0 == said.code, said.err
    assert "cdcv2 capture: waits for the topic src.transaction. The connector makes it with the first" in lines[0]
    assert lines[-1].startswith("cdcv2 capture: complete through ")
    assert "3 records; nothing is open; committed " in lines[-1]
    assert 1 == len([line for line in lines if "waits for the topic" in line])


@pytest.mark.parametrize(("more", "out"), [
    ([], "complete through 72: 3 transactions"),
    (["--remap", "remap", "--bind-every", "0", "--bind-idle", "0"], "complete through "),
])  # fmt: skip
def test_ctrl_c_ends_it_with_how_far_it_is(
    run: Run, words: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str], out: str
) -> None:
    """As SIGTERM does, but for the exit code and the last line: it was interrupted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Cluster, "ends_by", signal.SIGINT)
    said = run(*words, *more)

    assert (130, True) == (said.code, said.out.startswith(out)), said
    assert "cdcv2 capture: interrupted" == said.err.splitlines()[-1]


def test_a_topic_of_notifications_that_is_not_there_is_waited_for_by_name(
    run: Run, words: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may still come, with the connector's first notification; or its name is wrong: what is like it is named."""
    monkeypatch.setattr(Cluster, "others", ("src.notifications",))
    said = run(*[word if word != "none" else "initial" for word in words], "--notifications", "src.notification")
    lines = [line for line in said.err.splitlines() if "no topic 'src.notification'" in line]

    assert (0, True) == (said.code, "did you mean src.notifications? Topics of the prefix src: src" in lines[0]), said
    assert lines[1].startswith("cdcv2 capture: nothing is complete yet: 0 transactions, 0 rows; there is no topic")
    assert "has not been completed" not in said.err


RECIPE = Recipe("src", {"public.t": RowType(ROW)}, notification_topic="notes")


@pytest.mark.parametrize(("topics", "said"), [
    (["src.public.t", "src.public.u"], None),
    (["src.transaction", "src.message", "notes"], None),
    (["other.public.u"], None),
    (["src.transaction", "src.public.u", "src.public.v"],
     "the row types are of public.t, and the topics of the prefix src are of public.u, public.v"),
])  # fmt: skip
def test_tables_and_topics_that_do_not_meet_are_named(topics: list[str], said: str | None) -> None:
    """With what there is on both sides; where a table's topic may still come, the capture goes on."""
    doubt = RECIPE.unmet(topics)
    assert (said is None, True) == (doubt is None, (said or "") in (doubt or ""))
    reported: list[str] = []
    check_meet(RECIPE, [*topics, "notes"], follow=True, remark=reported.append)
    check_meet(RECIPE, [*topics, "notes"], follow=False, remark=reported.append)
    assert ([] if doubt is None else [doubt, doubt]) == reported
    if doubt is not None:
        with pytest.raises(MissingLogError, match="none of the captured tables has a topic"):
            check_meet(RECIPE, topics, follow=False, remark=reported.append)


@pytest.mark.parametrize(("snapshot", "topics", "more"), [
    ("initial", ["src.public.t", "note"], "; did you mean note? Topics of the prefix src: src.public.t"),
    ("initial", ["src.public.t", "other"], " has sent none yet. Topics of the prefix src: src.public.t"),
    ("initial", ["src.public.t", "notes"], None),
    ("none", ["src.public.t", "other"], None),
])  # fmt: skip
def test_a_snapshot_is_not_begun_without_the_topic_of_its_notifications(
    snapshot: str, topics: list[str], more: str | None
) -> None:
    """Where it may still come, and where the snapshot was captured before, that is a remark."""
    how = replace(RECIPE, snapshot=snapshot)
    reported: list[str] = []
    check_meet(how, topics, follow=True, remark=reported.append, begun=False)
    check_meet(how, topics, follow=False, remark=reported.append)
    said = how.unnotified(topics)
    assert ([] if said is None else [said, said]) == reported
    assert (more is None, True) == (said is None, (more or "") in (said or ""))
    if said is not None:
        with pytest.raises(MissingLogError, match="there is no topic 'notes', and without its notifications"):
            check_meet(how, topics, follow=False, remark=reported.append, begun=False)
