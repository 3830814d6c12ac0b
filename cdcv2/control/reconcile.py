"""Making it so: each entry of the catalogue is looked at, decided about, written, acted on, and looked at again.

No entry waits for another's server, but for what it needs. What cannot be done now is owed, and is tried again later:
after a second, then two, four, and so on, up to a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar, runtime_checkable

from cdcv2 import failpoints
from cdcv2.control import external_texts as texts
from cdcv2.control.catalogue import Catalogue
from cdcv2.control.entries import (
    LONGEST_PAUSE, Answer, CatalogueEntry, EntryState, Kind, Look, NoAnswer, Reason, missing_answer,
)  # fmt: skip
from cdcv2.control.external_state import (
    Act,
    Condition,
    Step,
    after_its_connectors,
    altered,
    condition_of,
    decide,
    delayed,
    has_doubt,
    hindered,
    is_doubtful,
    may_be_accepted,
    may_be_of_others,
    recovered,
    spared,
    stopping,
    too_early,
    twofold,
)
from cdcv2.control.folder_paths import planned_by_path
from cdcv2.control.intents import DesiredState, after_removal, blocked_by, has_slot, slots_of, used
from cdcv2.control.other_addresses import after_looks, awaited_elsewhere, continued, same_at_another, withheld
from cdcv2.control.past_knowledge import PastKnowledge
from cdcv2.control.slot_marks import SlotMark, forked, is_elsewhere, sent_since, was_read, with_sent
from cdcv2.errors import Cdcv2Error, FencedError, OutputError, RefusedError, UnavailableError, UsageError

T = TypeVar("T")

INTENT_WRITTEN = failpoints.declare("external.intent-written", "an intent is written, and its act not begun")
ACT_DONE = failpoints.declare("external.act-done", "an act in another system is done, and not recorded")
#: How often an entry is acted on in one round: made, then altered, with a look after each.
_ACTS = 3
#: Seconds between two looks at what is as it should be, and at most at what may be made by others at any moment.
_SETTLED, _AWAITED = 10.0, 4.0
#: Seconds for which a server that did not answer counts as away.
_AWAY = 2.0


class ExternalKind(Protocol):
    """How one kind is looked at, made, changed and removed. Nothing here decides, and nothing is kept.

    An act returns what hindered it, or None. It may be done in part when it fails, or later than it answers: the next
    look shows what is there. Every act is harmless when it is done twice, and touches only what the entry means.
    """

    def look(self, entry: CatalogueEntry) -> Look:
        """What is there under the entry's name."""

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """Make it, with its mark in the same step; never in place of something that is there."""

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """Give it the settings of the entry."""

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """Remove it, if it still has the entry's identity."""


@runtime_checkable
class ExternalMaker(ExternalKind, Protocol):
    """A kind that makes things itself, as a connector its slot."""

    def stop(self, entry: CatalogueEntry) -> NoAnswer | None:
        """Have it make nothing more, if it still has the entry's identity, and leave it there."""


