"""A materialization as in its file: logs, bindings, target; and whether these go on with what is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from cdcv2.completeness import through_text
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.core.antichain import Antichain
from cdcv2.errors import IncompleteError, UsageError
from cdcv2.logs.description import description_of, known_by
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.timeline_of_logs import FIELD
from cdcv2.logs.named_logs import NamedLog, check_timeline, demand_ordered
from cdcv2.materialize import Driver, RecoveryLog, ViewBinding
from cdcv2.materialize.protocol.fence import Holding, Range
from cdcv2.materialize.protocol.messages import Checkpoint, Key, Open, Table, Values
from cdcv2.materialize.recovery_log import after_start
from cdcv2.materialize.targets.manifests import Manifests
from cdcv2.protocol.missing import MissingUpdates
from cdcv2.views.identity import Provenance, demand_provenance, demand_same


class TargetContent(Protocol):
    """What a reader sees in a target, at one commit."""

    @property
    def frontier(self) -> Antichain:
        """Everything not beyond it is there."""

    def rows(self, table: str) -> Iterable[tuple[Key, Values]]:
        """A table's keys and values."""

    def stored_table(self, table: Table) -> Table:
        """The table with its columns in the types that they have there, by which its values are equal or not.

        A ``multiset`` only where it is kept without the digests of its rows: the key in ``rows`` is the row then.
        """

    def close(self) -> None:
        """Leave."""


@dataclass(frozen=True)
class MaterializationPlan:
    """The content of a file, with its logs opened; ``driver``, ``view`` and ``recovery`` are made when they are called.

    ``kafka``: where the logs' topics are, as address and as file of settings. ``timeline``: that of logs which do not
    state it. ``lines``: the target (None) and each binding (by its target) as they stand in the file. ``staging``: the
    folder of a driver that stages files. ``store``: what a store that keeps the checkpoint itself has committed.
    ``quarantine``: the folder of decisions about contradictions in the logs; None: the file names none.
    """

    name: str
    logs: list[NamedLog]
    bindings: list[ViewBinding]
    driver: Callable[[], Driver]
    view: Callable[[], TargetContent]
    recovery: Callable[[], RecoveryLog | None]
    rows: int
    start: int
    kafka: tuple[str | None, Path | None] = (None, None)
    timeline: str | None = None
    lines: Mapping[str | None, YamlNode] = field(default_factory=dict)
    staging: Callable[[], Manifests[Any]] | None = None
    store: Callable[[], list[Holding]] = list
    quarantine: Path | None = None

    def provenance(self) -> Provenance:
        """Timeline and identities of the logs, whose transactions are in the order of commits.

        Asked again once there is something to commit, as a topic without messages states nothing. Raises RefusedError.
        """
        demand_ordered(self.logs, "a view of")
        return provenance_of(self.logs, check_timeline(self.logs, self.timeline, naming=FIELD))

    def demand_made_of(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Raise ForeignStateError unless the logs, if they have anything, are those that the checkpoints are of."""
        if any(any(named.log.ends().values()) for named in self.logs):
            now = self.provenance()
            for checkpoint in checkpoints:
                demand_provenance(self.name, now, checkpoint)

    def demand_own(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Raise ForeignStateError or RefusedError unless checkpoints and target are of this name, views and logs.

        Nothing is changed.
        """
        found = list(checkpoints)
        for checkpoint in found:
            demand_same(self.name, self.bindings, checkpoint)
        self.demand_made_of(found)
        folder = self.staging() if self.staging is not None else None
        manifest = folder.last()[1] if folder is not None else None
        if folder is not None and manifest is not None:
            folder.demand_own(manifest, self.name, [binding.view().table for binding in self.bindings])

    def own_view(self) -> TargetContent:
        """The target, to be read beside the logs. Raises what :meth:`demand_own` does of what was committed last."""
        self.demand_own(Checkpoint.from_plain(one.value["checkpoint"]) for one in self._holdings())
        return self.view()

    def demand_continued(self) -> None:
        """Raise what resuming from the checkpoint would raise, as far as reading shows it.

        Nothing is changed, and no instance fenced off: so a running instance goes on when another one is refused. An
        instance that has taken over asks again, as another may have committed meanwhile.
        """
        self._committed(self.demand_own)

    def found(self) -> Antichain:
        """Up to where the target has the views, as it is now. Raises RefusedError where it lost a commit."""
        return self._committed(lambda checkpoints: None).frontier

    def _committed(self, demand: Callable[[list[Checkpoint]], None]) -> Checkpoint:
        """The checkpoint, which ``demand`` has looked at, and which the folder of the target goes with."""
        folder = self.staging() if self.staging is not None else None
        # Before the holdings: what a manifest has applied was committed before it.
        manifest = folder.last()[1] if folder is not None else None
        start = Antichain([self.start])
        _, _, found = after_start(self._holdings(), Range(), start)
        demand([found.checkpoint])
        if folder is not None and manifest is not None:
            tables = tuple(binding.view().table for binding in self.bindings)
            folder.demand_same(manifest, Open(self.name, tables, start=start, pieces=found.pieces))
        if folder is not None and "manifest" in found.state:
            # And behind them: what they name was put before them.
            folder.demand_there(folder.last()[0], found.state)
        if folder is not None:
            folder.demand_files()
        return found.checkpoint

    def _holdings(self) -> list[Holding]:
        log = self.recovery()
        if log is None:
            return self.store()
        with closing(log):
            return log.holdings()

    @staticmethod
    def demand_reached(
        frontier: Antichain, logs: Antichain, lacks: Mapping[str, MissingUpdates] = MappingProxyType({})
    ) -> None:
        """Raise IncompleteError unless the logs, complete up to ``logs``, are so up to where the target is.

        ``lacks``: log -> what of it is stated, and is not there.
        """
        if not logs.dominates(frontier):
            missing = "; ".join(f"{table}: {one}" for table, one in lacks.items())
            raise IncompleteError(
                f"the target is {through_text(frontier)}, and its logs {through_text(logs)}"
                f"{f' ({missing})' if missing else ''}: these are not the logs that it was made of, or they lost "
                "something"
            )

    @contextmanager
    def errors_at_line(self) -> Iterator[None]:
        """An error of a driver about a view or its settings is reported with the line of that."""
        try:
            yield
        except UsageError as cause:
            reason = str(cause)
            found = next((part for target, part in self.lines.items() if target and _names(reason, target)), None)
            (found or self.lines[None]).fail(reason)


def provenance_of(logs: Iterable[NamedLog], timeline: str | None) -> Provenance:
    """What is made of these logs of a timeline is made of."""
    identities = dict[str, list[str]]()
    for named in logs:
        stated = description_of(named.log)
        name = stated.table if isinstance(named.log, DirectoryLog) else named.log.name
        identities.setdefault(named.table, []).extend(known_by(stated, name))
    return Provenance(timeline, identities)


def _names(reason: str, target: str) -> bool:
    """Errors of one table begin with its name."""
    return reason.startswith((f"{target}: ", f"{target!r} "))
