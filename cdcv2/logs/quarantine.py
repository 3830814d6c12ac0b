"""A folder of contradictions: the evidence of each, and the decision of a person about it.

::

    quarantine/4f1c09aa27be.json        two facts that contradict each other, or bytes that are no message
    quarantine/9d2e41b07c55.decided     what was decided: a count, the diff of a row, that bytes are passed over

A time in dispute holds the frontier, so nothing is given out that is not proven: in every reading that names the
folder, also in one that does not meet the contradiction, as it drops late repeats, or reads another copy. A decision is
taken by a person, once, and is never changed: it holds for all readers that name the folder. It is about a time, and
not about a case, as several cases can be of one time; its file is named by what it is about. Case and decision name the
timeline and the table that they are of: neither is ever applied to another history.

The file is long because its two halves share one form: a reader of logs writes the case that a person reads, and reads
the decision that this person writes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time as clock
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2.core.json_text import parse_json
from cdcv2.core.order import Time
from cdcv2.core.own_json import reading, with_digest, without_digest
from cdcv2.errors import Cdcv2Error, MissingLogError, OutputError, RefusedError, UsageError
from cdcv2.logs.capture_manifest import CAPTURE_FILE
from cdcv2.logs.description import LogDescription, description_of
from cdcv2.logs.jsonlines import JsonLines, plain_time, time_from_plain
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.logs.named_logs import NamedLog
from cdcv2.protocol.ledger import Dispute
from cdcv2.protocol.log import Position
from cdcv2.protocol.messages import GarbledMessage
from cdcv2.protocol.resolver import Resolver
from cdcv2.rows.plain import int_from_plain, plain_int
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import in_words, is_there, matching, names_in, text_of
from cdcv2.store.put_if_absent import link, replace_file, sync_folder, write_temporary

#: The version of the files.
VERSION = 1
#: Of so many updates at a time with too many, and of so many bytes that are no message, the evidence is kept.
MOST = 1000
#: Seconds between two looks for decisions, while logs are followed.
LOOK = 1.0
#: What the files of a quarantine are called, those of earlier releases among them.
_KEPT = re.compile(r"[0-9a-f]{12}\.json|.*\.decided")
_UNDECIDED = "still in dispute: that does not decide it"
_FEWER = (
    "still in dispute: the time has fewer updates now than the log may state, for which readers then wait: decide how "
    "many with --count, too"
)
_REMEDY = "restore it, or remove it if it is evidence: the next run writes that again"


@dataclass(frozen=True)
class Decision:
    """What was decided of a time: ``count``, or the ``diff`` of ``row`` (as JSON has it; 0: it never happened).

    With neither, the bytes of the case are passed over.
    """

    case: str
    table: str
    timeline: str
    time: Time | None
    count: int | None = None
    row: Mapping[str, Any] | None = None
    diff: int | None = None

    @property
    def about(self) -> str:
        """What can be decided once: how many updates a time has, the diff of a row at it, the bytes of a case."""
        if self.time is None:
            return _digest([self.case])
        what = "count" if self.count is not None else self.row
        return _digest([self.table, self.timeline, plain_time(self.time), what])

    @property
    def fact(self) -> tuple[int | None, int | None]:
        """What was decided of it."""
        return self.count, self.diff

    def __str__(self) -> str:
        if self.count is not None:
            return f"there are {self.count} updates at time {self.time}"
        if self.diff is not None:
            row = json.dumps(self.row, ensure_ascii=False)
            return f"{row} has the diff {self.diff} at time {self.time}" if self.diff else f"{row} never happened"
        return "the bytes are passed over"


class Case(NamedTuple):
    """A contradiction, or bytes that are no message, with its evidence as JSON has it, and what was decided of it.

    ``decisions`` are all that are about its time, whichever case they were taken at.
    """

    name: str
    plain: Mapping[str, Any]
    decisions: tuple[Decision, ...]

    @property
    def settled(self) -> bool:
        """Whether nothing of it is in dispute any more, by its evidence and by what was decided."""
        return self.undecided is None

    @property
    def undecided(self) -> str | None:
        """What is still to be decided, in words; None: nothing, by its evidence and by what was decided."""
        counts = [one.count for one in self.decisions if one.count is not None]
        diffs = {_digest([one.row]): one.diff for one in self.decisions if one.diff is not None}
        gone = sum(diffs.get(_digest([one["row"]])) == 0 for one in self.plain.get("updates", ()))
        if not self.decisions:
            return "not decided"
        if self.what == "bytes":
            return None
        if self.what == "count":
            return None if counts else _UNDECIDED
        if self.what == "diff":
            if _digest([self.plain["row"]]) not in diffs:
                return _UNDECIDED
            # A case of an earlier release does not have how many there are.
            stated, held = self.plain.get("counted") or (None, 0)
            return None if counts or not gone or held - gone == stated else _FEWER
        stated, held = self.plain["first"], self.plain["second"]
        still: int = int_from_plain(held) - gone
        if counts:
            return None if still <= counts[0] else _UNDECIDED
        left: int = still - int_from_plain(stated)
        return None if not left else _UNDECIDED if left > 0 else _FEWER

    @property
    def disputed(self) -> bool:
        """Whether facts still contradict each other, so that the time holds every reading. Bytes hold nothing.

        After a decision that leaves fewer updates than the log states, readers wait for these by themselves.
        """
        return self.what != "bytes" and self.undecided not in (None, _FEWER)

    @property
    def time(self) -> Time:
        """The time of the contradiction."""
        return time_from_plain(self.plain["time"])

    @property
    def what(self) -> str:
        """``"diff"``, ``"count"`` or ``"surplus"``, as of a ContradictionError; or ``"bytes"``."""
        return str(self.plain["what"])

    @property
    def text(self) -> str:
        """In a sentence."""
        return str(self.plain["text"])

    def decision(self, count: int | None, row: Mapping[str, Any] | None, diff: int | None) -> Decision:
        """One about this case. Raises UsageError for what does not decide it."""
        at = None if self.what == "bytes" else time_from_plain(self.plain["time"])
        if self.what == "bytes" and (count is not None or row is not None or diff is not None):
            raise UsageError(f"{self.name} is about bytes that are no message: they can only be passed over")
        if self.what != "bytes" and (count is None) == (diff is None):
            raise UsageError(f"{self.name}: decide either the count of its time, or the diff of a row")
        if diff is not None and row is None:
            row = self.plain["row"]
            if row is None:
                raise UsageError(f"{self.name} is about how many updates a time has: name the row that has the diff")
        if row is not None:
            known = [self.plain["row"], *(one["row"] for one in self.plain["updates"])]
            same = next((one for one in known if _is_same(one, row)), None)
            if same is None:
                raise UsageError(f"{self.name}: no update of the row {json.dumps(row)} is in its evidence")
            # As the evidence spells it: 2 and 2.0 are one number, and a decision is about one row.
            row = same
        if count is not None and (row is not None or count < 0):
            raise UsageError(f"{self.name}: a count is a number from 0 on, of all updates at the time")
        return Decision(self.name, self.plain["table"], self.plain["timeline"], at, count, row, diff)


class Quarantine:
    """The folder. It is made when the first evidence is kept.

    Raises OutputError where it cannot be written, UnavailableError where it cannot be read, ForeignStateError for a
    file that is damaged, UsageError for a folder of logs.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if any(is_there(self.folder / name) for name in (LOG_FILE, CAPTURE_FILE)):
            raise UsageError(f"{self.folder} has logs: name another folder for the quarantine")

    def cases(self) -> list[Case]:
        """All cases, by table and time.

        Raises MissingLogError where there is no folder, UsageError for one that holds other things only.
        """
        names = names_in(self.folder)
        if names is None:
            raise MissingLogError(f"there is no folder {self.folder}: nothing was put into quarantine there")
        foreign = [name for name in names if not name.startswith(".") and not _KEPT.fullmatch(name)]
        if foreign and not any(map(_KEPT.fullmatch, names)):
            raise UsageError(
                f"{self.folder} is no quarantine: it holds other things ({min(foreign)}), and no case. Name the folder "
                "that a command was given with --quarantine"
            )
        return self.judged(self.decisions())

    def judged(self, decisions: Sequence[Decision]) -> list[Case]:
        """The same by these decisions; none where there is no folder."""
        if names_in(self.folder) is None:
            return []
        found = list[Case]()
        for path in matching(self.folder, "*.json"):
            plain, name = self._read(path), path.stem
            of = plain["table"], plain["timeline"], plain["time"]
            found.append(Case(name, plain, tuple(
                one for one in decisions
                if (one.case == name if one.time is None else (one.table, one.timeline, plain_time(one.time)) == of)
            )))
        return sorted(found, key=lambda case: (case.plain["table"], repr(case.plain["time"]).zfill(40), case.name))

    def case(self, name: str) -> Case:
        """One of them. Raises UsageError where there is none of this name, or are several that begin so."""
        found = [case for case in self.cases() if case.name.startswith(name)]
        if len(found) != 1:
            there = ", ".join(case.name for case in found or self.cases()) or "none"
            what = "no single case" if found else "no case"
            raise UsageError(f"{name!r} is {what} in {self.folder}; there: {there}")
        return found[0]

    def keep(self, plain: Mapping[str, Any]) -> str:
        """Keep the evidence of a case, in place of what was kept of it before; its name."""
        name = self.name_of(plain)
        self._write(f"{name}.json", plain, over=True)
        return name

    def name_of(self, plain: Mapping[str, Any]) -> str:
        """The name of a case with this evidence, whether or not it is kept."""
        subject = [plain[key] for key in ("table", "timeline", "what", "time", "row")]
        if plain["what"] != "bytes":
            # The same contradiction may be met at other places: in a copy, or by a reader that begins elsewhere.
            return _digest(subject)[:12]
        subject.append(plain["positions"])
        before = self.folder / f"{_digest(subject)[:12]}.json"
        if is_there(before) and self._read(before)["raw"] == plain["raw"]:
            # As an earlier release named it.
            return before.stem
        # Others may stand in that place later, about which nothing was decided.
        return _digest([*subject, plain["raw"]])[:12]

    def decide(self, decision: Decision) -> None:
        """Keep a decision. Raises RefusedError where another was taken about the same thing, at any case."""
        for path, one in self._decided().items():
            if one.about == decision.about:
                self._demand_same(path, one, decision)
                return
        plain = {"version": VERSION, **asdict(decision)}
        plain["time"] = None if decision.time is None else plain_time(decision.time)
        plain["count"], plain["diff"] = (None if n is None else plain_int(n) for n in (decision.count, decision.diff))
        path = self.folder / f"{decision.about[:12]}.decided"
        if not self._write(path.name, plain, over=False):
            self._demand_same(path, self._decision(path), decision)

    def _demand_same(self, path: Path, one: Decision, other: Decision) -> None:
        if one.fact != other.fact:
            raise RefusedError(
                f"it was decided before that {one}, and readers may have continued with it: to decide otherwise, "
                f"remove {path} and whatever was made with it"
            )

    def decisions(self) -> list[Decision]:
        """All decisions, none where there is no folder. Raises RefusedError where two contradict each other."""
        return [*self._decided().values()]

    def _decided(self) -> dict[Path, Decision]:
        if names_in(self.folder) is None:
            return {}
        found, known = dict[Path, Decision](), dict[str, Path]()
        for path in matching(self.folder, "*.decided"):
            found[path] = one = self._decision(path)
            before = known.setdefault(one.about, path)
            if found[before].fact != one.fact:
                raise RefusedError(
                    f"two decisions contradict each other: in {before}, that {found[before]}, and in {path}, that "
                    f"{one}. Remove the one that does not hold, and whatever was made with it"
                )
        return found

    def _decision(self, path: Path) -> Decision:
        plain = self._read(path)
        with reading(path, _REMEDY):
            at = None if plain["time"] is None else time_from_plain(plain["time"])
            count, diff = (None if plain[key] is None else int_from_plain(plain[key]) for key in ("count", "diff"))
            return Decision(plain["case"], plain["table"], plain["timeline"], at, count, plain["row"], diff)

    def _read(self, path: Path) -> dict[str, Any]:
        with reading(path, _REMEDY):
            plain = without_digest(parse_json(text_of(path, f"the file {path} of a quarantine")), path, _REMEDY)
            if plain["version"] != VERSION:
                raise RefusedError(
                    f"{path} has the version {plain['version']}, and this release reads {VERSION}. Use the release of "
                    "cdcv2 that wrote it, or a newer one"
                )
            return plain

    def _write(self, name: str, plain: Mapping[str, Any], *, over: bool) -> bool:
        content = json.dumps(with_digest(plain), indent=1).encode()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if over:
                replace_file(self.folder / name, content)
                return True
            temporary = write_temporary(self.folder, content)
            written = link(temporary, self.folder / name)
            temporary.unlink()
            sync_folder(self.folder)
        except OSError as cause:
            raise OutputError(f"the quarantine {self.folder} cannot be written: {in_words(cause)}") from cause
        return written