class Reconciliation:
    """One owner's work on a catalogue. ``clock``: epoch seconds. ``captured``: of a job, the position of its source
    through which it has captured, if that has moved since a moment, in epoch seconds; None: it has not. ``sent``: of a
    job, the highest position of its source that its topics have, of what was written since another was confirmed; None:
    they have none. It raises Cdcv2Error where they cannot be read.
    """

    def __init__(
        self, catalogue: Catalogue, kinds: Mapping[Kind, ExternalKind], clock: Callable[[], float],
        captured: Callable[[str, float], int | None] = lambda *_: None,
        sent: Callable[[str, int], int | None] = lambda *_: None,
    ) -> None:
        self.catalogue = catalogue
        self._kinds, self._clock, self._captured, self._sent = kinds, clock, captured, sent
        # When an entry that owes something is tried again.
        self._later: dict[str, float] = {}
        # Address and kind -> that its server did not answer, and until when that is taken for an answer to all looks.
        self._away: dict[tuple[str, Kind], tuple[NoAnswer, float]] = {}
        # Connectors that this owner has stopped.
        self._stopped = set[str]()

    def desire(self, desired: Iterable[DesiredState], nonce: Callable[[], str]) -> list[CatalogueEntry]:
        """Write what is desired into the catalogue, and commit the drop of all else; the entries that changed."""
        changed = planned_by_path(self.catalogue.entries(), desired, self._clock(), nonce)
        if changed:
            self.catalogue.write(changed)
        return changed

    def accept(self, names: Collection[str]) -> list[CatalogueEntry]:
        """Go on with what is lost under these names: a person compares then whether something is missing. It is taken
        as it is now; a connector of ours is given its settings again.

        A name may be that of an entry. All of them, or none; those that were accepted. Raises UsageError where nothing
        of a name is lost that can be accepted, or several of a kind are, and RefusedError where it is not there as the
        file has it.
        """
        lost = [one for one in self.catalogue.entries() if may_be_accepted(one)]
        accepted = []
        for name in names:
            found = [one for one in lost if name in (one.name, one.nonce)]
            if not found:
                others = ", ".join(sorted({one.name for one in lost})) or "nothing"
                raise UsageError(f"nothing called {name!r} is lost and can be accepted; what can: {others}")
            if len({one.kind for one in found}) < len(found):
                each = ", ".join(f"{one.nonce} is {one.shown}" for one in found)
                raise UsageError(f"several things called {name!r} are lost: name those that you mean by entry: {each}")
            for one in found:
                again = recovered(one, self._look(one), self._clock())
                if isinstance(again, str):
                    raise RefusedError(f"{one.shown} cannot be accepted: {again}")
                accepted.append(again)
        if accepted:
            self.catalogue.write(accepted)
        return accepted

    def find_known(self) -> None:
        """Look whether what is wanted is what an unwanted entry means, before jobs are started on the new entry."""
        before = self.catalogue.entries()
        changed = [one for one in after_looks(before, self._look, self._clock()) if one not in before]
        if changed:
            self.catalogue.write(changed)

    def now(self) -> float:
        """The time of its clock."""
        return self._clock()

    def round(self, *, removing: bool = True) -> list[CatalogueEntry]:
        """Bring each entry as far as it goes now; those that are not settled: what is still to be made or removed.

        ``removing``: whether to remove what is unwanted, too. Not while a job runs as it was before the file changed:
        it may use anything that was ever needed. Raises FencedError when another owner has taken over.
        """
        moved = True
        while moved:
            moved = False
            for entry in self.catalogue.entries():
                if removing or entry.state is not EntryState.UNWANTED:
                    moved |= self._advance(entry)
        return [entry for entry in self.catalogue.entries() if is_unsettled(entry)]

    def _advance(self, entry: CatalogueEntry) -> bool:
        """Whether others may go on by what became of the entry."""
        if self._is_before(self._later.get(entry.nonce, 0.0), LONGEST_PAUSE):
            return False
        entries = self.catalogue.entries()
        # What was done for another one may have changed it.
        entry = next(one for one in entries if one.nonce == entry.nonce)
        if entry.state in (EntryState.GONE, EntryState.LOST) or blocked_by(entry, entries, self._stopped):
            return False
        before = entry
        for _ in range(_ACTS):
            # Asked before the look, which finds the WAL that was captured before it.
            captured = self._captured_of(entry)
            entry, look = self._with_what_was_sent(entry, captured, self._look(entry))
            entry, look = self._with_past_knowledge(entry, look)
            if self._goes_on_elsewhere(entry, look):
                return True
            step = self._written(entry, look)
            entry = step.entry
            if before.state is EntryState.UNWANTED and entry.is_live:
                # It goes on at another address: it is looked at there.
                return True
            if step.act in (Act.NOTHING, Act.AWAIT):
                break
            failed = self._acted(step)
            if step.act is Act.STOP and failed is None:
                return self._has_stopped(entry)
            if failed is not None:
                entry = hindered(step, failed, self._clock())
                self.catalogue.write([entry])
                break
            if step.act is Act.ALTER:
                entry = altered(entry)
                self.catalogue.write([entry])
        self._later[entry.nonce] = self._clock() + _pause(entry)
        return entry.state is not before.state or (entry.attempted is None) is not (before.attempted is None)

    def _captured_of(self, entry: CatalogueEntry) -> int | None:
        """The position through which the jobs of a slot have captured; None: none of it is known."""
        if entry.kind is not Kind.SLOT or entry.slot is None or entry.state is not EntryState.IN_USE:
            return None
        found = (self._captured(user, entry.since) for user in entry.users)
        return max((one for one in found if one is not None), default=None)

    def _with_what_was_sent(
        self, entry: CatalogueEntry, captured: int | None, look: Look
    ) -> tuple[CatalogueEntry, Look]:
        """A slot, with what its jobs have captured: its reader confirms that a little later.

        Where a server is seen on another timeline, what was sent before counts, and what comes from there on does not:
        it is of that timeline. So the topics are asked at the first look there.
        """
        thing = look.thing if isinstance(look, Answer) and look.server == entry.server else None
        mark, now = entry.slot, None if thing is None else thing.slot
        if mark is None or now is None or thing is None or not isinstance(look, Answer) or not entry.is_there:
            return entry, look
        if is_elsewhere(mark, now):
            sent = self._sent_through(entry, mark)
            if isinstance(sent, NoAnswer):
                return entry, replace(look, thing=replace(thing, unjudged=sent))
            captured = max((one for one in (captured, sent) if one is not None), default=None)
        elif mark.timeline != now.timeline:
            captured = None
        mark = with_sent(mark, captured)
        if thing.unjudged is not None:
            mark = forked(mark, now)
        return replace(entry, slot=mark), look

    def _with_past_knowledge(self, entry: CatalogueEntry, look: Look) -> tuple[CatalogueEntry, Look]:
        """The same of a slot that was not seen since it last fed the topics that it feeds again."""
        thing = look.thing if isinstance(look, Answer) else None
        if thing is None or thing.slot is None or entry.slot is not None or not isinstance(look, Answer):
            return entry, look
        past = list[PastKnowledge]()
        for one in entry.past:
            if one.slot is not None and one.server == look.server and is_elsewhere(one.slot, thing.slot):
                sent = self._sent_through(entry, one.slot)
                if isinstance(sent, NoAnswer):
                    return entry, replace(look, thing=replace(thing, unjudged=sent))
                one = replace(one, slot=with_sent(one.slot, sent))
            past.append(one)
        return replace(entry, past=tuple(past)), look

    def _sent_through(
        self, entry: CatalogueEntry, mark: SlotMark, unread: Callable[[CatalogueEntry, str], str] = texts.topic_unread
    ) -> int | None | NoAnswer:
        """The highest position that the topics of its users have; or why they cannot be read."""
        since = sent_since(mark)
        sent = _answered(lambda: [self._sent(user, since) for user in entry.users])
        if isinstance(sent, NoAnswer):
            return replace(sent, text=unread(entry, sent.text))
        return max((one for one in sent if one is not None), default=None)

    def _is_before(self, moment: float, longest: float) -> bool:
        """Whether the clock is before a moment at most ``longest`` seconds ahead. More is so after it was set back."""
        return self._clock() < moment <= self._clock() + longest

    def _look(self, entry: CatalogueEntry) -> Look:
        """What is there. A server that is away is waited for once, and not for each of its entries."""
        answer, until = self._away.get((entry.address, entry.kind), (None, 0.0))
        if answer is not None and self._is_before(until, _AWAY):
            return answer
        look = _answered(lambda: self._kinds[entry.kind].look(entry))
        if isinstance(look, NoAnswer) and look.reason is Reason.UNREACHABLE:
            self._away[entry.address, entry.kind] = look, self._clock() + _AWAY
        return look

    def _goes_on_elsewhere(self, entry: CatalogueEntry, look: Look) -> bool:
        """Whether an unwanted entry went on at another address: what is wanted there is what it means."""
        changed = continued(entry, look, self.catalogue.entries(), self._look, self._clock())
        if not isinstance(changed, list) or not changed:
            return False
        self._write_moved(changed)
        return True

    def _write_moved(self, changed: list[CatalogueEntry]) -> None:
        self.catalogue.write(changed)
        for one in changed:
            self._later.pop(one.nonce, None)

    def _has_stopped(self, connector: CatalogueEntry) -> bool:
        """Its slots are removed next; whether it was not stopped before."""
        self._later[connector.nonce] = self._clock() + _pause(connector)
        if connector.nonce in self._stopped:
            return False
        # What it may have made until it was stopped, perhaps by the owner before, is in doubt since then.
        since = self._clock() if connector.debt is None else connector.debt.since
        self.catalogue.write(after_removal(connector, self.catalogue.entries(), since))
        self._stopped.add(connector.nonce)
        return True

    def _written(self, entry: CatalogueEntry, look: Look) -> Step:
        """The next step, whose entry is written."""
        now = self._clock()
        step = decide(entry, look, now, claimed=self._is_claimed(entry, look))
        if entry.kind is Kind.CONNECTOR and step.act in (Act.MAKE, Act.DESTROY):
            step = self._with_slots(entry, step, now)
        if entry.kind is Kind.PUBLICATION:
            step = after_its_connectors(step, self.catalogue.entries(), now)
        step = self._by_all_addresses(entry, step, look, now)
        changed = [step.entry] if step.entry != entry else []
        if entry.kind is Kind.CONNECTOR and step.act is Act.MAKE:
            # It reads by it from its first moment on, whenever the job is started.
            changed += [
                used(one, now) for one in self.catalogue.entries()
                if one.nonce in entry.needs and one.kind is Kind.PUBLICATION and one.state is EntryState.MADE
            ]
        if step.entry.state is EntryState.GONE and entry.state is not EntryState.GONE:
            changed += after_removal(step.entry, self.catalogue.entries(), now)
        if changed:
            self.catalogue.write(changed)
        return step

    def _by_all_addresses(self, entry: CatalogueEntry, step: Step, look: Look, now: float) -> Step:
        """The step, with regard to what is known of the same thing by other addresses of its server."""
        entries = self.catalogue.entries()
        if entry.state is EntryState.UNWANTED and step.act is not Act.NOTHING:
            instead = withheld(entry, entries, self._look, now)
            if isinstance(instead, NoAnswer):
                return replace(step, entry=spared(entry, instead, now), act=Act.NOTHING)
            if instead is not None:
                self._write_moved(instead)
                after = next((one for one in instead if one.nonce == entry.nonce), entry)
                return replace(step, entry=after, act=Act.NOTHING)
        if entry.state is EntryState.WANTED and step.act in (Act.MAKE, Act.AWAIT):
            if awaited_elsewhere(entry, look, entries, now):
                return delayed(entry, step.condition, now)
        other = same_at_another(entry, look, entries) if step.condition is Condition.FOREIGN else None
        return twofold(step, other, now) if other is not None and step.entry.debt is not None else step

    def _with_slots(self, entry: CatalogueEntry, step: Step, now: float) -> Step:
        """The step of a connector, with regard to its slots: it reads none of others, and is removed after ours."""
        slots = slots_of(entry, self.catalogue.entries())
        if step.act is Act.DESTROY:
            # One in doubt came when ours was removed: it is waited for by a person, and not by the connector.
            unwanted = [one for one in slots if one.state is EntryState.UNWANTED and not has_doubt(one)]
            return stopping(step, unwanted, now) if unwanted else step
        looks = [(one, self._look(one)) for one in slots]
        answers = (missing_answer(look) for _, look in looks)
        unknown = next((one for one in answers if one is not None), None)
        # It is missing, and was not requested once more.
        missing = replace(step.entry, attempted=entry.attempted)
        if unknown is not None:
            return decide(missing, unknown, now)
        theirs = list[CatalogueEntry]()
        for one, look in looks:
            if not isinstance(look, Answer) or not may_be_of_others(one, look.thing):
                continue
            read = self._was_read(one, look)
            if isinstance(read, NoAnswer):
                return decide(missing, read, now)
            theirs += [] if read else [one]
        return too_early(missing, theirs, now) if theirs else step

    def _was_read(self, slot: CatalogueEntry, look: Answer) -> bool | NoAnswer:
        """Whether what a look found in place of a slot of ours was read by its connector, which is missing, as topics
        show; or why that cannot be known."""
        mark, there = slot.slot, None if look.thing is None else look.thing.slot
        if slot.identity is None or mark is None or there is None or mark.timeline != there.timeline:
            return False
        sent = self._sent_through(slot, mark, texts.reader_unknown)
        return sent if isinstance(sent, NoAnswer) else was_read(there, sent, mark.parted)

    def _is_claimed(self, entry: CatalogueEntry, look: Look) -> bool:
        """Whether what a look found in place of a slot is the slot of a connector of ours, which is there now."""
        if entry.kind is not Kind.SLOT or not isinstance(look, Answer) or not is_doubtful(entry, look.thing):
            return False
        connectors = (one for one in self.catalogue.entries() if has_slot(one, entry))
        ours = (Condition.OURS, Condition.DRIFTED, Condition.UNMARKED)
        return any(condition_of(one, self._look(one)) in ours for one in connectors)

    def _acted(self, step: Step) -> NoAnswer | None:
        # Another owner may have taken over since the intent was written.
        self.catalogue.demand()
        failpoints.reach(INTENT_WRITTEN)
        kind = self._kinds[step.entry.kind]
        act = {Act.MAKE: kind.make, Act.ALTER: kind.alter, Act.DESTROY: kind.destroy}.get(step.act)
        if act is None:
            if not isinstance(kind, ExternalMaker):
                raise UsageError(f"{step.entry.shown} makes nothing, and cannot be stopped: remove it")
            act = kind.stop
        failed = _answered(lambda: act(step.entry))
        failpoints.reach(ACT_DONE)
        return failed


