"""A remap that many bind into: each appends what it proposes to one log, and all read the same outcome from it.

The log only gives every record a place; it decides nothing, and needs no transactions. Readers do, by one rule, which
depends on the records before it alone:

- the first *genesis* starts the remap; others are void;
- a *proposal* is accepted if its epoch is the current one, its binding begins where the remap ends, decides at least
  one time and does not go back (:meth:`Remap.follow`); others are void. One that names a recipe begins the next epoch;
- a *hold* states from when on something that outlives its writers, such as a set of logs, needs the remap. It only
  moves forward, until it is released. It binds compactions, and decides nothing else;
- a *summary* changes nothing. It has the outcome of the records before its ``position``; with it in the log, those may
  be trimmed. A reader that lacks trimmed records goes on at a summary, or refuses.

So a writer knows the outcome of its proposal only by reading past the place of its own record. A record in a place that
some summary covers is ignored: in a directory, trimmed numbers are free again, and a process that slept may have put
it there long after all others had read the earlier record of that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError, MissingLogError, SourceStop, UnsafeTopicError
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.timeline.binding import Binding
from cdcv2.timeline.records import Genesis, HoldRecord, Proposal, RecipeEpoch, Record, Summary, decode
from cdcv2.timeline.remap import Remap


class LogView(NamedTuple):
    """The records of the log from some place on, at some moment.

    ``records`` are places and bytes, in order, every one that was there; ``end`` is the place behind the last, also
    if there are none. The maker of a view promises: if a record is in a place that was trimmed, the summary that
    allowed it is in the same view.
    """

    records: Sequence[tuple[int, bytes]]
    end: int


class AcceptedBinding(NamedTuple):
    """A binding that holds: after ``before``, under ``recipe``, by the record (or the summary) at ``position``."""

    position: int
    binding: Binding
    before: Antichain
    recipe: RecipeEpoch

    def messages(self) -> tuple[Updates, Progress]:
        """The binding in the terms of CDCv2: the from-times that come and go, and a statement that these are all.

        If the reader began at a summary, or fell behind one, its first binding has no ``before``. It then stands for
        everything at its time, and begins a collection. It is no part of a collection that was read from an earlier
        time.

        >>> won = AcceptedBinding(4, Binding(3, 1001, Antichain([7])), Antichain([5]), RecipeEpoch(0, 0, "v1"))
        >>> updates, statement = won.messages()
        >>> updates.updates, statement.counts, statement.upper
        (((5, 1000, -1), (7, 1000, 1)), ((1000, 2),), Antichain([1001]))
        """
        binding = self.binding
        changes = binding.changes(self.before)
        upper = [] if binding.upper is None else [binding.upper]
        counts = {binding.into: len(changes)} if changes else {}
        return Updates(changes), Progress([binding.lower], upper, counts)


class SharedRemap:
    """One reader of a shared remap, who may propose.

    >>> from cdcv2.timeline.records import encode
    >>> log = []
    >>> capture = SharedRemap(Antichain([0]), recipe="v1", name="a")
    >>> for line in (0, 7):  # the first proposal is the genesis
    ...     log.append((len(log), encode(capture.propose(Antichain([line]), now=1000))))
    ...     _ = capture.absorb(LogView(log[capture.next:], len(log)))
    >>> capture.remap.into_of(6)
    1000

    Args:
        start: where the gauge of the sources begins; the log must agree. None: as in the log.
        recipe: under which recipe it proposes. None: it only reads.
        name: for people who read the log.

    A caller that carries the bindings on holds ``remap`` where its output is known to be. Then a compaction that was
    too early is an error, and not a gap. Cost of a record: one comparison of frontiers.
    """

    def __init__(self, start: Antichain | None = None, *, recipe: str | None = None, name: str = "") -> None:
        self._start, self._wanted, self._name = start, recipe, name
        self._remap: Remap | None = None
        # Ascending; the last one is current. The first is that of the remap's since, or an earlier one.
        self._recipes: list[RecipeEpoch] = []
        self._holds: dict[str, int] = {}
        # What people call them.
        self._called: dict[str, str] = {}
        #: The place of the next record: everything before it is absorbed.
        self.next = 0

    @property
    def has_started(self) -> bool:
        """Whether the remap's genesis, or a summary, has been read."""
        return self._remap is not None

    @property
    def remap(self) -> Remap:
        """The accepted bindings so far. Raises MissingLogError before the remap has started."""
        if self._remap is None:
            raise MissingLogError("the shared remap is empty: no capture has begun it; is its place right?")
        return self._remap

    def recipe_at(self, time: int) -> RecipeEpoch:
        """The recipe that a time is bound under, the current one for times that are not decided."""
        return [self._recipes[0], *(recipe for recipe in self._recipes if recipe.since <= time)][-1]

    @property
    def recipe(self) -> RecipeEpoch:
        """The current recipe. Raises MissingLogError before the remap has started."""
        return self.recipe_at(self.remap.last + 1)

    @property
    def recipes(self) -> tuple[RecipeEpoch, ...]:
        """Those that are known, as they followed each other; the first is in force at the remap's since."""
        return tuple(self._recipes)

    @property
    def holds(self) -> dict[str, int]:
        """What is read from the remap, by its identity, and from which time on; a copy. See :meth:`called`."""
        return dict(self._holds)

    def called(self, of: str) -> str:
        """What people call what holds the remap; an earlier hold was of that name itself."""
        return self._called.get(of, of)

    # -- reading ------------------------------------------------------------------------------------------------

    def absorb(self, view: LogView) -> list[AcceptedBinding]:
        """Take the records of the log from ``next`` on; returns the bindings that they accept, each once, in order.

        Raises UnsafeTopicError if records are missing that no summary stands for, ForeignStateError for a remap of
        other sources, DamagedRecordError for bytes that are no record, RefusedError for records of a later version, and
        if the remap is held at times that a summary has forgotten. Cost: what is new in the view.
        """
        if view.end < self.next:
            raise UnsafeTopicError(
                f"the log of the remap ends at {view.end} and was read up to {self.next} before: it was made again, or "
                "has lost its end. Restore it, or begin a new timeline"
            )
        fresh = [(place, decode(raw, place)) for place, raw in view.records if place >= self.next]
        won: list[AcceptedBinding] = []
        summaries = [(record.position, place, record) for place, record in fresh if isinstance(record, Summary)]
        covering = max(summaries, key=lambda found: found[:2], default=None)
        if covering is not None and covering[0] > self.next:
            won = self._resume_at(covering[2], covering[1])
        for place, record in fresh:
            if place < self.next:
                continue
            if place > self.next:
                raise UnsafeTopicError(
                    f"the log of the remap has no record {self.next}, though later ones are there, and no summary "
                    "stands for it: it was removed, and with it what was decided. Restore the log, or start over"
                )
            won += self._judged(place, record)
            self.next += 1
        return won

    def _judged(self, place: int, record: Record) -> list[AcceptedBinding]:
        if self._remap is None:
            if not isinstance(record, Genesis):
                raise UnsafeTopicError(
                    f"the log of the remap begins at {place} with no genesis: what came before was removed. Restore "
                    "it, or begin a new timeline"
                )
            self._begin(Remap(record.start), [RecipeEpoch(0, 0, record.recipe)])
            return [AcceptedBinding(place, Binding(0, 1, record.start), Antichain(), self._recipes[0])]
        before = self._remap.current
        if isinstance(record, HoldRecord):
            if record.since is None:
                self._holds.pop(record.of, None)
                self._called.pop(record.of, None)
            else:
                if record.called:
                    self._called[record.of] = record.called
                self._holds[record.of] = max(record.since, self._holds.get(record.of, 0))
        if not isinstance(record, Proposal) or record.epoch != self._recipes[-1].epoch:
            return []
        if not self._remap.follow(record.binding):
            return []
        if record.recipe is not None:
            self._recipes.append(RecipeEpoch(record.epoch + 1, record.binding.lower, record.recipe))
        return [AcceptedBinding(place, record.binding, before, self._recipes[-1])]

    def _resume_at(self, summary: Summary, place: int) -> list[AcceptedBinding]:
        """Know what the summary knows; what that adds to what was known here."""
        other = Remap.restore(summary.remap)
        recipes = list(summary.recipes)
        if self._remap is None:
            # Known from since on; how that came to be is forgotten.
            known = {"upper": other.since + 1, "bindings": summary.remap["bindings"][:1]}
            self._begin(Remap.restore({**summary.remap, **known}), recipes)
            first = Binding(other.since, other.since + 1, other.at(other.since))
            won = [AcceptedBinding(place, first, Antichain(), self.recipe_at(other.since))]
        else:
            won = []
            self._recipes = [recipe for recipe in self._recipes if recipe.epoch < recipes[0].epoch] + recipes
        self._holds, self._called = dict(summary.holds), dict(summary.called)
        remap = self.remap
        before, last = remap.current, remap.last
        bindings = remap.catch_up(other)
        if remap.since > last:
            # What lies between is forgotten, so a new collection begins here.
            before = remap.at(remap.since)
            first = Binding(remap.since, remap.since + 1, before)
            won.append(AcceptedBinding(place, first, Antichain(), self.recipe_at(remap.since)))
        for binding in bindings:
            won.append(AcceptedBinding(place, binding, before, self.recipe_at(binding.lower)))
            before = binding.frontier
        self.next = summary.position
        return won

    def _begin(self, remap: Remap, recipes: list[RecipeEpoch]) -> None:
        if self._start is not None and self._start != remap.start:
            raise ForeignStateError(
                f"the shared remap is of sources that begin at {remap.start}, and ours begin at {self._start}: it "
                "belongs to another gauge. Name the right remap, or begin a new one"
            )
        self._remap, self._recipes = remap, recipes

    # -- proposing ----------------------------------------------------------------------------------------------

    def use_recipe(self, recipe: str) -> None:
        """Propose under this recipe from now on: it means the same as the one that is bound, or is the next one."""
        self._wanted = recipe

    def propose(self, observed: Antichain, now: int) -> Record | None:
        """What to append so that what was observed is bound, or the remap begins; None when all of it is bound.

        Raises SourceStop when times are bound under another recipe by now, RefusedError when the remap is closed.
        """
        if self._remap is None:
            return self._genesis()
        return self._proposal(self._remap.propose(observed, now))

    def propose_idle(self, now: int) -> Record | None:
        """What to append so that the times up to ``now`` are decided without anything new; None when they are."""
        return self._genesis() if self._remap is None else self._proposal(self._remap.idle(now))

    def propose_recipe(self, now: int) -> Record | None:
        """What to append so that times are bound under our recipe from now on; None when they are.

        The others, under the recipe that was, stop when they read it: see :meth:`propose`.
        """
        if self._remap is None:
            return self._genesis()
        if self._recipes[-1].text == self._wanted:
            return None
        lower = self._remap.last + 1
        if not self._remap.upper:
            # All times are bound, so there is none that could be bound otherwise.
            self.check_recipe(lower)
        binding = Binding(lower, max(now, lower) + 1, self._remap.current)
        return Proposal(self._recipes[-1].epoch, binding, self._wanted, self._name)

    def propose_hold(self, of: str, since: int | None, called: str = "") -> HoldRecord | None:
        """What to append so that ``of`` is known to be read from ``since`` on, or (None) no more; None when it is.

        ``of`` is an identity: two log sets of one name, on two clusters or machines, hold the remap each for itself.
        ``called`` is the name.

        A set of logs is to be held at the time before the frontier that all of them have come to: going on asks where
        the sources were then.
        """
        held = self._holds.get(of)
        known = held is None if since is None else held is not None and held >= since
        return None if known else HoldRecord(of, since, self._name, "" if since is None or called == of else called)

    def summarize(self, since: int) -> Summary:
        """The record to append so that everything before ``next`` may be trimmed; times before ``since`` are forgotten.

        Times that are held, or not decided, are never forgotten. Cost: the bindings from there on.
        """
        remap = Remap.restore(self.remap.export())
        remap.compact(max(remap.since, min(since, remap.last, *self._holds.values())))
        current = self.recipe_at(remap.since)
        recipes = tuple(recipe for recipe in self._recipes if recipe.epoch >= current.epoch)
        return Summary(self.next, recipes, remap.export(), self._name, self.holds, dict(self._called))

    def _genesis(self) -> Genesis:
        if self._start is None or self._wanted is None:
            raise MissingLogError("the shared remap is empty, and only a capture, with start and recipe, can begin it")
        return Genesis(self._start, self._wanted, self._name)

    def _proposal(self, binding: Binding | None) -> Proposal | None:
        if binding is None:
            return None
        self.check_recipe(binding.lower)
        return Proposal(self._recipes[-1].epoch, binding, None, self._name)

    def check_recipe(self, time: int) -> None:
        """Raise SourceStop, with the remedy, unless the time is bound under our recipe, or will be."""
        bound = self.recipe_at(time)
        if bound.text != self._wanted:
            raise SourceStop(
                f"from the time {bound.since} on this timeline is bound under another recipe ({bound.text!r}) than "
                f"ours ({self._wanted!r})",
                "Run the capture with that recipe, or propose this one again",
                Antichain([bound.since]),
            )

    def check(self, other: Any) -> None:
        """Audit that two readers who have read as far know the same; for tests. Raises AssertionError."""
        assert self.next != other.next or self.recipe == other.recipe, f"{self.recipe}, {other.recipe}"
        for time in range(max(self.remap.since, other.remap.since), min(self.remap.last, other.remap.last) + 1):
            assert self.remap.at(time) == other.remap.at(time), f"at {time}"
