"""Whether a slot is the one that was seen before: judged by servers in memory, which know each slot that they made."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from cdcv2.control.slot_marks import Continuity, SlotMark, continuity, forked, with_sent

BEFORE = SlotMark(wal=500, timeline=1, kept=100, reader="7 at 3", sent=4, counted_since="monday")


class MemoryServer:
    """WAL, and one name of a slot, under which slots come and go, are read, and are seen."""

    def __init__(self, chance: Random) -> None:
        self.chance, self.wal, self.number, self.sessions = chance, 100, 0, 0
        self.kept, self.sent, self.reader, self.counted_since = 0, 0, "", 0
        # From where slots of others keep WAL, each from before all that is seen of this name.
        self.copied, self.others = False, [90, 80, 70, 60, 50, 40, 30, 20, 10]
        self.make()

    def make(self) -> None:
        """Another slot in place of what was there. Its own record comes behind the position that it keeps."""
        self.number += 1
        self.kept, self.sent, self.reader, self.copied = self.wal, 0, "", False
        self.wal += self.chance.randint(1, 3)

    def happen(self) -> None:
        """Something."""
        match self.chance.randrange(6):
            case 0:
                self.wal += self.chance.randrange(30)
            case 1 if self.reader and not self.copied:
                self.kept = self.chance.randint(self.kept, self.wal)
                self.sent += self.chance.randrange(5)
            case 2:
                self.sessions += 1
                self.reader = f"session {self.sessions}"
            case 3:
                self.reader = ""
            case 4 if self.chance.random() < 0.3:
                # The server crashed: its counters begin from 0, and sessions end.
                self.sent, self.reader, self.counted_since = 0, "", self.counted_since + 1
            case 5 if self.chance.random() < 0.4:
                self.make()
                if self.others and self.chance.random() < 0.3:
                    self.kept, self.copied = self.others.pop(0), True

    def look(self) -> SlotMark:
        """What a look finds."""
        return SlotMark(self.wal, 1, self.kept, self.reader, self.sent, str(self.counted_since))


def test_what_is_stated_of_a_slot_is_so() -> None:
    """6,000 pairs of looks: `same` never of another slot, `remade` never of the same; each is found often."""
    found = {(one, same): 0 for one in Continuity for same in (True, False)}
    for seed in range(600):
        chance = Random(seed)
        server = MemoryServer(chance)
        before, number = server.look(), server.number
        for _ in range(10):
            for _ in range(chance.randrange(6)):
                server.happen()
            now = server.look()
            found[continuity(before, now), server.number == number] += 1
            before, number = now, server.number

    assert 0 == found[Continuity.SAME, False] == found[Continuity.REMADE, True]
    assert min(found[Continuity.SAME, True], found[Continuity.REMADE, False], found[Continuity.OPEN, False]) > 100
    # One that is read on without a break is known, however far it is.
    assert found[Continuity.OPEN, True] < found[Continuity.SAME, True] / 4


@pytest.mark.parametrize(("changes", "expected"), [
    ({}, Continuity.SAME),
    ({"kept": 500}, Continuity.SAME),
    ({"kept": 499, "reader": ""}, Continuity.SAME),
    ({"kept": 500, "reader": ""}, Continuity.OPEN),
    ({"kept": 99}, Continuity.SAME),
    ({"kept": 98}, Continuity.OPEN),
    ({"kept": 90, "reader": ""}, Continuity.OPEN),
    ({"kept": 90, "reader": "", "sent": 0}, Continuity.REMADE),
    ({"kept": 300, "reader": "", "sent": 0}, Continuity.REMADE),
    ({"sent": 3}, Continuity.REMADE),
    ({"sent": 3, "counted_since": "tuesday"}, Continuity.SAME),
    ({"kept": None, "reader": "8 at 3"}, Continuity.OPEN),
    ({"kept": 500, "reader": "8 at 3", "sent": 3}, Continuity.REMADE),
    ({"kept": 500, "reader": "8 at 3", "sent": 3, "counted_since": "tuesday"}, Continuity.OPEN),
    ({"kept": 500, "reader": "8 at 3", "sent": None}, Continuity.OPEN),
    ({"timeline": 2}, Continuity.OPEN),
    ({"timeline": 2, "ancestors": {1: 600}, "sent": 0}, Continuity.SAME),
    ({"timeline": 2, "ancestors": {1: 600}, "kept": 90}, Continuity.SAME),
    ({"timeline": 2, "ancestors": {1: 600}, "kept": 601}, Continuity.OPEN),
    ({"timeline": 2, "ancestors": {1: 600}, "kept": None}, Continuity.OPEN),
    ({"timeline": 2, "ancestors": {}}, Continuity.OPEN),
    ({"wal": 499}, Continuity.OPEN),
])  # fmt: skip
def test_each_sign_counts_as_far_as_it_goes(changes: dict[str, object], expected: Continuity) -> None:
    """Another timeline states something if it is known where it begins; counters only where they were not set back."""
    now = replace(BEFORE, **{"wal": 900, **changes})  # type: ignore[arg-type]

    assert expected is continuity(BEFORE, now)


def test_without_a_look_nothing_is_known() -> None:
    """Neither before nor now; and a mark is read as it was written."""
    assert Continuity.OPEN is continuity(None, BEFORE) is continuity(BEFORE, None)
    assert BEFORE == SlotMark.from_plain(BEFORE.to_plain())


def test_a_mark_is_read_with_what_was_seen_on_another_timeline_and_as_a_release_before_wrote_it() -> None:
    """That knew nothing of another timeline."""
    mark = forked(with_sent(BEFORE, 480), replace(BEFORE, timeline=2))
    plain = mark.to_plain()
    older = {name: value for name, value in plain.items() if name not in ("captured", "fork")}

    assert mark == SlotMark.from_plain(plain) and mark.fork is not None and 2 == mark.fork.last.timeline
    assert BEFORE == SlotMark.from_plain(older)