def _answered(ask: Callable[[], T]) -> T | NoAnswer:
    """What was asked for; an error of ours about one entry is no answer for it, and stops no other entry.

    Raises FencedError and OutputError: after these, nothing may go on.
    """
    try:
        return ask()
    except (FencedError, OutputError):
        raise
    except UnavailableError as error:
        return NoAnswer(Reason.DENIED if error.forbidden else Reason.UNREACHABLE, str(error))
    except RefusedError as error:
        return NoAnswer(Reason.BUSY, str(error))
    except Cdcv2Error as error:
        return NoAnswer(Reason.DENIED, str(error))


def _pause(entry: CatalogueEntry) -> float:
    """Seconds until it is looked at again."""
    if entry.debt is not None:
        # After a failover, a slot is looked at before its reader has sent what was committed since.
        soon = entry.debt.reason in (Reason.AWAITED, Reason.STOPPED) or (
            entry.kind is Kind.SLOT and entry.debt.reason is Reason.UNREACHABLE
        )
        return entry.debt.wait(_AWAITED if soon else LONGEST_PAUSE)
    return _SETTLED if entry.is_there else 1.0


def is_unsettled(entry: CatalogueEntry) -> bool:
    """Whether something is still to be made or removed, or something about it is to be shown."""
    return entry.state in (EntryState.WANTED, EntryState.UNWANTED, EntryState.LOST) or entry.debt is not None
