"""Whose turn it is: every cell of both tables, legal and illegal, from the tables themselves."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core import Antichain
from cdcv2.errors import TurnError
from cdcv2.materialize import Checkpoint, Field, Table
from cdcv2.materialize.protocol.messages import (
    REQUESTS, RESPONSES, Acknowledge, Acknowledged, Changes, Flush, Flushed, Load, Loaded, Open, Opened, StartCommit,
    StartedCommit, Store,
)
from cdcv2.materialize.protocol.turns import DRIVER_TURNS, RUNTIME_TURNS, TABLES, WHILE, Phase, Turns

AT = Antichain([1])
TABLE = Table("totals", (Field("name", "string"),), (Field("total", "integer"),))
DELTA = Table("changes", (Field("name", "string"),), (Field("total", "integer"),), delta=True)
SAID: dict[type[Any], Any] = {
    Open: Open("m", (TABLE, DELTA)),
    Opened: Opened(changes=frozenset([0])),
    Acknowledge: Acknowledge(),
    Acknowledged: Acknowledged(),
    Load: Load(0, ("a",)),
    Loaded: Loaded(0, ("a",), (1,)),
    Flush: Flush(AT, AT),
    Flushed: Flushed(),
    Store: Store(0, ("a",), (2,), exists=True),
    Changes: Changes(0, None, None, 0),
    StartCommit: StartCommit(Checkpoint(AT)),
    StartedCommit: StartedCommit(),
}
# The whole of one transaction, in an order that is legal; and what may come first instead.
ROUND = [Load, Flush, Loaded, Flushed, Store, Changes, StartCommit, StartedCommit]
OPENING = [Open, Opened]
EARLY, LATE = [Acknowledged, Acknowledge], [Acknowledge, Acknowledged]

# The protocol's two orders, as regular expressions would have them, written down here once more by hand.
REQUEST_AFTER = {
    None: {Open}, Open: {Acknowledge}, Acknowledge: {Load, Flush}, Load: {Load, Flush},
    Flush: {Store, Changes, StartCommit}, Store: {Store, Changes, StartCommit},
    Changes: {Store, Changes, StartCommit}, StartCommit: {Acknowledge},
}  # fmt: skip
RESPONSE_AFTER = {
    None: {Opened}, Opened: {Acknowledged}, Acknowledged: {Loaded, Flushed}, Loaded: {Loaded, Flushed},
    Flushed: {StartedCommit}, StartedCommit: {Acknowledged},
}  # fmt: skip


def conversations() -> Iterator[list[type[Any]]]:
    """Legal conversations that pass through every phase of both roles."""
    for first, second in itertools.product((EARLY, LATE), repeat=2):
        yield [*OPENING, *first, *ROUND, *second, *ROUND]


def reached() -> dict[tuple[Phase, Phase], list[type[Any]]]:
    """Every pair of phases that a legal conversation comes to, and a shortest way there."""
    found: dict[tuple[Phase, Phase], list[type[Any]]] = {}
    for conversation in conversations():
        for length in range(len(conversation) + 1):
            talk = told(conversation[:length])
            found.setdefault((talk.phases["runtime"], talk.phases["driver"]), conversation[:length])
    return found


def told(kinds: list[type[Any]]) -> Turns:
    """A conversation with these messages."""
    talk = Turns()
    for kind in kinds:
        talk.record(SAID[kind])
    return talk


REACHED = reached()
CELLS = [(pair, kind) for pair in REACHED for kind in (*REQUESTS, *RESPONSES)]


def legal(pair: tuple[Phase, Phase], kind: type[Any]) -> bool:
    """Whether the tables let it be sent."""
    runtime, driver = pair
    own, other = (runtime, driver) if kind in REQUESTS else (driver, runtime)
    side = "runtime" if kind in REQUESTS else "driver"
    return kind in TABLES[side][own] and other in WHILE[kind][0]


@pytest.mark.parametrize(("pair", "kind"), CELLS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_cell_of_both_tables(pair: tuple[Phase, Phase], kind: type[Any]) -> None:
    """What the tables allow moves its sender by the tables; anything else names the sender and moves no side."""
    talk = told(REACHED[pair])
    side = "runtime" if kind in REQUESTS else "driver"
    message = SAID[kind]
    if kind is Load:
        message = Load(0, ("another",))
    elif kind is Store:
        message = Store(0, ("another",), (1,))
    elif kind is Changes:
        talk._changed.clear()
    elif kind is Loaded and legal(pair, kind):
        talk._asked.add((0, ("another",)))
        message = Loaded(0, ("another",), (1,))
    before = dict(talk.phases)
    if legal(pair, kind):
        talk.record(message)

        assert {**before, side: TABLES[side][before[side]][kind]} == talk.phases
    else:
        with pytest.raises(TurnError) as caught:
            talk.record(message)

        assert side == caught.value.side
        assert str(caught.value).startswith(f"the {side} sent ")
        assert before == talk.phases


def test_every_cell_is_reached() -> None:
    """A cell that no conversation reaches would not be tested."""
    for table, after, at in ((RUNTIME_TURNS, REQUEST_AFTER, 0), (DRIVER_TURNS, RESPONSE_AFTER, 1)):
        assert set(table) == {pair[at] for pair in REACHED}
        assert set().union(*after.values()) == {kind for moves in table.values() for kind in moves}
    for side, at in (("runtime", 0), ("driver", 1)):
        cells = {(phase, kind) for phase, moves in TABLES[side].items() for kind in moves}
        assert cells == {(pair[at], kind) for pair in REACHED for kind in TABLES[side][pair[at]] if legal(pair, kind)}


@pytest.mark.parametrize("side", ["runtime", "driver"])
def test_the_tables_are_the_protocol(side: str) -> None:
    """The allowed order, written down a second time, is that of the table."""
    after = REQUEST_AFTER if side == "runtime" else RESPONSE_AFTER
    phase_after = {None: Phase.START, **{kind: to for moves in TABLES[side].values() for kind, to in moves.items()}}

    assert after == {kind: set(TABLES[side][phase]) for kind, phase in phase_after.items()}


@pytest.mark.parametrize(
    ("said", "last", "side", "text"),
    [
        ([*OPENING, Acknowledge], SAID[Flush], "runtime", "sent Flush before Acknowledged"),
        ([*OPENING, *LATE], Acknowledged(), "driver", "sent duplicate Acknowledged"),
        ([*OPENING, Acknowledge], Flushed(), "driver", "sent Flushed before Acknowledged"),
        ([*OPENING, *LATE], Flushed(), "driver", "sent Flushed before receiving Flush"),
        ([*OPENING, *LATE, Flush], SAID[Store], "runtime", "sent Store before Flushed"),
        ([*OPENING, *LATE, *ROUND[:4]], SAID[Loaded], "driver", "sent Loaded out of turn"),
        ([*OPENING, *LATE, *ROUND[:4]], StartedCommit(), "driver", "sent StartedCommit before receiving StartCommit"),
        ([*OPENING, *LATE, *ROUND[:7]], Acknowledge(), "runtime", "sent Acknowledge before the answer"),
        ([*OPENING, *LATE, *ROUND[:6]], SAID[Changes], "runtime", "sent Changes twice of totals"),
        ([*OPENING, *LATE, *ROUND[:5]], Changes(1, None, None, 0), "runtime",
         "sent Changes of changes, of which the driver takes Loads and Stores only"),
        ([*OPENING, *LATE, *ROUND[:5]], Changes(2, None, None, 0), "runtime", "sent Changes for table 2 of 2"),
        ([], Opened(), "driver", "sent Opened before receiving Open"),
        ([Open], Acknowledge(), "runtime", "sent Acknowledge before the answer"),
        ([*OPENING, *LATE, Load], Load(0, ("a",)), "runtime", "sent Load twice"),
        ([*OPENING, *LATE], Load(1, ("a",)), "runtime", "sent Load for changes, which takes changes"),
        ([*OPENING, *LATE], Load(2, ("a",)), "runtime", "sent Load for table 2 of 2"),
        ([*OPENING, *LATE, Load, Loaded], SAID[Loaded], "driver", "sent Loaded twice"),
        ([*OPENING, *LATE, Load], Loaded(0, ("b",), (1,)), "driver", "which was not asked for"),
        ([*OPENING, *LATE, Load], Loaded(0, ("a",), (1, 2)), "driver", "Loaded with 2 values for the key ('a',)"),
        ([*OPENING, *LATE, *ROUND[:4]], Store(0, ("a",), (1,)), "runtime",
         "sent Store with exists=False for the key ('a',) of totals, whose Loaded came"),
        ([*OPENING, *LATE, *ROUND[:4]], Store(0, ("b",), (1,), True), "runtime", "whose Loaded did not come"),
        ([*OPENING, *LATE, Flush], StartedCommit(), "driver",
         "sent StartedCommit out of turn (expected Loaded or Flushed, got StartedCommit)"),
        ([*OPENING, *LATE, *ROUND[:4]], Acknowledged(), "driver", "(expected nothing, got Acknowledged)"),
        ([*OPENING, *LATE, *ROUND[:5]], SAID[Store], "runtime", "sent Store twice"),
        ([*OPENING], "hello", "runtime", "which is no message"),
        ([*OPENING], Flush(AT, AT), "runtime", "out of turn (expected Acknowledge, got Flush)"),
    ],
)
def test_an_error_names_the_side_and_the_rule(said: list[type[Any]], last: Any, side: str, text: str) -> None:
    """The text names the side whose program must be mended."""
    with pytest.raises(TurnError) as caught:
        told(said).record(last)

    assert side == caught.value.side
    assert text in str(caught.value)


def test_a_new_transaction_may_ask_for_the_same_keys() -> None:
    """Once per transaction, not once for ever."""
    talk = told([*OPENING, *LATE, *ROUND, *EARLY, *ROUND])

    assert {"runtime": Phase.COMMIT, "driver": Phase.COMMIT} == talk.phases


def diagram() -> str:
    """The two tables as a Mermaid state diagram, for docs/writing-a-driver.md."""
    lines = ["stateDiagram-v2"]
    for side, table in TABLES.items():
        lines.append(f"    state {side} {{")
        for phase, moves in table.items():
            lines += [f"        {side}_{phase.name} : {phase.name}"]
            lines += [
                f"        {side}_{phase.name} --> {side}_{following.name} : {kind.__name__}"
                for kind, following in moves.items()
            ]
        lines.append("    }")
    return "\n".join(lines)


def table_text() -> str:
    """The two tables and what each message waits for, as one Markdown table."""
    rows = ["| message | sent by | in its phase | while the other is in | then |", "|---|---|---|---|---|"]
    for side, table in TABLES.items():
        for kind in sorted({kind for moves in table.values() for kind in moves}, key=_order):
            own = [phase for phase, moves in table.items() if kind in moves]
            rows.append(
                f"| {kind.__name__} | {side} | {_names(own)} | {_names(WHILE[kind][0])} | {table[own[0]][kind].name} |"
            )
    return "\n".join(rows)


def _order(kind: type[Any]) -> int:
    return list(WHILE).index(kind)


def _names(phases: Iterable[Phase]) -> str:
    held = set(phases)
    return ", ".join(phase.name for phase in Phase if phase in held)


def test_the_page_shows_the_tables_as_they_are() -> None:
    """The drawing is made from what the program looks up. When this fails, put the text into the page."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "writing-a-driver.md").read_text("utf-8")
    begin, end = "<!-- turns: begin -->\n", "\n<!-- turns: end -->"
    shown = page[page.index(begin) + len(begin): page.index(end)]

    assert f"```mermaid\n{diagram()}\n```\n\n{table_text()}" == shown
