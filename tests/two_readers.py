"""The reader for whole numbers beside the general classes: after every message they have given and kept the same.

A history is drawn, its log mangled, contradicted and damaged, and each update is a row or value that has several
spellings (0.0 and -0.0, one and True, a NaN, nulls, decimals, maps): which of them is given out must be the same too.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

from cdcv2.core.order import MAX_TIME, Product
from cdcv2.errors import Cdcv2Error, ContradictionError
from cdcv2.protocol.log import Entry, Position
from cdcv2.protocol.messages import Batch, GarbledMessage, Progress, Update, Updates
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.row_type import RowType
from tests.oracle import Said, Told
from tests.strategies import DATA, Chooser, beginning, corrupted, histories, lift, mangled, seeded

ROW = RowType({
    "type": "record", "name": "odd",
    "fields": [
        {"name": "d", "type": ["null", "double"]},
        {"name": "n", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}]},
        {"name": "m", "type": {"type": "map", "values": "long"}},
    ],
})  # fmt: skip
NAN, OTHER_NAN = float("nan"), float("nan")


def spellings() -> list[list[Any]]:
    """For each data of the drawn histories some values that are equal; made at each call, but for the NaNs."""
    return [
        [0.0, -0.0, 0, False],
        [1, True, 1.0, Decimal(1), Decimal("1.00")],
        [NAN],
        [None],
        [OTHER_NAN],
        [ROW.row([0.0, Decimal("1.5"), {"a": 1, "b": 2}]), ROW.row([-0.0, Decimal("1.50"), {"b": 2, "a": 1}])],
        [ROW.row([float("nan"), None, {}]), ROW.row([-float("nan"), None, {}])],
        [ROW.row([None, Decimal(0), {"a": 1}]), ROW.row([None, Decimal("-0.00"), {"a": 1}])],
        [(NAN, None), (NAN, None)],
        ["text", "te" + "xt"],
        [frozenset({1}), frozenset({1.0})],
    ]


class Log:
    """The messages of a drawn history, as a source might hand them on."""

    def __init__(self, choose: Chooser) -> None:
        self.choose = choose
        history = histories(choose, 1)
        told = mangled(choose, history.log)
        if choose.chance(2):
            told = corrupted(choose, told)
        self.start = [lift(time) for time in history.start]
        self.begins = None if choose.chance(4) else beginning(history.start)
        # Some sources give each update as an object of its own, some the same one for the copies of it.
        self.shared: dict[Any, Update] | None = {} if choose.chance(3) else None
        positions = choose.integer(0, 2)
        self.messages: list[Any] = []
        for offset, message in enumerate(told):
            built: Any = self.built(message)
            if choose.chance(25):
                built = self.bad()
            if positions == 2 or positions == 1 and choose.chance(2):
                built = Entry(Position("log", 0, offset), built)
            self.messages.append(built)

    def built(self, message: Told | Said) -> Updates | Progress:
        """A message, its data spelled in any way."""
        if isinstance(message, Said):
            return Progress(map(lift, message.lower), map(lift, message.upper),
                            [(lift(time), count) for time, count in message.counts])
        return Updates.trusted(tuple(self.update(data, lift(time), diff) for data, time, diff in message.updates))

    def update(self, data: Any, time: int, diff: int) -> Update:
        """An update, spelled in any way."""
        spelled = self.choose.pick(spellings()[DATA.index(data)]) if data in DATA else data
        made = spelled, time, diff
        return made if self.shared is None else self.shared.setdefault((data, time, diff), made)

    def bad(self) -> Any:
        """What no log should have, alone or behind updates that are right."""
        wrong: list[Any] = [
            ("a", -1, 1), ("a", MAX_TIME + 1, 1), ("a", Product(1, 2), 1), (["no hash"], 3, 1), ("a", 3), ("a", "3", 1),
        ]
        updates = [self.update("a", 2, 1), self.update("b", 5, 1), self.choose.pick(wrong), self.update("c", 6, 1)]
        return self.choose.pick([
            Updates.trusted(tuple(updates)), GarbledMessage(b"?", "no message"), "no message",
            Progress([Product(0, 0)], []),
        ])


def answer(reader: Resolver, message: Any) -> tuple[Any, ...]:
    """What a reader gives for a message, down to the spelling and the order; or why it raises, with the evidence."""
    try:
        return given(reader.absorb(message))
    except (Cdcv2Error, TypeError, ValueError) as error:
        return (type(error), str(error), *(repr(value) for _, value in sorted(vars(error).items())))


def given(batch: Batch | None) -> tuple[Any, ...]:
    """A batch as a value."""
    return () if batch is None else ([tuple(map(repr, update)) for update in batch.updates], batch.lower, batch.upper)


def kept(reader: Resolver) -> list[Any]:
    """All that a reader has and reports, as a value; data as text, as a NaN is not equal to itself."""
    return [
        reader.export_state(repr), reader.counters, reader.frontier, reader.known, reader.closed, reader.quarantine,
        reader.missing(), reader.open_times(), reader.waiting_statements(), reader.unreached(), reader.held_updates(),
        [tuple(map(repr, update)) for update in reader.orphans()], reader.parked, reader.resolutions,
        {time: [tuple(map(repr, held)) for held in reader.held_at(time)] for time in reader.open_times()},
        [reader.keeps(time) for time in range(8)],
    ]


def compare(choose: Chooser) -> Counter[str]:
    """Show a log to both; return which errors its messages raised."""
    log = Log(choose)
    settings: dict[str, Any] = {"start": log.start, "begins": log.begins}
    settings["on_error"] = "quarantine" if choose.chance(8) else "raise"
    fast, general = Resolver(**settings), Resolver(**settings, general=True)
    raised = Counter[str]()
    for number, message in enumerate(log.messages):
        before = kept(fast)
        expected = answer(general, message)
        assert expected == answer(fast, message), f"message {number}, {message}"
        assert kept(general) == kept(fast), f"message {number}, {message}"
        if expected and isinstance(expected[0], type):
            raised[expected[0].__name__ + kind(general, message)] += 1
            assert before == kept(fast), f"message {number}, {message}"
        # Whatever does not raise is decided by the reader for whole numbers.
        assert raised or settings["on_error"] != "raise" or fast._integers is not None
    return raised


def kind(reader: Resolver, message: Any) -> str:
    """Which contradiction it is that a message raises again."""
    try:
        reader.absorb(message)
    except ContradictionError as error:
        return f" {error.what}"
    except (Cdcv2Error, TypeError, ValueError):
        pass
    return ""


def run(seeds: range) -> Counter[str]:
    """Compare by the history of each seed; a failure names its seed. Which errors were raised, and how often."""
    raised = Counter[str]()
    for seed in seeds:
        try:
            raised += compare(seeded(seed))
        except Exception as failure:
            failure.add_note(f"run(range({seed}, {seed + 1})) repeats it")
            raise
    return raised
