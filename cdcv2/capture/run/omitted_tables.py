"""Tables that a recipe leaves out: the next capture first completes their logs up to where that recipe begins.

Every time that is bound under the recipe before belongs into all of its logs. A capture that writes only the other
tables moves the hold of the log set on, and a compaction could then forget what the log of an omitted table still
lacks. So every start, also the one that proposes the new recipe, looks for such logs. It carries on the recipe before,
up to where the next one begins, before it holds anything itself; until then the earlier hold stays. This needs only the
remap, the topics and the logs. After a crash anywhere, the next start does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from cdcv2 import failpoints
from cdcv2.capture.binder import Binder
from cdcv2.capture.connector import FROM_ENVELOPE, DatabaseConnector
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.remap_outputs import remap_outputs
from cdcv2.capture.run.request import CaptureRequest
from cdcv2.capture.topics import Ranges
from cdcv2.completeness import through_text
from cdcv2.connectors.kinds import database_kind
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, MalformedError, MissingLogError, RefusedError
from cdcv2.logs.description import description_of
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.ledger import Ledger
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Progress
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there
from cdcv2.timeline.ordering import COMMIT_ORDER
from cdcv2.timeline.recipe import MAPPING, BoundRecipe
from cdcv2.timeline.records import RecipeEpoch as Bound

IN_FORCE = failpoints.declare(
    "left-out.in-force", "a recipe leaves a table out; its log may lack what was bound before"
)
BROUGHT = failpoints.declare("left-out.brought", "the logs of the recipe before are complete; ours are not opened")
#: Stands for a row type that is not available: only updates have rows.
_UNKNOWN = RowType({"type": "record", "name": "unknown", "fields": [{"name": "unknown", "type": "null"}]})
#: What cannot be repaired, or not here: the other tables go on without it.
_LOST = (RefusedError, MalformedError, MissingLogError, IncompleteError)


class EarlierRecipe(NamedTuple):
    """A recipe that was followed by one without some of its tables, and where that one begins."""

    recipe: BoundRecipe
    tables: frozenset[str]
    until: int


@dataclass(frozen=True)
class CaptureLogs:
    """Where the logs of a capture are. ``rows``: the folder of row types; ``opened`` opens a log that is there.

    ``ranges`` reads the topics that are asked for. ``at_most``: about how many records are read at once.
    """

    address: LogAddress
    rows: Path
    opened: Callable[[str, RowType], Log]
    ranges: Callable[[CaptureRequest], Ranges]
    at_most: int

    def kind(self, name: str, of: Any) -> RowType | None:
        """The row type of a log of an earlier recipe, if it is there: its own, or for a topic the one in ``rows``."""
        place, kind = self.address.of(name), None
        if not place.is_topic:
            try:
                kind = DirectoryLog(Path(place.name)).row_type
            except MissingLogError:
                return None
        else:
            kind = next((RowType.load(path) for path in self._files(name, of) if is_there(path)), None)
        return kind if kind is not None and kind.fingerprint == of["row"] else None

    def _files(self, name: str, of: Any) -> list[Path]:
        """Where the row type of a topic may be."""
        folder, table = str(of.get("database", "")), str(of.get("table", name))
        return [self.rows / folder / f"{table}.avsc", self.rows / f"{table}.avsc"]

    def demand_kind(self, name: str, of: Any, until: int | None) -> None:
        """Raise RefusedError if the log is a topic that has to come up to ``until``, and has not its row type.

        ``until`` None: it is not known yet how far that is. The error names topic and file. Cost:
        the topic is read once, where the row type lacks.
        """
        place = self.address.of(name)
        if not place.is_topic or self.kind(name, of) is not None:
            return
        try:
            known = _stated(self.opened(name, _UNKNOWN))
        except MissingLogError:
            return
        if known is None or (until is not None and known.dominates(Antichain([until]))):
            return
        found = [path for path in self._files(name, of) if is_there(path)]
        missing = f"{self._files(name, of)[-1]} is missing"
        what = f"{found[0]} is another one than it was bound with" if found else missing
        far = "" if until is None else f" from the time {until} on ({through_text(known, word='stated')})"
        raise RefusedError(
            f"{name} is left out{far}. What was bound before belongs into its log, the topic {place.name!r}, and that "
            f"needs its row type: {what}. Put it back as it was, and start again; the remap is held until then"
        )


def check_left_out(binder: Binder, logs: CaptureLogs) -> None:
    """Raise RefusedError unless the logs that our recipe leaves out can be brought up to where it will begin.

    Called before the recipe is proposed: a topic without its row type can be mended only where nothing is decided.
    """
    bound = binder.bound
    for name in sorted(bound.tables.keys() - binder.recipe.tables.keys()) if bound.mapping == MAPPING else ():
        logs.demand_kind(name, bound.tables[name], None)


def _stated(log: Log) -> Antichain | None:
    """The frontier up to which a log is stated, with rows of any type; None: its table is uncovered."""
    with closing(log):
        stated = [entry.message for entry in log.read() if entry is not None]
        description = description_of(log)
    if not description.covered:
        return None
    ledger = Ledger([description.begins], on_error="quarantine")
    ledger.state((one, None) for one in stated if isinstance(one, Progress))
    return ledger.known


def left_out(recipes: Sequence[Bound]) -> Iterator[EarlierRecipe]:
    """The recipes, in order, with tables that a later one leaves out, and up to where each is in force.

    >>> first = BoundRecipe({"a": {"topic": "a"}, "b": {"topic": "b"}}).text()
    >>> found = left_out([Bound(0, 0, first), Bound(1, 70, BoundRecipe({"a": {"topic": "a"}}).text())])
    >>> [(sorted(one.tables), one.until) for one in found]
    [(['b'], 70)]
    """
    parsed = [BoundRecipe.parse(one.text) for one in recipes]
    leaving = [frozenset(one.tables) - frozenset(two.tables) for one, two in pairwise(parsed)]
    for at, (recipe, following) in enumerate(zip(parsed, recipes[1:])):
        tables = frozenset(recipe.tables).intersection(frozenset().union(*leaving[at:]))
        if tables:
            yield EarlierRecipe(recipe, tables, following.since)


def bring_up(binder: Binder, logs: CaptureLogs, remark: Callable[[str], object]) -> None:
    """Carry on what the recipes before ``binder``'s leave to be written, where tables of theirs were left out.

    What can no longer be written, because a topic or records of the remap are missing, is reported by ``remark``, and
    the others go on without it. Raises errors of logs and topics that may answer later, and RefusedError for a log in a
    topic that needs its row type to be given. Cost: the logs of those recipes are read.
    """
    for left in left_out(binder.recipes):
        failpoints.reach(IN_FORCE)
        for name in sorted(left.tables) if left.recipe.mapping == MAPPING else ():
            logs.demand_kind(name, left.recipe.tables[name], left.until)
        there = {name: kind for name, of in left.recipe.tables.items() if (kind := logs.kind(name, of)) is not None}
        if not left.tables & there.keys():
            continue
        try:
            _carry(left, there, logs, binder)
        except _LOST as lost:
            names = ", ".join(sorted(left.tables))
            remark(f"the log of {names}, left out from the time {left.until} on, may end before that: {lost}")
            with suppress(*_LOST):
                # A capture that goes on with the others reports their errors.
                _carry(left, {name: kind for name, kind in there.items() if name not in left.tables}, logs, binder)
        failpoints.reach(BROUGHT)


def _carry(left: EarlierRecipe, kinds: Mapping[str, RowType], logs: CaptureLogs, binder: Binder) -> None:
    """Write what was bound under the recipe that was left, in those of its logs of which the row types are given."""
    if left.recipe.mapping != MAPPING:
        raise RefusedError("an earlier version of cdcv2 has begun it, whose captures write it")
    asked, until, before = _request(left, kinds), Antichain([left.until]), binder.under(left.recipe)
    if not asked.topics:
        return
    ranges = logs.ranges(asked)
    with ExitStack() as opened:
        made, _ = remap_outputs(asked, logs.address, logs.opened, opened)
        before.begin(ranges.look())
        capture = SharedCapture(before, ranges, made, at_most=logs.at_most)
        opened.callback(capture.close)
        if not capture.frontier.dominates(until):
            capture.look()
        while not capture.frontier.dominates(until):
            capture.carry()


def _request(left: EarlierRecipe, kinds: Mapping[str, RowType]) -> CaptureRequest:
    """What the recipe asked for, as far as row types are given; of a database all of it, or nothing."""
    tables = left.recipe.tables
    plain = {name: (str(tables[name]["topic"]), kind) for name, kind in kinds.items() if "topic" in tables[name]}
    databases: dict[str, tuple[DatabaseConnector, dict[str, str]]] = {}
    ordering = COMMIT_ORDER
    for prefix, options in left.recipe.databases.items():
        names = {str(of["table"]): name for name, of in tables.items() if of.get("database") == prefix}
        if kinds.keys() >= set(names.values()):
            databases[prefix] = database_kind(options.get("kind")).connector(
                prefix, {table: kinds[name] for table, name in names.items()}, snapshot=options["snapshot"],
                notification_topic=options["notifications"], transaction_topic=options["transactions"],
                full_identity=frozenset(options["full_identity"]), before=options.get("before", FROM_ENVELOPE),
                empty=frozenset(options.get("empty", ())),
            ), names
            ordering = options["ordering"]
        elif left.tables.intersection(names.values()) & kinds.keys():
            lost = min(set(names.values()) - kinds.keys())
            raise MissingLogError(f"the log of {lost} is not there, and transactions are written into all logs or none")
    return CaptureRequest(plain, databases, ordering)
