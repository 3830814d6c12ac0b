"""A look at all that a pipeline's rows pass: databases, connectors, topics and targets. Quick, and nothing is changed.

First databases, connectors and targets, all at once; then the transaction topics, about frontiers of logs and of what
targets have answered. Where only its connector can know that a topic has all commits, it is given a second or two to
confirm them, and the topic is asked again behind that. Each question has a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, NamedTuple

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.connectors.debezium.config import slot_name
from cdcv2.connectors.transaction_ends import TransactionEnd, TransactionEnds
from cdcv2.control.database_probe import confirmed_slot, first_commit_after, observe_database
from cdcv2.control.observations import (
    MISSING, ConnectorObservation, DatabaseObservation, SlotObservation, TopicObservation,
)
from cdcv2.control.parallel_requests import NOT_ASKED, Reply, ask_all
from cdcv2.control.pipeline import CaptureFields, Pipeline, SourceFields
from cdcv2.control.pipeline_check import recipes_of
from cdcv2.control.seconds_behind import has_ended
from cdcv2.control.view_checkpoint import checkpoint_of, timeline_of
from cdcv2.errors import MissingLogError, UnavailableError, UsageError
from cdcv2.events import shown
from cdcv2.store.connect_client import ConnectClient
from cdcv2.store.kafka_client import Client

#: Seconds that each of the two rounds of questions has, and one answer of Connect or Kafka.
ROUND, PATIENCE = 6.0, 4.0


class SourceObservation(NamedTuple):
    """What was seen of a source: its database and its connector."""

    database: Reply = NOT_ASKED
    connector: Reply = NOT_ASKED


class PipelineObservation(NamedTuple):
    """What was seen of a pipeline.

    - ``sources``: source -> its database (:class:`~cdcv2.control.observations.DatabaseObservation`) and connector
      (:class:`~cdcv2.control.observations.ConnectorObservation`).
    - ``targets``: view -> the frontier of its checkpoint, plain; None: it has none yet.
    - ``topics``: capture -> its transaction topic, a function of frontiers (:class:`TopicEnds`).
    """

    sources: Mapping[str, SourceObservation]
    targets: Mapping[str, Reply]
    topics: Mapping[str, Reply]


class TopicEnds(NamedTuple):
    """A transaction topic: name, end, last END, and the first END beyond each of some frontiers."""

    name: str
    end: int
    last: TransactionEnd | None
    beyond: Mapping[int, TransactionEnd | None]

    def observation(self, frontier: int) -> TopicObservation | None:
        """As a copy with this frontier sees it; None: this frontier was not asked about."""
        if frontier not in self.beyond:
            return None
        return TopicObservation(self.name, self.end, self.last, self.beyond[frontier])


def look(
    pipeline: Pipeline, frontiers: Callable[[Mapping[str, Reply]], Mapping[str, Iterable[int]]]
) -> PipelineObservation:
    """Look once. ``frontiers`` gives for captures those of their logs and targets, from what targets have answered."""
    first: dict[tuple[str, str], Callable[[], Any]] = {}
    for source in pipeline.sources.values():
        if source.postgres is not None:
            first["database", source.name] = _database(source)
        if source.connector is not None and source.connector.url is not None:
            first["connector", source.name] = _connector(source)
    for view in pipeline.readers.values():
        first["target", view.name] = lambda view=view: checkpoint_of(  # type: ignore[misc]
            view, timeline_of(pipeline, view))
    answers = ask_all(first, ROUND)
    targets = {name: answers["target", name] for name in pipeline.readers}
    of_interest = frontiers(targets)
    second = {
        capture.name: _topic(pipeline, recipe, of_interest.get(capture.name, ()))
        for capture in pipeline.captures.values() for recipe in _topic_recipe(capture)
    }
    topics = ask_all(second, ROUND)
    sources = {
        name: SourceObservation(*(answers.get((what, name), NOT_ASKED) for what in ("database", "connector")))
        for name in pipeline.sources
    }
    doubted = _doubted(pipeline, sources, topics)
    slots = ask_all({source.name: _confirmed(source, sources[source.name]) for source in doubted.values()}, ROUND)
    for name, slot in slots.items():
        if slot.error is None:
            database = sources[name].database.value._replace(slot=slot.value)
            sources[name] = sources[name]._replace(database=Reply(database))
    # Behind the slot: what was confirmed in between was not in the topic yet.
    topics.update(ask_all({name: second[name] for name in doubted}, ROUND))
    return PipelineObservation(_with_first_commits(pipeline, sources, topics), targets, topics)


def _database(source: SourceFields) -> Callable[[], DatabaseObservation]:
    def question() -> DatabaseObservation:
        return observe_database(source.conninfo() or "", slot_of(source), origin=_origin(source))

    return question


def _doubted(
    pipeline: Pipeline, sources: Mapping[str, SourceObservation], topics: Mapping[str, Reply]
) -> dict[str, SourceFields]:
    """The captures whose topic has no END that a copy lacks, though it may lack commits; and the source of each."""
    found = {}
    for capture in pipeline.captures.values():
        source, ends = capture.source, topics.get(capture.name, NOT_ASKED).value
        database = None if source is None else sources[source.name].database.value
        if source is None or ends is None or database is None or None not in ends.beyond.values():
            continue
        if database.read_slot is not None and not has_ended(database, ends.last):
            found[capture.name] = source
    return found


def _confirmed(source: SourceFields, view: SourceObservation) -> Callable[[], SlotObservation | None]:
    position = view.database.value.position

    def question() -> SlotObservation | None:
        return confirmed_slot(source.conninfo() or "", slot_of(source), position, origin=_origin(source))

    return question


def slot_of(source: SourceFields) -> str:
    """The name of its replication slot."""
    return source.slot.name or slot_name(source.prefix)


def _origin(source: SourceFields) -> str:
    return f"the conninfo of the source {source.name}"


def _connector(source: SourceFields) -> Callable[[], ConnectorObservation]:
    connector = source.connector
    if connector is None or connector.url is None:
        raise UsageError(f"the source {source.name} names no connector with an url")
    name, url, login = connector.name, connector.url, connector.login

    def question() -> ConnectorObservation:
        status = ConnectClient(url, login, patience=PATIENCE).status(name)
        if status is None:
            return ConnectorObservation(name, MISSING)
        return connector_observation(name, url, status)

    return question


def connector_observation(name: str, url: str, status: object) -> ConnectorObservation:
    """What Connect states of a connector. Raises UnavailableError for an answer in another form than Connect's."""
    whole = status if isinstance(status, dict) else {}
    connector, tasks = whole.get("connector"), whole.get("tasks")
    parts = [connector, *tasks] if isinstance(tasks, list) else []
    if not parts or not all(isinstance(one, dict) and isinstance(one.get("state"), str) for one in parts):
        raise UnavailableError(
            f"{url} does not state the connector {name} as Kafka Connect does: see what answers there, and correct its "
            f"address"
        )
    reasons = (shown(_cause(str(one.get("trace", "")))) for one in parts if one["state"] == "FAILED")
    return ConnectorObservation(name, parts[0]["state"], tuple(one["state"] for one in parts[1:]), next(reasons, None))


