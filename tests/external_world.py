"""Servers in memory, for external state: they know the truth about everything in them, and who made it.

Nothing here shares a rule with the code under test: each object has a *maker* that no look shows, and every act of
ours on an object that is not ours is a failure at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from cdcv2.control.entries import Answer, CatalogueEntry, ExternalObject, Kind, Look, NoAnswer, Reason
from cdcv2.control.slot_marks import SlotMark
from cdcv2.errors import FencedError

OTHERS = "others"
#: Kinds that carry a mark.
MARKED = {Kind.PUBLICATION, Kind.CONNECTOR, Kind.TARGET_TABLE, Kind.STAGING, Kind.STATE_FOLDER}


@dataclass
class WorldObject:
    """What is really there."""

    identity: str
    maker: str
    settings: dict[str, Any]
    mark: str | None = None
    empty: bool = True
    holder: str = ""
    invalid: str = ""
    #: of a slot: the WAL from which on it keeps it, the session that reads it, how many transactions it has sent, and
    #: what was confirmed
    kept: int = 0
    reader: str = ""
    sent: int = 0
    confirmed: int | None = None


@dataclass
class WorldServer:
    """One server; ``hindered`` is why it refuses to answer now, ``wal`` how much WAL there is."""

    identity: str
    objects: dict[tuple[Kind, str], WorldObject] = field(default_factory=dict)
    hindered: Reason | None = None
    wal: int = 0


class World:
    """All servers by address, what is on its way to them, and what happened that was no act of ours."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.servers: dict[str, WorldServer] = {}
        #: nonces whose object others removed, replaced, changed or invalidated
        self.harmed: set[str] = set()
        #: acts that were requested, and are carried out later: until when, and what
        self.pending: list[tuple[float, Callable[[], object]]] = []
        #: whether the next act loses its answer, and is carried out later
        self.losing = False
        #: nonces of connectors whose one task is about to make its slot
        self.starting: set[str] = set()
        #: the slot that a connector makes: its address, its name and its settings; None: none
        self.slot_of: Callable[[CatalogueEntry], tuple[str, str, dict[str, Any]] | None] = _slot_beside
        #: whether slots are known by their names, as in PostgreSQL: then no act on one comes late
        self.slots_by_name = False
        #: slot -> the connectors that were to make it, by nonces: the file may have named another since
        self.past_makers: dict[str, set[str]] = {}
        #: nonces of what was ours and is of others now; what of it is empty may be taken over again
        self.given_away: set[str] = set()
        #: what is whole and wanted, perhaps by another address: its server, kind and identity
        self.stays: set[tuple[str, Kind, str]] = set()
        self._numbers = count(1)

    def makers(self, entry: CatalogueEntry) -> set[str]:
        """Who may have made what an entry is of."""
        slots = {entry.maker, *self.past_makers.get(entry.nonce, ())} - {None}
        return {f"slot of {one}" for one in slots} | {entry.nonce} | self.given_away

    def server(self, address: str) -> WorldServer:
        """That at an address."""
        return self.servers.setdefault(address, WorldServer(f"server-{address}"))

    def name(self, address: str, other: str) -> None:
        """From now on a server has another address, too."""
        self.servers[other] = self.server(address)

    def identity(self) -> str:
        """A new one."""
        return f"id-{next(self._numbers)}"

    def put(self, address: str, kind: Kind, name: str, made: WorldObject) -> None:
        """As a server does, on behalf of anybody. A slot keeps the WAL from here on."""
        server = self.server(address)
        made.kept = server.wal
        server.wal += 1
        server.objects.setdefault((kind, name), made)

    def read_slots(self, chance: Random) -> None:
        """WAL is written, and connectors that are there read it: what was sent and kept goes forward, or waits."""
        for server in self.servers.values():
            server.wal += chance.randrange(20)
            for (kind, name), there in server.objects.items():
                if kind is Kind.SLOT:
                    runs = any((Kind.CONNECTOR, name) in one.objects for one in self.servers.values())
                    there.reader = f"session {self.identity()}" if runs and chance.random() < 0.2 else there.reader
                    there.reader = there.reader if runs else ""
                    if runs and chance.random() < 0.5:
                        there.kept = chance.randint(there.kept, server.wal)
                        there.sent += chance.randrange(5)

    def deliver(self, *, late: bool) -> None:
        """Carry out what is on its way; ``late``: only what can wait no longer."""
        due = [one for one in self.pending if not late or one[0] <= self.now]
        self.pending = [one for one in self.pending if one not in due]
        for _, act in due:
            act()

    def kinds(self) -> dict[Kind, WorldKind]:
        """How each kind is looked at, and so on."""
        return {kind: WorldKind(self, kind) for kind in Kind}


