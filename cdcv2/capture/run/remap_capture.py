"""A capture on a shared remap, from its arguments to its end: what is looked at, made and written, in one order.

The command and the job on Spark open the remap and the logs, and carry records, each in its own way: that is their
:class:`RemapStores`. What is refused before anything is made, and what is made then, is the same for both, and here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from cdcv2.capture.binder import Binder
from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.empty_directory import clear_empty
from cdcv2.capture.run.folder_lock import FolderInUse
from cdcv2.capture.run.omitted_tables import CaptureLogs, bring_up, check_left_out
from cdcv2.capture.run.on_remap import SharedCapture
from cdcv2.capture.run.recipe_check import DatabaseLogs, check_first, check_fresh, check_there
from cdcv2.capture.run.remap_loop import RunOptions, RunResult, begin_when_there, carry_on
from cdcv2.capture.run.request import CaptureRequest, temp_name, together
from cdcv2.capture.run.timeline_manifest import check_timeline, write_timeline
from cdcv2.capture.topics import Ranges, TopicExtents
from cdcv2.capture.topics_check import check_meet
from cdcv2.errors import MissingLogError
from cdcv2.logs.capture_manifest import CAPTURE_FILE, log_set_in
from cdcv2.logs.description import LogDescription
from cdcv2.logs.log_json import in_directories, kept_types
from cdcv2.logs.timeline_of_logs import describe_log_set
from cdcv2.protocol.log import Log
from cdcv2.rows.row_type import RowType
from cdcv2.store.file_system import is_there
from cdcv2.timeline.minting import RemapLog
from cdcv2.timeline.ordering import COMMIT_ORDER

#: Given the logs by name: they are described as the log set of the remap, and so the binder's; what they state then.
DescribeLogs: TypeAlias = Callable[[Mapping[str, Log]], LogDescription]


@dataclass(frozen=True)
class CaptureTopics:
    """The topics of a capture: dumped ones, which are ``held``, or else those of a cluster, which ``client`` reaches.

    ``called`` names in messages where they are.
    """

    held: Ranges | None
    client: Callable[[], Any]
    called: str

    def ranges(self, request: CaptureRequest) -> Ranges:
        """Those that are asked for; all of a dump. Raises what reaching the cluster raises."""
        if self.held is not None:
            return self.held
        from cdcv2.connectors.kafka_ranges import KafkaRanges

        return KafkaRanges(self.client(), request.topics, single=request.single)

    def names(self, recipe: DatabaseConnector) -> Collection[str]:
        """All topics that there are. Raises what asking the cluster raises."""
        if self.held is not None:
            return self.held.look().topics
        from cdcv2.connectors.kafka_topics import KafkaTopics

        return KafkaTopics(self.client(), recipe).topics()


class RemapStores(Protocol):
    """The remap and the logs of a capture, and who writes them: the command, or the job on Spark."""

    def remap(self, *, create: bool = False) -> RemapLog:
        """The remap; with ``create`` it is made. Raises MissingLogError where it is not there, and what opening raises.
        """

    def log(self, name: str, row_type: RowType) -> Log:
        """The log of this name. Raises MissingLogError where it is not there, and what opening raises."""

    def capture(
        self, binder: Binder, ranges: Ranges, description: LogDescription, describe: DescribeLogs, opened: ExitStack
    ) -> SharedCapture:
        """The capture with its logs, which are made with the description if they are not there; ``opened`` closes them.

        The capture calls ``describe`` as its ``own``. Raises what opening logs and the capture raise.
        """

    def report(self, what: str, text: str) -> None:
        """Report something to people; ``what`` names its kind."""


def run_remap_capture(
    run: RunOptions, topics: CaptureTopics, stores: RemapStores, *, stopping: Callable[[], bool],
    turn: Callable[[SharedCapture, Binder, TopicExtents], object] = lambda capture, binder, look: None,
) -> RunResult | None:
    """Capture until what the topics hold is written, or ``stopping``; None if it was stopped while it could not go on.

    See :func:`~cdcv2.capture.run.remap_loop.carry_on`. Raises what that, the topics and the stores raise.
    """
    at_work, waiting = _RemapCapture(run, topics, stores), partial(stores.report, "waiting")
    for recipe, _ in run.request.databases.values():
        check_meet(recipe, topics.names(recipe), follow=run.follow, remark=waiting)
    begun = begin_when_there(run, at_work.remap, at_work.ranges.look, stopping=stopping, remark=waiting)
    if begun is None:
        return None
    log, look = begun
    return carry_on(
        run, log, look, at_work.opened, check=partial(at_work.check_proposed, look=look), stopping=stopping,
        remark=waiting, turn=turn,
    )


class _RemapCapture:
    """One that is at work: the steps that :func:`run_remap_capture` takes."""

    def __init__(self, run: RunOptions, topics: CaptureTopics, stores: RemapStores) -> None:
        self._run, self._topics, self._stores = run, topics, stores
        self.ranges = topics.ranges(run.request)
        self._folder = together(run.logs)

    def remap(self, look: TopicExtents) -> RemapLog:
        """The remap, which is made if it is not there; not for topics that are not or do not fit: it would stay.

        One that others made, and that has nothing yet, counts as one that is not there. Raises MissingLogError for a
        remap or a topic that is not there.
        """
        missing = sorted(self._run.request.needed - look.topics)
        there: RemapLog | None = None
        try:
            there = self._stores.remap()
            if self._run.create or there.read(0).records:
                return there
            raise MissingLogError("it has no record yet")
        except MissingLogError:
            if not self._run.create and there is None:
                raise
            if not missing:
                check_first(self._run.request, look, self.ranges)
                return there or self._stores.remap(create=True)
            raise MissingLogError(
                f"there is no topic {missing[0]!r} in {self._topics.called}: its name is wrong, or it was never "
                "written"
            ) from None

    def check_proposed(self, binder: Binder, look: TopicExtents) -> None:
        """Raise an error unless the recipe can be continued, as far as that can be seen before it is proposed."""
        check_left_out(binder, self._left_out)
        self._check_logs(binder)
        check_fresh(binder, self._run.request, look, self.ranges, at_first=self._run.at_first)

    def _check_logs(self, binder: Binder) -> None:
        """Raise an error unless the logs that are there can be continued. Makes none."""
        request = self._run.request
        if self._folder is not None:
            check_timeline(self._folder, str(binder.bound.timeline))

        def there(name: str, row_type: RowType) -> Callable[[], Log]:
            return partial(self._stores.log, name, row_type)

        check_there(binder, [(table, there(table, kind)) for table, (_, kind) in request.plain.items()], [
            DatabaseLogs(
                names, {table: there(names[table], kind) for table, kind in recipe.tables.items()},
                there(temp_name(self._run.logs, prefix), TEMP), recipe.snapshot == "initial",
            )
            for prefix, (recipe, names) in request.databases.items()
        ])

    @property
    def _left_out(self) -> CaptureLogs:
        """The logs of tables that are left out, where they are."""
        run = self._run
        return CaptureLogs(run.logs, run.rows, self._stores.log, self._topics.ranges, run.at_most)

    @contextmanager
    def opened(self, binder: Binder) -> Iterator[SharedCapture]:
        """The capture with its logs. What is refused comes before what stays for ever, and all is closed."""
        run, report = self._run, self._stores.report
        timeline, rows = str(binder.recipe.timeline), run.request.logs(run.logs)
        with ExitStack() as opened:
            if self._folder is not None:
                used = opened.enter_context(FolderInUse(self._folder))
                clear_empty(used, {"timeline": timeline}, rows)
            bring_up(binder, self._left_out, partial(report, "left out"))
            unnoted = self._folder is not None and not is_there(self._folder / CAPTURE_FILE)
            if unnoted or run.request.ordering != COMMIT_ORDER:
                # A note, and a mark that a log is in no order, stay for ever: the logs of others get none.
                self._check_logs(binder)
            if self._folder is not None:
                write_timeline(self._folder, timeline, run.request.recipe.tables, ordering=run.request.ordering)
            capture = self._stores.capture(
                binder, self.ranges, LogDescription(run.request.ordering), partial(self._describe, binder), opened
            )
            opened.callback(capture.close)
            for text in kept_types(in_directories(run.logs, rows)):
                report("kept-types", text)
            yield capture

    def _describe(self, binder: Binder, logs: Mapping[str, Log]) -> LogDescription:
        """Have the logs state that they are of the remap's timeline, and of one log set, by which it is held."""
        whole = describe_log_set(logs, replace(log_set_in(self._folder), timeline=binder.recipe.timeline))
        binder.of_log_set(whole.log_set)
        return whole