def _cause(trace: str) -> str:
    """The line of a Java stack trace that states the cause: that of the innermost exception.

    >>> _cause("A: failed\\n\\tat x.y\\nCaused by: B: the disk is full\\n\\tat z")
    'B: the disk is full'
    """
    heads = [line for line in trace.splitlines() if line and not line[0].isspace()]
    return heads[-1].removeprefix("Caused by: ") if heads else ""


def sent_through(pipeline: Pipeline, job: str, confirmed: int) -> int | None:
    """The highest LSN in the transaction topics of a capture, of the ENDs that were written since one was confirmed.

    None: there is no END, or it is no capture that reads topics of a database. Raises UnavailableError, UsageError.
    """
    capture, found = pipeline.captures.get(job), list[int]()
    for recipe in [] if capture is None or "from" in capture.options else recipes_of(capture):
        if capture is not None and capture.source is not None and recipe.prefix != capture.source.prefix:
            continue
        bootstrap, config = pipeline.kafka
        try:
            with closing(TransactionEnds(Client(bootstrap, config, patience=PATIENCE), recipe)) as ends:
                highest = ends.highest(confirmed)
        except MissingLogError:
            # The first transaction makes it.
            continue
        found += [] if highest is None else [highest.lsn]
    return max(found, default=None)


def _topic_recipe(capture: CaptureFields) -> list[DatabaseConnector]:
    """The recipe of the one database that a capture reads from Kafka; empty where it is of none, or of several."""
    if "from" in capture.options:
        return []
    try:
        recipes = recipes_of(capture)
    except UsageError:
        return []
    return recipes if len(recipes) == 1 and capture.arguments.remap is None else []


def _topic(pipeline: Pipeline, recipe: DatabaseConnector, frontiers: Iterable[int]) -> Callable[[], TopicEnds]:
    bootstrap, config = pipeline.kafka

    def question() -> TopicEnds:
        with closing(TransactionEnds(Client(bootstrap, config, patience=PATIENCE), recipe)) as ends:
            beyond = {frontier: ends.beyond(frontier) for frontier in sorted(set(frontiers), reverse=True)}
            return TopicEnds(recipe.transaction_topic, ends.end, ends.last(), beyond)

    return question


def _with_first_commits(
    pipeline: Pipeline, sources: Mapping[str, SourceObservation], topics: Mapping[str, Reply]
) -> dict[str, SourceObservation]:
    """Where the server keeps commit times and its last transaction is not in the topic: the oldest commit behind it."""
    found = dict(sources)
    for capture in pipeline.captures.values():
        source = capture.source
        if source is None or topics.get(capture.name, NOT_ASKED).value is None:
            continue
        database, last = sources[source.name].database.value, topics[capture.name].value.last
        if database is None or database.last_tx is None or last is None or database.last_tx == last.tx:
            continue
        if database.slot is None or last.at is None:
            continue
        try:
            moment = first_commit_after(source.conninfo() or "", slot_of(source), last, origin=_origin(source))
        except UnavailableError:
            continue  # it answered a moment ago: without this, the bound is less close
        found[source.name] = found[source.name]._replace(database=Reply(database._replace(first_after=moment)))
    return found