class Evidence:
    """What one reading of logs finds in dispute, kept in a quarantine; and what was decided about its tables."""

    def __init__(self, quarantine: Quarantine, logs: Sequence[NamedLog]) -> None:
        self._quarantine = quarantine
        self._logs: dict[str, list[NamedLog]] = {}
        for named in logs:
            self._logs.setdefault(named.table, []).append(named)
        # What is kept already: (table, time, what, row) -> (the dispute, its case).
        self._kept: dict[tuple[Any, ...], tuple[Dispute, str]] = {}
        # Table -> the cases of bytes that are no message; and the cases that may be passed over.
        self._bytes: dict[str, list[str]] = {}
        self._passed = set[str]()
        #: How many times bytes were met that are no message, and without a decision to pass over them.
        self.garbled = 0
        # The tables of which more were met than are kept.
        self._beyond = set[str]()
        self._given = set[str]()
        self._next = 0.0
        # What the folder had at the last look.
        self._decisions: list[Decision] = []
        self._disputed: dict[str, list[Case]] = {}

    def renew(self, *, now: bool) -> bool:
        """Look what the folder has, now, or else by and by; whether it was looked at."""
        if not now and clock.monotonic() < self._next:
            return False
        self._next = clock.monotonic() + LOOK
        self._decisions = self._quarantine.decisions()
        histories = {table: self._history(table) for table in self._logs}
        self._disputed = _holding(self._quarantine.judged(self._decisions), histories)
        return True

    def withheld(self) -> Iterator[tuple[str, list[Time]]]:
        """Each table, and the times at which it is in dispute by any reading that named the folder."""
        for table in self._logs:
            yield table, [case.time for case in self._disputed.get(table, ())]

    def decisions(self) -> Iterator[tuple[str, Decision]]:
        """Decisions about the logs' tables that were not given before."""
        for one in self._decisions:
            if repr(one) in self._given or one.table not in self._logs or one.timeline != self._history(one.table):
                continue
            self._given.add(repr(one))
            if one.time is None:
                self._passed.add(one.case)
            else:
                yield one.table, one

    def row(self, decision: Decision) -> Any:
        """The row that a decision is about, as the log has it."""
        return self._row_type(decision.table).from_plain(dict(decision.row or {}))

    def look(self, table: str, reader: Resolver) -> None:
        """Keep what has come into dispute of a table since the last look."""
        for time, disputes in reader.quarantine.items():
            for dispute in disputes:
                key = table, time, dispute.what, dispute.data
                before = self._kept.get(key)
                if before is None or before[0] != dispute:
                    self._kept[key] = dispute, self._quarantine.keep(self._plain(table, dispute, reader))

    def keep_bytes(self, named: NamedLog, position: Position, garbled: GarbledMessage) -> bool:
        """Keep bytes that are no message, of many the first; whether it was decided to pass over these."""
        plain = self._of(named.table, "bytes", f"{garbled.reason} ({position})") | {
            "positions": [list(position)], "raw": garbled.raw.hex(),
        }
        if self._quarantine.name_of(plain) in self._passed:
            return True
        self.garbled += 1
        if self.garbled > MOST:
            self._beyond.add(named.table)
        else:
            self._bytes.setdefault(named.table, []).append(self._quarantine.keep(plain))
        return False

    def open(self, readers: Mapping[str, Resolver]) -> dict[str, dict[str, str]]:
        """Table -> name of a case -> its sentence: what is in dispute now, and bytes without a decision to pass over.
        """
        found = self._met(readers)
        for table, cases in self.unmet(readers).items():
            found.setdefault(table, {}).update(cases)
        for table, names in self._bytes.items():
            left = [name for name in names if name not in self._passed]
            if left:
                found.setdefault(table, {}).update(dict.fromkeys(left, "bytes that are no message"))
        for table in self._beyond:
            text = f"bytes that are no message, beyond the {MOST} that one run keeps: decide those, and run it again"
            found.setdefault(table, {})["more"] = text
        return found

    def unmet(self, readers: Mapping[str, Resolver]) -> dict[str, dict[str, str]]:
        """The same, of what is in dispute by the folder alone: these readers have not met it."""
        met, found = self._met(readers), dict[str, dict[str, str]]()
        for table, cases in self._disputed.items():
            for case in cases:
                if case.name not in met.get(table, {}):
                    before = "" if readers[table].keeps(case.time) else "; what is at that time was given out before"
                    found.setdefault(table, {})[case.name] = f"{case.text}{before}"
        return found

    def _met(self, readers: Mapping[str, Resolver]) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for table, reader in readers.items():
            for time, disputes in reader.quarantine.items():
                for dispute in disputes:
                    name = self._kept[table, time, dispute.what, dispute.data][1]
                    found.setdefault(table, {})[name] = dispute.error().fact
        return found

    def _history(self, table: str) -> str:
        return history_of((description_of(named.log), named.log.name) for named in self._logs[table])

    def _row_type(self, table: str) -> RowType:
        return self._logs[table][0].row_type

    def _of(self, table: str, what: str, text: str) -> dict[str, Any]:
        return {
            "version": VERSION, "table": table, "timeline": self._history(table), "what": what, "text": text,
            "time": None, "row": None,
        }  # fmt: skip

    def _plain(self, table: str, dispute: Dispute, reader: Resolver) -> dict[str, Any]:
        row_type = self._row_type(table)
        positions = [one if isinstance(one, Position) else None for one in dispute.positions]
        return self._of(table, dispute.what, dispute.error().fact) | {
            "time": plain_time(dispute.time),
            "row": row_type.to_plain(dispute.data) if dispute.what == "diff" else None,
            "counted": reader.open_times().get(dispute.time),
            "first": plain_int(dispute.first), "second": plain_int(dispute.second),
            "positions": [one and list(one) for one in positions],
            "messages": [one and self._message(table, one) for one in positions],
            "updates": [
                {"row": row_type.to_plain(data), "diff": plain_int(diff), "position": where and list(where)}
                for data, diff, where in reader.held_at(dispute.time)[:MOST]
            ],
        }

    def _message(self, table: str, position: Position) -> dict[str, Any]:
        """The message at a position, read again; or why it cannot be."""
        for named in self._logs[table]:
            if named.log.name != position.place:
                continue
            try:
                for entry in named.log.read({**named.log.ends(), position.part: position.offset}):
                    if (
                        entry is not None
                        and entry.position == position
                        and not isinstance(entry.message, GarbledMessage)
                    ):
                        return JsonLines(named.row_type).plain(entry.message)
            except Cdcv2Error as error:
                return {"lost": str(error)}
        return {"lost": f"nothing is at {position} now"}


