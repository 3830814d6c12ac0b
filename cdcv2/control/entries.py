"""The entries of the catalogue of external state: what should exist in another system, and what is known of it.

*External state* is what lives in a system that is not ours: a topic, a slot, a table. Its entry is written before
anything is done, so the entry is the intent. An entry goes through these states:

- ``wanted``: it should exist; perhaps it was tried, perhaps it is there and not yet recorded;
- ``made``: it is there, and its identity is recorded;
- ``in use``: a job that needs it was started, so it may hold what cannot be made a second time;
- ``unwanted``: no job needs it; what we made has to be removed;
- ``gone``: nothing of ours is left;
- ``lost``: it is missing or useless, and what it held cannot be made again. Only a person can decide what to do.

What hinders the next step is the entry's *debt*: it is shown, and the step is tried again without end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cdcv2.control.past_knowledge import Feeds, PastKnowledge, feeds_from_plain
from cdcv2.control.slot_marks import SlotMark
from cdcv2.core.own_json import checked

#: Seconds between two tries of what is owed, at most.
LONGEST_PAUSE = 60.0
#: The address of what is in the file system of this machine.
THIS_MACHINE = "this machine"


class Kind(StrEnum):
    """What external state can be."""

    TOPIC = "topic"
    REMAP = "remap"
    PUBLICATION = "publication"
    SLOT = "slot"
    CONNECTOR = "connector"
    TARGET_TABLE = "target table"
    STAGING = "staging"
    STATE_FOLDER = "state folder"


class EntryState(StrEnum):
    """Where an entry is on its way; see the module."""

    WANTED = "wanted"
    MADE = "made"
    IN_USE = "in use"
    UNWANTED = "unwanted"
    GONE = "gone"
    LOST = "lost"


class Reason(StrEnum):
    """Why something is still to be done."""

    UNREACHABLE = "unreachable"
    DENIED = "denied"
    BUSY = "busy"
    REFUSED = "refused"
    MOVED = "moved"
    MISSING = "missing"
    DRIFT = "drift"
    AWAITED = "awaited"
    STOPPED = "stopped"
    DOUBTFUL = "doubtful"
    LOST = "lost"


@dataclass(frozen=True)
class KindRules:
    """What differs between kinds, for those who decide.

    ``what``: it with its article. ``marked``: whether it can carry a mark, so that what has none is of others.
    ``takes_empty``: whether what has no mark is taken over if it is empty and fits. ``remade``: whether it holds
    nothing, so that it may be made again while it is in use. ``altered``: whether its settings can be changed in place.
    ``exact``: whether a setting that was not asked for is a difference. ``holds``: what is lost with it.
    """

    what: str
    marked: bool
    takes_empty: bool
    remade: bool
    altered: bool
    exact: bool
    holds: str


KINDS: Mapping[Kind, KindRules] = {
    Kind.TOPIC: KindRules("the topic", False, True, False, True, False, "the records in it"),
    Kind.REMAP: KindRules("the remap", False, True, False, False, False, "the times of all logs that are bound by it"),
    Kind.PUBLICATION: KindRules(
        "the publication", True, False, False, True, False,
        "the changes that the slot passes by while there is no publication",
    ),
    Kind.SLOT: KindRules("the replication slot", False, False, False, False, False, "the changes since its position"),
    Kind.CONNECTOR: KindRules("the connector", True, False, True, True, True, "nothing: Connect keeps its positions"),
    Kind.TARGET_TABLE: KindRules("the table", True, False, False, False, False, "the rows in it"),
    Kind.STAGING: KindRules("the staging schema", True, False, True, False, False, "nothing that is committed"),
    Kind.STATE_FOLDER: KindRules("the folder", True, True, False, False, False, "the state in it"),
}  # fmt: skip


@dataclass(frozen=True)
class Debt:
    """What hinders the next step: why, in a sentence with what to do, since when (epoch seconds), tried how often."""

    reason: Reason
    text: str
    since: float
    tries: int

    def wait(self, longest: float = LONGEST_PAUSE) -> float:
        """Seconds to wait before the next try: more after each, up to ``longest``.

        >>> [Debt(Reason.BUSY, "", 0.0, tries).wait() for tries in (1, 2, 7, 2000)]
        [1.0, 2.0, 60.0, 60.0]
        """
        return min(longest, 2.0 ** min(self.tries - 1, 30))


@dataclass(frozen=True)
class CatalogueEntry:
    """One piece of external state.

    Args:
        nonce: drawn for this entry alone. It is its name in the catalogue, and in marks.
        kind: what it is.
        name: what its server calls it.
        address: which server, without any secret: for people, and for finding the client.
        settings: as it should be; plain JSON, without secrets.
        owned: whether we make and remove it. What is not ours is checked, and never touched.
        users: the jobs that need it; of one that is unwanted, those that needed it last.
        needs: nonces of the entries that must be there before it, and may be removed only after it.
        maker: who makes it, if not we: the nonce of the connector that makes its own slot at its first start.
        state: see the module.
        since: since when it is in this state, epoch seconds.
        attempted: when making it was first allowed, epoch seconds; None: nothing of ours can be there.
        server: the identity of its server; None before the server answered for the first time.
        identity: its own identity, as the server has it; None where it is not recorded.
        applied: the settings that we gave it last; None: none.
        debt: what hinders the next step; None: nothing.
        slot: of a slot, what it was known by when it was seen last and was ours; None: it was not seen.
        before: of one that is unwanted, the state in which it was; None: not known, as an older release let it go.
        removal: whether its removal was begun: what was requested may come to pass at any time.
        feeds: of what a source has, the topics that its users read, with their tables; None: not known, as an older
            release wrote it.
        past: what was known of it when it last fed other topics, or these, if it was not compared since they are back.
    """

    nonce: str
    kind: Kind
    name: str
    address: str
    settings: Mapping[str, Any]
    owned: bool
    users: tuple[str, ...]
    needs: tuple[str, ...] = ()
    maker: str | None = None
    state: EntryState = EntryState.WANTED
    since: float = 0.0
    attempted: float | None = None
    server: str | None = None
    identity: str | None = None
    applied: Mapping[str, Any] | None = None
    debt: Debt | None = None
    slot: SlotMark | None = None
    before: EntryState | None = None
    removal: bool = False
    feeds: Feeds | None = None
    past: tuple[PastKnowledge, ...] = ()

    @property
    def rules(self) -> KindRules:
        """What is so for its kind."""
        return KINDS[self.kind]

    @property
    def shown(self) -> str:
        """What it is called in a sentence.

        >>> CatalogueEntry("7f", Kind.SLOT, "shop", "PostgreSQL db/shop", {}, True, ("shop",)).shown
        "the replication slot 'shop' (PostgreSQL db/shop)"
        """
        return f"{self.rules.what} {self.name!r} ({self.address})"

    @property
    def key(self) -> tuple[Kind, str, str]:
        """What no two entries that are live may share: kind, address and name."""
        return self.kind, self.address, self.name

    @property
    def is_there(self) -> bool:
        """Whether a job may rely on it: it is recorded as there."""
        return self.state in (EntryState.MADE, EntryState.IN_USE)

    @property
    def may_return(self) -> bool:
        """Whether it is unwanted, and as it was before: nothing of it was removed, or is about to be."""
        whole = self.before not in (None, EntryState.LOST)
        return self.state is EntryState.UNWANTED and whole and not self.removal

    @property
    def is_live(self) -> bool:
        """Whether some job still needs it."""
        return self.state in (EntryState.WANTED, EntryState.MADE, EntryState.IN_USE, EntryState.LOST)

    def to_plain(self) -> dict[str, Any]:
        """As JSON, in a durable format: the catalogue's."""
        debt = self.debt and {
            "reason": self.debt.reason, "text": self.debt.text, "since": self.debt.since, "tries": self.debt.tries,
        }
        return {
            "nonce": self.nonce, "kind": self.kind, "name": self.name, "address": self.address,
            "settings": dict(self.settings), "owned": self.owned, "users": list(self.users),
            "needs": list(self.needs), "maker": self.maker, "state": self.state, "since": self.since,
            "attempted": self.attempted, "server": self.server, "identity": self.identity,
            "applied": None if self.applied is None else dict(self.applied), "debt": debt,
            "slot": None if self.slot is None else self.slot.to_plain(), "before": self.before,
            "removal": self.removal, "feeds": None if self.feeds is None else dict(self.feeds),
            "past": [one.to_plain() for one in self.past],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> CatalogueEntry:
        """What :meth:`to_plain` gave. Raises TypeError, KeyError, ValueError for anything else."""
        # An older release wrote none about slots, and none of these four.
        debt, slot, none = plain["debt"], checked(plain.get("slot"), dict, type(None)), type(None)
        before, removal = plain.get("before"), checked(plain.get("removal", False), bool)
        feeds, past = plain.get("feeds"), checked(plain.get("past", []), list)
        return cls(
            nonce=checked(plain["nonce"], str), kind=Kind(plain["kind"]), name=checked(plain["name"], str),
            address=checked(plain["address"], str), settings=checked(plain["settings"], dict),
            owned=checked(plain["owned"], bool), users=tuple(checked(one, str) for one in plain["users"]),
            needs=tuple(checked(one, str) for one in plain["needs"]), maker=checked(plain["maker"], str, none),
            state=EntryState(plain["state"]), since=checked(plain["since"], float, int),
            attempted=checked(plain["attempted"], float, int, none), server=checked(plain["server"], str, none),
            identity=checked(plain["identity"], str, none), applied=checked(plain["applied"], dict, none),
            debt=None if debt is None else Debt(
                Reason(debt["reason"]), checked(debt["text"], str), checked(debt["since"], float, int),
                checked(debt["tries"], int),
            ),
            slot=None if slot is None else SlotMark.from_plain(slot),
            before=None if before is None else EntryState(before), removal=removal,
            feeds=None if feeds is None else feeds_from_plain(feeds),
            past=tuple(PastKnowledge.from_plain(one) for one in past),
        )  # fmt: skip


@dataclass(frozen=True)
class ExternalObject:
    """What a look found under the name of an entry.

    Args:
        identity: what the server knows it by, if anything but its name: a topic's id, a table's number, a folder's
            nonce.
        mark: the nonce in its mark; None: it has no mark.
        owner: whose it is, as its mark names it; for errors.
        empty: whether it holds nothing; None: not known.
        settings: as it is, in the form of the entry's.
        holder: who uses it so that it cannot be removed now; empty: no one that must be left alone.
        invalid: why its server will not let it be used any more; empty: it is sound.
        place: more of where it is, for errors, as ``3 partitions``.
        slot: of a slot, what it is known by.
        unfinished: whether an act of ours was begun on it that is to be done again, as its process died.
        being_made: whether it is being made just now, and has held nothing yet.
        unjudged: why it cannot be known whether it is the one that was seen; None: what is here shows that.
    """

    identity: str | None = None
    mark: str | None = None
    owner: str = ""
    empty: bool | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    holder: str = ""
    invalid: str = ""
    place: str = ""
    slot: SlotMark | None = None
    unfinished: bool = False
    being_made: bool = False
    unjudged: NoAnswer | None = None


@dataclass(frozen=True)
class Answer:
    """The server answered: its identity, and what is there under the entry's name; None: nothing.

    ``remains``: whether, of something unwanted that is missing, a part is left that removing it takes along.
    """

    server: str
    thing: ExternalObject | None
    remains: bool = False


@dataclass(frozen=True)
class NoAnswer:
    """A look or an act came to nothing: UNREACHABLE, DENIED or BUSY, and why, with what to do."""

    reason: Reason
    text: str


Look = Answer | NoAnswer


def missing_answer(look: Look) -> NoAnswer | None:
    """Why it is not known whether what is there is what was seen before; None: that is known."""
    if isinstance(look, NoAnswer):
        return look
    return None if look.thing is None else look.thing.unjudged
