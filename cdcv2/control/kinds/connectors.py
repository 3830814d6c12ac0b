"""Connectors, through Kafka Connect's REST interface: known by a setting of our own in their configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeGuard

from cdcv2 import failpoints
from cdcv2.connectors.debezium.left_out import TABLES, less_sent, takes_snapshot
from cdcv2.control.entries import Answer, CatalogueEntry, ExternalObject, Look, NoAnswer, Reason
from cdcv2.control.external_state import lacks_mark
from cdcv2.control.kinds.marks import mark_of, read_mark
from cdcv2.errors import Cdcv2Error, RefusedError, UnavailableError, UsageError
from cdcv2.store.connect_client import ConnectClient, without_secrets

#: The setting that has the mark. Connect gives it to no one: a connector ignores what it does not know.
MARK = "cdcv2.entry"
#: A setting that a connector has while its tables are changed: it is stopped, or was resumed a moment ago.
CHANGING = "cdcv2.changing"
#: So many seconds after it was requested, a connector without recorded positions may still take its first snapshot.
UNRECORDED = 600.0
CHOSEN = failpoints.declare("external.connector-chosen", "a connector is marked, and not stopped yet, for other tables")
ALTERED = failpoints.declare("external.connector-altered", "a connector has other tables, and is still stopped")
RESUMED = failpoints.declare("external.connector-resumed", "a connector runs with other tables, and is still marked")
HALTED = failpoints.declare("external.connector-halted", "a connector is stopped, and its slot not removed")
BEFORE_DELETE = failpoints.declare("external.connector-found", "a connector of ours is about to be deleted")
STOPPED = failpoints.declare("external.connector-stopped", "a connector is stopped, without positions, and not deleted")


def no_secrets(entry: CatalogueEntry) -> Mapping[str, str]:
    """For connectors whose secrets are all references."""
    return {}


class ConnectorKind:
    """Connectors. Settings: the configuration, without secrets in clear text.

    ``clients``: address -> client. ``secrets``: the settings of an entry that are in no catalogue. ``clock``: epoch
    seconds.
    """

    def __init__(
        self,
        clients: Mapping[str, ConnectClient],
        secrets: Callable[[CatalogueEntry], Mapping[str, str]] = no_secrets,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._clients, self._secrets, self._clock = clients, secrets, clock

    def look(self, entry: CatalogueEntry) -> Look:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""
        found: list[Answer] = []

        def look(client: ConnectClient) -> None:
            server, config = client.cluster_id(), client.config(entry.name)
            found.append(Answer(server, None if config is None else _object_of(config)))

        return self._do(entry, look) or found[0]

    def make(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""

        def make(client: ConnectClient) -> None:
            if not client.create(entry.name, self._config(entry)):
                raise RefusedError(f"{entry.shown} is there already")

        return self._do(entry, make)

    def alter(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`.

        Other tables are read from the moment on in which this is done: no task with the old ones runs any more. Such a
        task would pass by changes of a table that comes into the publication.
        """

        def alter(client: ConnectClient) -> None:
            there, wanted = client.config(entry.name), self._config(entry)
            if there is None or not (_has_mark(there, entry) or lacks_mark(entry, _object_of(there))):
                return
            # Or a task that was made to send less would go on until Connect has ended it.
            if CHANGING not in there and self._takes_first_snapshot(client, entry, there):
                raise RefusedError(
                    f"{entry.shown} takes its first snapshot: it is altered afterwards, or it would begin that again, "
                    "and its capture could not continue"
                )
            others = there.get(TABLES) != wanted.get(TABLES) or bool(less_sent(wanted, there))
            if others:
                if CHANGING not in there:
                    # First: whatever the file has next, what was stopped here is resumed.
                    client.alter(entry.name, {**there, MARK: wanted[MARK], CHANGING: "yes"})
                    failpoints.reach(CHOSEN)
                # Busy, and done again, as long as a task still ends.
                client.stop(entry.name)
                client.alter(entry.name, {**wanted, CHANGING: "yes"})
                failpoints.reach(ALTERED)
            if others or CHANGING in there:
                client.resume(entry.name)
                failpoints.reach(RESUMED)
            client.alter(entry.name, wanted)

        return self._do(entry, alter)

    def stop(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalMaker`. Done when Connect names no task of it any more."""

        def stop(client: ConnectClient) -> None:
            if _is_ours(client, entry):
                client.stop(entry.name)
                failpoints.reach(HALTED)

        return self._do(entry, stop)

    def destroy(self, entry: CatalogueEntry) -> NoAnswer | None:
        """See :class:`cdcv2.control.reconcile.ExternalKind`."""

        def destroy(client: ConnectClient) -> None:
            if _is_ours(client, entry):
                failpoints.reach(BEFORE_DELETE)
                # Or a connector of this name, made later, would go on where this one was, with another slot.
                client.forget(entry.name)
                failpoints.reach(STOPPED)
                client.delete(entry.name)

        return self._do(entry, destroy)

    def _takes_first_snapshot(self, client: ConnectClient, entry: CatalogueEntry, config: Mapping[str, str]) -> bool:
        """Whether it works, and has not come to the end of its first snapshot, as far as its positions show."""
        parts = client.status(entry.name) if takes_snapshot(config) else None
        if parts is None or not all(
            any(one.get("state") == "RUNNING" for one in those)
            for those in ([parts.get("connector", {})], parts.get("tasks", []))
        ):
            return False
        positions = client.positions(entry.name)
        if not positions:
            # Connect records them now and then. One without any for long has nothing to send.
            return entry.attempted is not None and self._clock() < entry.attempted + UNRECORDED
        ended = ("snapshot_completed", "last_snapshot_record")
        return any(one.get("snapshot") and not any(map(one.get, ended)) for one in positions)

    def _config(self, entry: CatalogueEntry) -> dict[str, str]:
        settings = {name: str(value) for name, value in entry.settings.items()}
        return {**settings, **self._secrets(entry), MARK: mark_of(entry)}

    def _do(self, entry: CatalogueEntry, work: Callable[[ConnectClient], None]) -> NoAnswer | None:
        client = self._clients.get(entry.address)
        if client is None:
            text = f"no Connect at {entry.address} is declared any more: declare it until {entry.shown} is removed"
            return NoAnswer(Reason.UNREACHABLE, text)
        try:
            work(client)
        except RefusedError as error:
            return NoAnswer(Reason.BUSY, str(error))
        except Cdcv2Error as error:
            refused = isinstance(error, UsageError) or (isinstance(error, UnavailableError) and error.forbidden)
            return NoAnswer(Reason.DENIED if refused else Reason.UNREACHABLE, str(error))
        return None


def _object_of(config: Mapping[str, str]) -> ExternalObject:
    mark, owner = read_mark(config.get(MARK))
    plain = {name: value for name, value in config.items() if name not in (MARK, CHANGING, "name")}
    # Else it would stay stopped after a crash.
    place, unfinished = config.get("connector.class", ""), CHANGING in config
    return ExternalObject(mark, mark, owner, None, without_secrets(plain), place=place, unfinished=unfinished)


def _is_ours(client: ConnectClient, entry: CatalogueEntry) -> bool:
    """Whether what is there now has the mark of the entry."""
    return _has_mark(client.config(entry.name), entry)


def _has_mark(config: Mapping[str, str] | None, entry: CatalogueEntry) -> TypeGuard[Mapping[str, str]]:
    return config is not None and read_mark(config.get(MARK))[0] == entry.nonce