def history_of(stated: Iterable[tuple[LogDescription, str]]) -> str:
    """The history that copies of one log are of, by what each states and its name: the timeline, or else the log."""
    copies = list(stated)
    known = [one.timeline for one, _ in copies if one.timeline is not None]
    return min(known or [one.identity or name for one, name in copies])


def decisions_about(folder: str | os.PathLike[str] | None, histories: Mapping[str, str]) -> dict[str, list[Decision]]:
    """Table -> the decisions about it; ``histories`` has that of each table. None: nothing was decided."""
    found: dict[str, list[Decision]] = {}
    for one in [] if folder is None else Quarantine(folder).decisions():
        if one.time is not None and histories.get(one.table) == one.timeline:
            found.setdefault(one.table, []).append(one)
    return found


def disputed_in(folder: str | os.PathLike[str] | None, histories: Mapping[str, str]) -> dict[str, list[Case]]:
    """The same as :func:`decisions_about`, of the cases that are not decided: each holds its table."""
    if folder is None:
        return {}
    quarantine = Quarantine(folder)
    return _holding(quarantine.judged(quarantine.decisions()), histories)


def _holding(cases: Iterable[Case], histories: Mapping[str, str]) -> dict[str, list[Case]]:
    """Table -> the cases that hold it: a case of another history holds nothing."""
    found: dict[str, list[Case]] = {}
    for case in cases:
        if case.disputed and histories.get(case.plain["table"]) == case.plain["timeline"]:
            found.setdefault(case.plain["table"], []).append(case)
    return found


def _is_same(one: Any, other: Any) -> bool:
    """Whether two values of JSON are one, however numbers are spelled; a truth value is no number."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _digest(plain: Iterable[Any]) -> str:
    return hashlib.sha256(json.dumps(list(plain), sort_keys=True).encode()).hexdigest()