def _slot_beside(entry: CatalogueEntry) -> tuple[str, str, dict[str, Any]] | None:
    """That on the connector's own server."""
    slot = entry.settings.get("slot")
    return None if slot is None else (entry.address, slot, {"plugin": "pgoutput"})


class WorldKind:
    """One kind, in the world."""

    def __init__(self, world: World, kind: Kind) -> None:
        self._world, self._kind = world, kind

    def look(self, entry: CatalogueEntry) -> Look:
        """What anybody may see."""
        server = self._world.server(entry.address)
        if server.hindered is not None:
            return NoAnswer(server.hindered, f"{entry.address} is {server.hindered}")
        there = server.objects.get((self._kind, entry.name))
        if there is None:
            return Answer(server.identity, None)
        slot = SlotMark(
            server.wal, 1, there.kept, there.reader, there.sent, confirmed=there.confirmed
        ) if self._kind is Kind.SLOT else None
        return Answer(server.identity, ExternalObject(
            there.identity, there.mark, "", there.empty, dict(there.settings), there.holder, there.invalid, slot=slot
        ))

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """Never in place of what is there."""
        return self._requested(entry, lambda: self._make(entry))

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """What is ours."""

        def alter() -> None:
            there = self._ours(entry)
            if there is not None:
                there.settings = dict(entry.settings)

        return self._requested(entry, alter)

    def stop(self, entry: CatalogueEntry) -> NoAnswer | None:
        """What is ours; a connector's slot may come a moment later."""
        return self._requested(entry, lambda: self._ours(entry) and None)

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """What is ours; a connector's slot may come a moment later."""

        def destroy() -> None:
            there = self._ours(entry)
            if there is not None:
                server = self._world.server(entry.address)
                assert (server.identity, self._kind, there.identity) not in self._world.stays, f"{entry} is wanted"
                del self._world.server(entry.address).objects[self._kind, entry.name]

        return self._requested(entry, destroy)

    def _make(self, entry: CatalogueEntry) -> None:
        world = self._world
        mark = entry.nonce if self._kind in MARKED else None
        world.put(entry.address, self._kind, entry.name, WorldObject(
            entry.name if self._is_slot_by_name else world.identity(), entry.nonce, dict(entry.settings), mark
        ))
        found = world.slot_of(entry) if self._kind is Kind.CONNECTOR else None
        if found is not None:
            address, slot, settings = found

            def make_slot() -> None:
                world.starting.discard(entry.nonce)
                running = world.server(address).objects.get((Kind.SLOT, slot))
                if running is None:
                    made = WorldObject(slot, f"slot of {entry.nonce}", settings, empty=False)
                    world.put(address, Kind.SLOT, slot, made)

            if entry.nonce not in world.starting:
                world.starting.add(entry.nonce)
                world.pending.append((world.now + 10, make_slot))

    def _requested(self, entry: CatalogueEntry, act: Callable[[], None]) -> NoAnswer | None:
        world, server = self._world, self._world.server(entry.address)
        if server.hindered is not None:
            return NoAnswer(server.hindered, f"{entry.address} is {server.hindered}")
        if world.losing and not self._is_slot_by_name:
            world.losing = False
            world.pending.append((world.now + 50, act))
            return NoAnswer(Reason.UNREACHABLE, "no answer")
        act()
        return None

    @property
    def _is_slot_by_name(self) -> bool:
        return self._kind is Kind.SLOT and self._world.slots_by_name

    def _ours(self, entry: CatalogueEntry) -> WorldObject | None:
        """What is there if it has the identity of the entry; a failure if it is not ours."""
        there = self._world.server(entry.address).objects.get((self._kind, entry.name))
        if there is None or there.identity != entry.identity:
            return None
        assert there.maker in self._world.makers(entry), f"{entry} touches what {there} is"
        return there


class MemoryCatalogue:
    """A catalogue as durable as the test; its owners are fenced as those of the real one are."""

    def __init__(self) -> None:
        self.kept: dict[str, CatalogueEntry] = {}
        self.epoch = 0

    def taken(self) -> MemoryOwner:
        """By a new owner."""
        self.epoch += 1
        return MemoryOwner(self, self.epoch)


class MemoryOwner:
    """One owner's view of a catalogue."""

    def __init__(self, catalogue: MemoryCatalogue, epoch: int) -> None:
        self._catalogue, self.epoch = catalogue, epoch

    def entries(self) -> list[CatalogueEntry]:
        """All."""
        return list(self._catalogue.kept.values())

    def write(self, entries: list[CatalogueEntry]) -> None:
        """Through their plain form, as the real one."""
        self.demand()
        for entry in entries:
            self._catalogue.kept[entry.nonce] = CatalogueEntry.from_plain(entry.to_plain())

    def demand(self) -> None:
        """Raise FencedError unless ours."""
        if self.epoch != self._catalogue.epoch:
            raise FencedError("taken over")
