"""A server that goes on from an earlier moment, on another timeline: a look shows it, and its slot is lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdcv2.control.entries import (
    Answer, CatalogueEntry, EntryState, ExternalObject, Kind, Look, Reason, missing_answer,
)  # fmt: skip
from cdcv2.control.external_state import decide, may_be_accepted, recovered
from cdcv2.control.intents import DesiredState, planned
from cdcv2.control.kinds import slots
from cdcv2.control.kinds.slots import SlotKind
from cdcv2.control.slot_marks import SlotMark, branched_off, forked
from cdcv2.errors import UnavailableError
from cdcv2.servers.postgres import Postgres
from tests.control.test_external_state import NOW, entry_of

LEFT = SlotMark(wal=500, timeline=1, kept=100, flushed=480, confirmed=470)


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize(("changes", "lost"), [
    ({"ancestors": {1: 470}}, False), ({"ancestors": {1: 469}}, True),
    # What was seen is no ancestor: an older backup, or another branch.
    ({"ancestors": {}}, True), ({"timeline": 3, "ancestors": {1: 600, 2: 700}}, False),
    ({"timeline": 3, "ancestors": {2: 700}}, True),
    # A slot that was made since keeps nothing of before.
    ({"ancestors": {1: 600}, "kept": 600}, False), ({"ancestors": {1: 600}, "kept": 601}, True),
    ({"ancestors": {1: 600}, "kept": None}, False), ({"timeline": 1, "ancestors": None}, False),
])  # fmt: skip
def test_what_is_not_on_another_timeline_is_lost(changes: dict[str, Any], lost: bool, owned: bool) -> None:
    """What was confirmed behind the place where the timelines part; it stays lost."""
    entry = replace(entry_of(Kind.SLOT, EntryState.IN_USE, owned=owned), settings={}, applied=None, slot=LEFT)
    now = replace(LEFT, **{"wal": 900, "flushed": 900, "timeline": 2, **changes})
    step = decide(entry, Answer("s1", ExternalObject("id-1", slot=now)), NOW)

    assert lost is (EntryState.LOST is step.entry.state) is branched_off(LEFT, now)
    assert not lost or "is on another timeline" in step.shown
    if lost:
        later = replace(LEFT, wal=950, flushed=950)
        assert EntryState.LOST is decide(step.entry, Answer("s1", ExternalObject("id-1", slot=later)), NOW).entry.state


def test_an_owned_slot_is_accepted_after_the_file_has_let_it_go_and_is_owned_again() -> None:
    """As after a false alarm: of ours, no slot that is lost can be accepted."""
    settings = {"plugin": "pgoutput"}
    look = Answer("s1", ExternalObject("id-1", slot=replace(LEFT, wal=900, timeline=2), settings=settings))
    entry = replace(entry_of(Kind.SLOT, EntryState.LOST, owned=True), settings=settings, attempted=NOW, slot=LEFT)
    wish = DesiredState(entry.kind, entry.name, entry.address, settings, False, entry.users[0])
    (let_go,) = planned([entry], [wish], NOW, str)
    accepted = recovered(let_go, look, NOW)
    assert isinstance(accepted, CatalogueEntry)
    (owned,) = planned([accepted], [replace(wish, owned=True)], NOW, str)

    assert (False, True) == (may_be_accepted(entry), may_be_accepted(let_go))
    assert (True, EntryState.IN_USE, entry.nonce) == (owned.owned, owned.state, owned.nonce)
    assert (EntryState.IN_USE, None) == (decide(owned, look, NOW).entry.state, decide(owned, look, NOW).entry.debt)


class Branches:
    """A server whose files can be kept, put back and promoted; with a slot."""

    def __init__(self, server: Postgres) -> None:
        self.server = server
        self.data, self.kept = server.folder / "data", server.folder / "kept"
        self.kind = SlotKind({"a/bank": self.conninfo()})
        self.execute("SELECT pg_create_logical_replication_slot('shop', 'pgoutput')")
        self.execute("CREATE TABLE t (id int); CREATE PUBLICATION p FOR TABLE t")
        entry = entry_of(Kind.SLOT, EntryState.IN_USE, owned=False)
        self.entry = replace(entry, name="shop", address="a/bank", settings={}, applied=None, server=None, slot=None)
        self.see()

    def conninfo(self, **more: str) -> str:
        """That of the superuser, or of another role."""
        from psycopg.conninfo import make_conninfo

        server = self.server
        return make_conninfo("", **{
            "host": server.host, "port": str(server.port), "dbname": server.database, "user": server.username,
            "password": server.password, **more,
        })

    def execute(self, statement: str) -> None:
        """By the superuser."""
        with self.server.connect(autocommit=True) as session:
            session.execute(statement.encode())

    def consume(self) -> None:
        """A row is committed, and the reader of the slot confirms it."""
        self.execute("INSERT INTO t VALUES (1)")
        self.execute("SELECT pg_replication_slot_advance('shop', pg_current_wal_lsn())")

    def keep(self) -> None:
        """The files of now."""
        self.server.stop()
        shutil.rmtree(self.kept, ignore_errors=True)
        self._copy(self.data, self.kept)
        self.server.start()

    def promote(self, *, kept: bool, meanwhile: Callable[[], object] = lambda: None) -> None:
        """The server as a standby that has what it has, or the files that were kept; it becomes the primary.

        ``meanwhile``: what happens before.
        """
        self.server.stop()
        if kept:
            shutil.rmtree(self.data)
            self._copy(self.kept, self.data)
        signal = self.data / "standby.signal"
        signal.touch()
        owner = os.stat(self.data)
        os.chown(signal, owner.st_uid, owner.st_gid)
        self.server.start()
        meanwhile()
        self.execute("SELECT pg_promote()")

    @staticmethod
    def _copy(one: Path, other: Path) -> None:
        shutil.copytree(one, other)
        owner = os.stat(one)
        for path in (other, *other.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)

    def look(self) -> Look:
        """What is there."""
        return self.kind.look(self.entry)

    def see(self) -> EntryState:
        """A look, and what becomes of the entry by it."""
        found = self.look()
        assert isinstance(found, Answer) and found.thing is not None, found
        if self.entry.slot is None:
            self.entry = replace(self.entry, server=found.server, identity=found.thing.identity, slot=found.thing.slot)
        self.entry = decide(self.entry, found, NOW).entry
        return self.entry.state


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Branches]:
    """One server for all."""
    with Postgres() as server:
        yield Branches(server)


@pytest.mark.integration
def test_a_standby_that_had_all_goes_on_and_one_that_lacked_commits_is_lost(branches: Branches) -> None:
    """Also where its WAL has come further than the old one had; who may not replicate learns that it cannot be asked.
    """
    branches.consume()
    assert EntryState.IN_USE is branches.see()
    branches.promote(kept=False)
    assert EntryState.IN_USE is branches.see()
    assert branches.entry.slot is not None and 2 == branches.entry.slot.timeline

    branches.keep()
    branches.consume()
    assert EntryState.IN_USE is branches.see()
    branches.promote(kept=True)
    branches.execute("CREATE TABLE more AS SELECT repeat('x', 500) FROM generate_series(1, 5000)")
    branches.execute("CREATE ROLE reader LOGIN PASSWORD 'x' IN ROLE pg_monitor")
    mark = branches.entry.slot
    plain = SlotKind({"a/bank": branches.conninfo(user="reader", password="x")}).look(branches.entry)
    assert EntryState.LOST is branches.see()
    assert mark is not None and branches.entry.slot is not None
    assert branches.entry.slot == forked(mark, _mark(branches.look())) and 3 == _mark(branches.look()).timeline

    denied = missing_answer(plain)
    assert denied is not None and Reason.DENIED is denied.reason and 3 == _mark(plain).timeline
    assert "is on another timeline, 3" in denied.text and "ALTER ROLE reader REPLICATION;" in denied.text


@pytest.mark.integration
def test_what_hinders_the_question_is_named_as_it_is(
    branches: Branches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes no more sessions is asked again, and no right is asked for."""
    entry = replace(branches.entry, slot=replace(LEFT, timeline=99))
    if 1 == _mark(branches.look()).timeline:
        branches.promote(kept=False)
    real = slots.connect

    def full(conninfo: str, **more: Any) -> Any:
        raise UnavailableError("too many connections")

    monkeypatch.setattr(slots, "connect", full)
    owed = missing_answer(branches.kind.look(entry))
    assert owed is not None and Reason.UNREACHABLE is owed.reason
    assert "too many connections" in owed.text and "ALTER ROLE" not in owed.text

    monkeypatch.setattr(slots, "connect", lambda *all_, **more: _Refusing(real(*all_, **more)))
    refused = missing_answer(branches.kind.look(entry))
    assert refused is not None and Reason.DENIED is refused.reason
    assert "requested timeline" in refused.text.lower() or "could not open" in refused.text.lower()
    assert "ALTER ROLE" not in refused.text


class _Refusing:
    """A session that is asked for the history of a timeline that is not there."""

    def __init__(self, session: Any) -> None:
        self._session, self.close = session, session.close

    def execute(self, _: bytes) -> Any:
        return self._session.execute(b"TIMELINE_HISTORY 77")


@pytest.mark.integration
def test_a_standby_that_receives_nothing_renews_no_mark(branches: Branches) -> None:
    """Its control file has an older timeline than its WAL, for a while."""
    before, seen = branches.entry.slot, list[Look]()
    branches.promote(kept=False, meanwhile=lambda: seen.append(branches.look()))

    (look,) = seen
    assert isinstance(look, Answer) and look.thing is not None and look.thing.slot is None and before is not None
    entry = replace(branches.entry, state=EntryState.IN_USE)
    assert (before, EntryState.IN_USE) == (decide(entry, look, NOW).entry.slot, decide(entry, look, NOW).entry.state)


def _mark(look: Look) -> SlotMark:
    assert isinstance(look, Answer) and look.thing is not None and look.thing.slot is not None
    return look.thing.slot
