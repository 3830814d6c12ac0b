"""However minters race, crash, sleep and compact, all read one remap from the log, and nothing bound is lost."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

from cdcv2.core.antichain import Antichain
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.timeline.partitioned import offsets
from cdcv2.timeline.shared_remap import SharedRemap
from tests.minters import Decision, Objects, Race, Topic, decided, held
from tests.strategies import seeded

# Of each kind of log; 600 ordinarily.
SCHEDULES = 3 * settings.default.max_examples
CHUNKS = 4


def told(decisions: list[Decision]) -> list[Message]:
    """What was decided as a log of its own: at each time the elements that come and go, and how many."""
    messages: list[Message] = []
    before: set[Any] = set()
    for decision in decisions:
        now = set(offsets(decision.place))
        into = decision.upper - 1
        changes = [(time, into, -1) for time in before - now] + [(time, into, 1) for time in now - before]
        messages += [
            Updates(changes), Progress([decision.lower], [decision.upper], {into: len(changes)} if changes else {})
        ]
        before = now
    return messages


def summed(messages: Iterable[Message]) -> tuple[dict[Any, int], Antichain]:
    """What a log comes to that states each fact once."""
    updates = [update for message in messages if isinstance(message, Updates) for update in message.updates]
    upper = [message.upper for message in messages if isinstance(message, Progress)][-1]
    return {(data, time): diff for data, time, diff in updates}, upper


def history(messages: Iterable[Message]) -> tuple[dict[Any, int], Antichain]:
    """What `Iter` gives out, and how far it comes; it raises for any two facts that are not both true."""
    reader = Iter(messages)
    found = {(data, time): diff for updates, _ in reader for data, time, diff in updates}
    return found, reader.frontier


def holding(history: list[bytes]) -> int:
    """How many summaries forget all that a hold allowed, and not more; none of them forgets more."""
    found = since = 0
    for said in map(json.loads, history):
        if said["kind"] == "summary":
            before, forgotten = since, said["remap"]["bindings"][0][0]
            least = min(held(history[:said["position"]]).values(), default=None)
            # What was forgotten before it was held is forgotten.
            assert least is None or forgotten <= max(least, before), f"{forgotten}, held from {least} on"
            found += least == forgotten > before
            since = max(since, forgotten)
    return found


@pytest.mark.parametrize("kind", [Topic, Objects])
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_racing_minters_agree(kind: Any, chunk: int) -> None:
    """Five of them and more, in every order that a scheduler draws, with stale views, trimmed heads and late writes."""
    reused = trimmed = bound = 0
    for seed in range(chunk, SCHEDULES, CHUNKS):
        try:
            race = Race(seeded(seed), kind, minters=5 + seed % 3)
            race.run()
            decisions = decided(race.log.history)
            fresh = SharedRemap()
            race.read(fresh)
            race.judge(fresh)
            for minter in race.minters:
                race.read(minter.shared)
                race.judge(minter.shared)
            assert {(fresh.next, fresh.remap.last, fresh.recipe)} == {
                (minter.shared.next, minter.shared.remap.last, minter.shared.recipe) for minter in race.minters
            }
            assert all(fresh.remap.current.dominates(observed) for observed in race.bound)
            assert {tuple(sorted(held(race.log.history).items()))} == {
                tuple(sorted(shared.holds.items())) for shared in (fresh, *(minter.shared for minter in race.minters))
            }
            bound += holding(race.log.history)
            assert fresh.remap.last == decisions[-1].upper - 1
            truth = told(decisions)
            said = [message for won in race.won if won.before or not won.binding.lower for message in won.messages()]
            # These come first: what comes when all is finished would contradict nothing.
            assert summed(truth) == history(said + truth)
            reused += getattr(race.log, "reused", 0)
            trimmed += fresh.remap.since > 0
        except BaseException as error:
            error.add_note(f"{kind.__name__}, seed {seed}")
            raise

    assert trimmed > 0 and bound > 0 and (reused > 0 or kind is Topic)
