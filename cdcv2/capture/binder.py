"""The side of a capture that binds: it observes how far topics are, and agrees with others on the times of that.

Any number of captures bind into one remap. What each proposes is what it saw, joined with what is bound; which of them
wins does not matter, as what is read follows from the bindings alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from cdcv2 import failpoints
from cdcv2.capture.topics import TopicExtents
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, MissingLogError, RefusedError, SourceStop
from cdcv2.protocol.log import Place, plain_places
from cdcv2.timeline.minting import RemapLog, agree, run
from cdcv2.timeline.partitioned import NOT_STARTED
from cdcv2.timeline.positions import frontier, limited, of_topics, places
from cdcv2.timeline.recipe import BoundRecipe
from cdcv2.timeline.records import RecipeEpoch, Record
from cdcv2.timeline.remap import Hold, Remap
from cdcv2.timeline.shared_remap import AcceptedBinding, SharedRemap

#: After so many records of the remap, the hold of a capture is written again.
HOLD_EVERY = 1000

BOUND = failpoints.declare("shared-capture.bound", "what was observed is bound; nothing of it is read")
#: What to do with a recipe that cannot be proposed.
OTHER_LOGS = "begin this one with a remap and logs of its own"


class Binder:
    """One capture's part in a shared remap.

    Args:
        log: the remap's.
        recipe: what is captured; its timeline is the name for a new remap.
        topics: those that are read.
        now: the time of the timeline, in milliseconds.
        name: for people who read the remap.
        at_most: about how many records one binding covers: a capture holds them in memory.
        every: the least time in milliseconds between two bindings, while the topics are not further behind than that.
        idle: after so many milliseconds without a binding, the times up to now are decided without anything new; None:
            never.
        of: the users' name for the logs that are written: a compaction of the remap keeps what they need. None: the
            remap need not know of them. The hold is of their identity, once :meth:`of_log_set` has set it.
        command_line: what started the capture, for a remedy that is to start it once with another option.

    Cost: a look at the remap each time, an append where something is new.
    """

    def __init__(
        self,
        log: RemapLog,
        recipe: BoundRecipe,
        *,
        topics: frozenset[str],
        now: Callable[[], int],
        name: str = "",
        at_most: int = 100_000,
        every: int = 0,
        idle: int | None = None,
        of: str | None = None,
        command_line: str | None = None,
    ) -> None:
        self._command_line = command_line
        self._log, self.recipe, self._topics, self._now = log, recipe, topics, now
        self.at_most, self._every, self._idle, self._of = at_most, every, idle, of
        self._begun: Hold | None = None
        self._log_set: str | None = None
        # How long the log of the remap was when the hold was last written.
        self._held = 0
        self._shared = SharedRemap(NOT_STARTED, name=name)
        #: Accepted bindings, in order, for the capture to take out and carry.
        self.won: deque[AcceptedBinding] = deque()
        # When, by our clock, the remap was last seen to move.
        self._moved = now()
        # Recipe texts -> in which points ours is another one.
        self._judged: dict[str, list[str]] = {}

    @property
    def remap(self) -> Remap:
        """What is bound, as far as it was read. Raises MissingLogError if the remap has not started."""
        return self._shared.remap

    @property
    def bound(self) -> BoundRecipe:
        """The current recipe of the remap. Raises ForeignStateError for one that no capture bound."""
        return BoundRecipe.parse(self._shared.recipe.text)

    @property
    def recipes(self) -> tuple[RecipeEpoch, ...]:
        """Those that are known, as they followed each other."""
        return self._shared.recipes

    def under(self, recipe: BoundRecipe) -> Binder:
        """A part in the same remap, not started, under a recipe that is none of the current ones: it binds nothing.

        Nor does it hold the remap for others.
        """
        return Binder(self._log, recipe, topics=frozenset(), now=self._now, at_most=self.at_most)

    def begin(
        self,
        look: TopicExtents,
        *,
        needed: Collection[str] = (),
        propose: bool = False,
        at_first: bool = False,
        check: Callable[[], object] = lambda: None,
    ) -> None:
        """Read the remap, and start it if it is new; with ``propose`` our recipe is the next one, if it is another.

        With ``at_first``, plain topics of which nothing is bound begin where they begin now. ``check`` is called
        before our recipe is proposed in place of another, and raises if ours could not be carried on.

        Raises MissingLogError if ``needed`` topics are missing and were never bound, SourceStop if no time is bound
        under our recipe and none will be, RefusedError for a proposal that no logs could follow, and what the remap's
        log raises.
        """
        self.follow()
        known = {topic for topic, _ in places(self.remap.current)} if self._shared.has_started else set[str]()
        missing = sorted(set(needed) - look.topics - known)
        if missing:
            text = f"there is no topic {missing[0]!r}: its name is wrong, or it has not been written yet"
            raise MissingLogError(text)
        self.recipe = replace(self.recipe, topics=look.ids, begins=self._begins(look) if at_first else {})
        self._shared.use_recipe(self.recipe.text())
        self.recipe = replace(self.recipe, timeline=None)
        self._run(lambda: self._shared.propose(NOT_STARTED, 0))
        if propose and not self.is_ours:
            check()
            # Repeated until it is accepted once: a later proposal of another capture then replaces it.
            self._run(lambda: None if self.is_ours else self._another_recipe())
        if at_first:
            # Also of topics that the recipe had before, as long as nothing of them is bound.
            self._run(lambda: self._next_recipe() if self.is_ours else None)
        if all(self.differences(recipe.text) for recipe in self._shared.recipes):
            raise self.stopped(self._shared.recipe.since, None)
        self.recipe = replace(self.recipe, begins=self.bound.begins, timeline=self.bound.timeline)
        # Until it is known what the logs need, which are read now: others may go on with them, and compact, meanwhile.
        self._begun = self.remap.hold()

    def _begins(self, look: TopicExtents) -> dict[str, dict[str, int]]:
        """The first offsets of plain topics that have lost their first records."""
        plain = {of["topic"] for of in self.recipe.tables.values() if "topic" in of}
        return plain_places({place: low for place, (low, _) in look.spans.items() if low and place[0] in plain})

    def follow(self) -> None:
        """Read what is new in the remap."""
        self._run(lambda: None)

    def of_log_set(self, identity: str | None) -> None:
        """The logs are known by this identity, which is none of another log set of the same name; None: by the name."""
        self._log_set = identity

    def hold(self, since: int | None, *, seldom: bool = False) -> None:
        """Write a hold: our logs need the remap from ``since`` on. What is before that is forgotten here, too.

        None: they are finished, and need nothing any more. ``seldom``: only if the remap has grown by
        :data:`HOLD_EVERY` records since the last hold.
        """
        if seldom and self._shared.next < self._held + HOLD_EVERY:
            return
        if self._begun is not None:
            self._begun.release()
        needed = self.remap.last if since is None else since
        self.remap.compact(max(self.remap.since, min(needed, self.remap.last)))
        of = self._of
        if of is not None:
            self._run(lambda: self._shared.propose_hold(self._log_set or of, since, of))
        self._held = self._shared.next

    def bind(self, look: TopicExtents) -> bool:
        """Have what was observed bound, or the next part of it; whether the remap moved, by whomever.

        The topics must be those that are bound. Under another recipe than ours, and when all times are decided, nothing
        is bound.
        """
        before = self.remap.upper
        self.follow()
        self.recipe = replace(self.recipe, topics={**self.recipe.topics, **look.ids})
        if self.remap.upper:
            current = self._current()
            target = limited(current, of_topics(look.ends, self._topics), self.at_most)
            # A clock that was set back must not make it wait until it is where it was.
            self._moved = min(self._moved, self._now())
            waited = self._now() - self._moved
            if target:
                backlog = sum(offset - current.get(place, 0) for place, offset in target.items()) >= self.at_most
                if backlog or waited >= self._every:
                    observed = frontier(target)
                    self._run(lambda: self._ours(lambda: self._shared.propose(observed, self._now())))
                    failpoints.reach(BOUND)
            elif self._idle is not None and waited >= self._idle:
                # Up to a time that stays, or the clock would always be ahead of what is decided.
                now = self._now()
                self._run(lambda: self._ours(lambda: self._shared.propose_idle(now)))
        return self.remap.upper != before

    def behind(self, ends: Mapping[Place, int]) -> int:
        """How many records are there that are not bound."""
        return sum(end - bound for bound, end in self.unbound(ends).values())

    def unbound(self, ends: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
        """For each partition with records that are not bound: the first of them, and where the partition ends."""
        current = self._current()
        found = {place: (current.get(place, 0), end) for place, end in ends.items() if place[0] in self._topics}
        return {place: (bound, end) for place, (bound, end) in found.items() if bound < end}

    def caught_up(self, ends: Mapping[Place, int]) -> bool:
        """Whether all that was observed is bound."""
        return not self.unbound(ends)

    def _current(self) -> dict[Place, int]:
        """Where the topics are bound to, or begin."""
        current = places(self.remap.current)
        return current | {place: max(at, current.get(place, 0)) for place, at in self.recipe.firsts.items()}

    def differences(self, text: str) -> list[str]:
        """In which points our recipe is another one than this text; none: times bound under it are ours to write."""
        if text not in self._judged:
            self._judged[text] = self.recipe.differences(BoundRecipe.parse(text))
        return self._judged[text]

    def starts(self, table: str, known: int) -> int:
        """From which time on one of our tables, stated up to ``known``, must be written.

        Times whose recipe does not capture the table have nothing of it, and need not be read. If an earlier recipe
        captures it in another way, a capture with that recipe must write those times.
        """
        recipes = self._shared.recipes
        if not self.remap.upper:
            return known
        for recipe, following in zip(recipes, [*(later.since for later in recipes[1:]), self.remap.last + 1]):
            if recipe.since <= known < following and not BoundRecipe.parse(recipe.text).has(table):
                known = following
        return known

    def stopped(self, at: int, frontier: Antichain | None) -> SourceStop | IncompleteError:
        """The error for a time that is bound under another recipe than ours; ``frontier``: how far the logs are."""
        text = self._shared.recipe_at(at).text
        points = "; ".join(self.differences(text)[:3])
        later = [recipe for recipe in self._shared.recipes if recipe.since > at and not self.differences(recipe.text)]
        if later:
            return IncompleteError(
                f"the logs have come to {at}, and times up to {later[0].since} are bound under another recipe "
                f"({points}): a capture with that one writes them, and stops there; then this one continues"
            )
        once = "the same command, once, with that option"
        if self._command_line is not None:
            once = f"start, once: {self._command_line} --propose-recipe"
        other = OTHER_LOGS if self._unlike() else f"propose this one with --propose-recipe: {once}"
        remedy = f"Run the capture with that recipe, or {other}"
        judged = self.recipe.assumed_otherwise(BoundRecipe.parse(text))
        if judged and other is not OTHER_LOGS:
            remedy += (
                f". If a capture with that recipe stops because of the snapshot of {', '.join(judged)}, neither "
                f"helps, as what was judged of it is bound: {OTHER_LOGS}"
            )
        return SourceStop(
            f"from the time {at} on this timeline is bound under another recipe than ours: {points}", remedy, frontier,
        )

    @property
    def is_ours(self) -> bool:
        """Whether times are bound under our recipe from now on."""
        return not self.differences(self._shared.recipe.text)

    def _ours(self, propose: Callable[[], Record | None]) -> Record | None:
        """A proposal under our recipe; first what we know of that beside what is bound. None under another's."""
        return self._next_recipe() or propose() if self.is_ours else None

    def _unlike(self) -> list[str]:
        """Why logs that were written under the recipes so far cannot be continued under ours."""
        bound = map(BoundRecipe.parse, dict.fromkeys(recipe.text for recipe in self._shared.recipes))
        return [point for one in bound for point in self.recipe.unlike(one)]

    def _another_recipe(self) -> Record | None:
        """The proposal of ours in place of another; before it is made, as what is bound stays so."""
        unlike = self._unlike()
        if unlike:
            raise RefusedError(
                f"this recipe cannot follow what is bound, as no logs could be continued: {unlike[0]}. Run the "
                f"capture as it is bound, or {OTHER_LOGS}"
            )
        return self._next_recipe()

    def _next_recipe(self) -> Record | None:
        started = {topic for topic, _ in places(self.remap.current)}
        self._shared.use_recipe(self.recipe.joined(self.bound, started).text())
        return self._shared.propose_recipe(self._now())

    def _run(self, want: Callable[[], Record | None]) -> None:
        won = run(self._log, agree(self._shared, want))
        self.won.extend(won)
        if won:
            self._moved = self._now()
