"""Topics: known by Kafka's own id of them, so that one that was made again under the same name is another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from cdcv2 import failpoints
from cdcv2.control.entries import Answer, CatalogueEntry, ExternalObject, Look, NoAnswer, Reason
from cdcv2.errors import Cdcv2Error, MissingLogError, RefusedError, UnavailableError
from cdcv2.logs.kafka_topics import create_topic, describe
from cdcv2.store.kafka_client import Client

BEFORE_DELETE = failpoints.declare("external.topic-found", "a topic of ours is about to be deleted")
#: Settings that are not Kafka's settings of a topic.
_PARTITIONS, _REPLICATION = _OWN = "partitions", "replication"


class TopicKind:
    """Topics that keep all that is written to them. Settings: ``partitions``, and Kafka's own, as texts.

    The setting ``replication`` is for the making: how many replicas; without it as many as the cluster gives.
    ``clients``: address -> client of the cluster.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        self._clients = clients

    def look(self, entry: CatalogueEntry) -> Look:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        client = self._client(entry)
        if client is None:
            return _undeclared(entry)
        try:
            cluster = cluster_id(client)
            try:
                return Answer(cluster, _found(client, entry))
            except MissingLogError:
                return Answer(cluster, None)
        except Cdcv2Error as error:
            return _no_answer(error)

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`. Where one is there already, the next look judges it."""
        settings = {name: str(value) for name, value in entry.settings.items() if name not in _OWN}
        return self._do(entry, lambda client: create_topic(
            client, entry.name, partitions=int(entry.settings.get(_PARTITIONS, 1)),
            replication=entry.settings.get(_REPLICATION), settings=settings, fresh=True,
        ))  # fmt: skip

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`. Partitions stay as many as they are."""
        return self._do(entry, lambda client: _configure(client, entry))

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        return self._do(entry, lambda client: _delete(client, entry))

    def _client(self, entry: CatalogueEntry) -> Client | None:
        """That of its cluster; where the file has another address by now, the one that leads to the same cluster."""
        found = self._clients.get(entry.address)
        if found is None and entry.server is not None:
            for client in self._clients.values():
                with suppress(Cdcv2Error):
                    if cluster_id(client) == entry.server:
                        return client
        return found

    def _do(self, entry: CatalogueEntry, work: Any) -> NoAnswer | None:
        client = self._client(entry)
        if client is None:
            return _undeclared(entry)
        try:
            work(client)
        except Cdcv2Error as error:
            return _no_answer(error)
        return None


def cluster_id(client: Client) -> str:
    """Kafka's identity of the cluster. Raises UnavailableError."""
    described = client.request(
        "the cluster", lambda: client.admin.describe_cluster(request_timeout=client.patience).result(client.patience)
    )
    return str(described.cluster_id)


def _found(client: Client, entry: CatalogueEntry) -> ExternalObject:
    identity, topic = client.topic_id(entry.name), describe(client, entry.name)
    # Settings that we may not read count as they should be: the same is so where a log is opened.
    known: Mapping[str, Any] = topic.settings or entry.settings
    settings = {name: known[name] for name in entry.settings if name in known}
    if _REPLICATION in entry.settings:
        # Those who run the cluster may move replicas.
        settings[_REPLICATION] = entry.settings[_REPLICATION]
    if _PARTITIONS in entry.settings:
        settings[_PARTITIONS] = len(topic.spans)
    empty = not any(high for _, high in topic.spans.values())
    # How many records there are changes all the time, and what is shown is shown when it is new.
    place = f"{len(topic.spans)} partitions {'without' if empty else 'with'} records"
    return ExternalObject(identity, empty=empty, settings=settings, place=place)


def _configure(client: Client, entry: CatalogueEntry) -> None:
    questions = client.questions
    operation = questions.AlterConfigOpType.SET
    changes = [
        questions.ConfigEntry(name, str(value), incremental_operation=operation)
        for name, value in entry.settings.items() if name not in _OWN
    ]
    resource = questions.ConfigResource(questions.ConfigResource.Type.TOPIC, entry.name, incremental_configs=changes)
    client.request(
        f"settings of topic {entry.name!r}",
        lambda: client.admin.incremental_alter_configs([resource])[resource].result(client.patience),
    )


def _delete(client: Client, entry: CatalogueEntry) -> None:
    try:
        if client.topic_id(entry.name) != entry.identity:
            return
        failpoints.reach(BEFORE_DELETE)
        client.request(
            f"topic {entry.name!r}",
            lambda: client.admin.delete_topics([entry.name], request_timeout=client.patience)[entry.name].result(
                client.patience
            ),
        )
    except MissingLogError:
        return


def _undeclared(entry: CatalogueEntry) -> NoAnswer:
    text = f"no cluster {entry.address} is declared any more: declare it until {entry.shown} is removed"
    return NoAnswer(Reason.UNREACHABLE, text)


def _no_answer(error: Cdcv2Error) -> NoAnswer:
    if isinstance(error, RefusedError):
        return NoAnswer(Reason.BUSY, str(error))
    forbidden = isinstance(error, UnavailableError) and error.forbidden
    return NoAnswer(Reason.DENIED if forbidden else Reason.UNREACHABLE, str(error))
