"""Reads the logs of the indexes of an instance into it, as far as they are finished."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from cdcv2.core.antichain import Antichain
from cdcv2.errors import RefusedError
from cdcv2.instances.arrangement import TableForm
from cdcv2.instances.commands import Answer, CreateIndex, IndexedTable
from cdcv2.instances.instance import IndexInstance
from cdcv2.instances.run.forms import form_of, indexed_table
from cdcv2.logs.named_logs import NamedLog, some_covered
from cdcv2.logs.read import LogReader, NullObserver
from cdcv2.protocol.log import Entry
from cdcv2.protocol.timeline import Cut

#: Seconds for which what is finished is put together.
_MOMENT = 0.01


class IndexSource:
    """One instance, and its logs of one timeline: :meth:`read` gives it what is finished next.

    Each index is read from the beginning of its logs, by itself: one that is created later, or replaced, begins again.
    ``follow``: the logs do not end. ``withhold``: nothing is responded of an index before it has what was finished in
    its logs when it began to read them. ``seen`` is given each message. Nothing is kept of the logs but what the
    instance holds. Cost: that of the readers.
    """

    def __init__(
        self, logs: Sequence[NamedLog], *, follow: bool = False, withhold: bool = False,
        seen: Callable[[Entry], object] | None = None,
    ) -> None:
        self._logs, self._follow, self._withhold = logs, follow, withhold
        self._observer = NullObserver() if seen is None else _SeenMessages(seen)
        self._types = {named.table: named.row_type for named in logs}
        #: What the commands of a controller are given to.
        self.instance = IndexInstance(self._form_of, self._is_read)
        # Index -> the command that it was made by, its cuts, and how far they were given.
        self._readers: dict[str, _IndexReader] = {}

    def table(self, name: str, key: Sequence[str]) -> IndexedTable:
        """A table for a CreateIndex, by these columns. Raises UsageError, and RefusedError without an identity."""
        return indexed_table(self._logs, name, key)

    def read(self) -> tuple[list[Answer], bool]:
        """Give each index its next finished cut. Returns the responses, and whether one of them had any.

        Raises RefusedError for an index of other logs than these, and what reading the logs raises.
        """
        answers: list[Answer] = []
        moved = False
        for name, command in self.instance.indexes.items():
            reader = self._reader(name, command)
            cut = reader.following()
            if cut is not None:
                moved = True
                answers += self.instance.apply(name, cut.updates, cut.upper)
            if not reader.is_read and reader.reading.caught_up:
                reader.is_read = True
                answers += self.instance.report(name)
        self._readers = {name: one for name, one in self._readers.items() if name in self.instance.indexes}
        return answers, moved

    @property
    def caught_up(self) -> bool:
        """Whether each index has all that was finished in its logs when it began to read them. For logs that go on."""
        readers = [self._readers.get(name) for name in self.instance.indexes]
        return all(reader is not None and reader.reading.caught_up for reader in readers)

    def _is_read(self, name: str) -> bool:
        """Whether an index may respond."""
        return not self._withhold or name in self._readers and self._readers[name].is_read

    def _reader(self, name: str, command: CreateIndex) -> _IndexReader:
        reader = self._readers.get(name)
        if reader is None or reader.tables != command.tables or reader.upper != self.instance.upper(name):
            # There is none, or the index was made again since it was read.
            reader = self._readers[name] = _IndexReader(self._reading(command), command.tables)
        return reader

    def _reading(self, command: CreateIndex) -> LogReader:
        names = {table.name for table in command.tables}
        for table in command.tables:
            there = self.table(table.name, table.key)
            if there != table:
                raise RefusedError(
                    f"the index {command.id} is of the log {table.log} of {table.name}, and {there.log} is here: give "
                    "the instance its logs, or create the index of these"
                )
        found = some_covered([one for one in self._logs if one.table in names])
        return LogReader(found, follow=self._follow, catch_up=self._follow, observer=self._observer)

    def _form_of(self, table: IndexedTable) -> TableForm:
        return form_of(self._types[table.name], table.key)

    def close(self) -> None:
        """Close the logs."""
        for named in self._logs:
            named.log.close()


class _SeenMessages(NullObserver):
    """Gives on each message that is read."""

    def __init__(self, seen: Callable[[Entry], object]) -> None:
        self._seen = seen

    def read(self, named: NamedLog, entry: Entry | None) -> None:
        if entry is not None:
            self._seen(entry)


class _IndexReader:
    """The cuts of an index, and the upper of the last one. What is finished already is one cut, however many it was."""

    def __init__(self, reading: LogReader, tables: Sequence[IndexedTable]) -> None:
        self.reading, self.tables, self._cuts = reading, tables, reading.cuts()
        self.upper = Antichain([0])
        #: Whether it has stated that all that was finished at first was given out.
        self.is_read = False

    def following(self) -> Cut | None:
        """What is finished next; None where nothing is there now, or nothing more comes.

        It ends where a log has nothing now, and after a moment, so that others get their turn.
        """
        end = time.monotonic() + _MOMENT
        whole: Cut | None = None
        while (cut := next(self._cuts, None)) is not None:
            if whole is None:
                whole = cut
            else:
                for table, updates in cut.updates.items():
                    whole.updates.setdefault(table, []).extend(updates)
            self.upper = cut.upper
            if time.monotonic() >= end:
                break
        return None if whole is None else replace(whole, upper=self.upper)
