"""Any program that speaks the newline-JSON form of the materialization protocol, as a driver.

The protocol is Estuary Flow's (version 3032023), which this project's own has grown out of: its messages are ours with
other clothes (:mod:`cdcv2.materialize.targets.process.spec`, ``process_values``), and a few more before Open::

    us          {"spec": …}  {"validate": …}  {"apply": …}  {"open": …}  {"acknowledge": {}}  {"load": …} …
    connector   {"spec": …}  {"validated": …} {"applied": …} {"opened": …} {"acknowledged": {}} {"loaded": …} …

The connector decides in Opened whose commit counts: with a ``runtimeCheckpoint`` its own, without one the recovery
log's. The recovery log keeps its state (merge patches, or a whole new state) in either case. Beside it are the bindings
that the connector has agreed to, before it may make anything of them (``agreed``), and once it has opened them
(``applied``). They are sent to it the next time, as some connectors refuse tables that exist and that they do not know.
A table that was not there from the first would lack what came before, and is refused.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from cdcv2.core.json_text import parse_json
from cdcv2.errors import ForeignStateError, RefusedError, TurnError, UsageError
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.messages import (
    Acknowledge, Acknowledged, Checkpoint, Flush, Flushed, Key, Load, Loaded, Open, Opened, Patch, Response,
    StartCommit, StartedCommit, Store, Table,
)
from cdcv2.materialize.protocol.turns import Turns
from cdcv2.materialize.recovery_log import merge_patch
from cdcv2.materialize.targets.process.connector import Connector
from cdcv2.materialize.targets.process.spec import HARD_DELETES, Spec, same_view, version_of
from cdcv2.materialize.targets.process.values import Documents, packed

R = TypeVar("R")

#: Where a connector that keeps our checkpoint finds it in its own form of one.
INTENT = "cdcv2/checkpoint"
# How often Apply is sent at most, and how many deleted keys are looked out for.
_ROUNDS, _REMEMBERED = 100, 100_000
_KINDS = ("spec", "validated", "applied", "opened", "loaded", "flushed", "startedCommit", "acknowledged")


class ProcessDriver(Driver):
    """One connector, as a subprocess.

    Args:
        command: the program and its arguments; no shell sees them.
        config: the connector's settings, as in its documentation. They are sent to it only, and never shown.
        resource: settings of each table beside its name; no secrets, as the recovery log keeps them.
        folder, patience, grace: see :class:`~cdcv2.materialize.targets.process.connector.Connector`.
        acknowledge_patience: how many seconds Acknowledged may take; by default any number, as some connectors apply
            what is committed on a schedule.

    Raises UsageError when there is no such program.
    """

    def __init__(
        self,
        command: Sequence[str],
        config: Mapping[str, Any] | None = None,
        *,
        resource: Mapping[str, Any] | None = None,
        folder: str | Path = ".",
        patience: float = 600.0,
        acknowledge_patience: float | None = None,
        grace: float = 5.0,
    ) -> None:
        if acknowledge_patience is not None and not acknowledge_patience > 0:
            raise UsageError(f"acknowledge_patience={acknowledge_patience}: it takes seconds, more than 0")
        self._acknowledge_patience = acknowledge_patience
        self._connector = Connector(command, folder=folder, patience=patience, grace=grace)
        self._config, self._resource = dict(config or {}), dict(resource or {})
        self._turns = Turns()
        self._tables: tuple[Table, ...] = ()
        self._documents: list[Documents] = []
        # The connector's state; the bindings that it keeps, and those that it is to make; and whether the recovery log
        # still lacks them.
        self._state: dict[str, Any] = {}
        self._applied: list[Any] = []
        self._agreed: list[Any] | None = None
        self._unapplied = False
        # What it was asked, and the content of Apply, until it has answered that without a state.
        self._spec: Spec | None = None
        self._last: dict[str, Any] = {}
        self._rounds: int | None = 0
        self._gone = _DeletedKeys()

    def prepare(self, message: Open) -> Patch | None:
        """See :class:`Driver`: start it, agree on the tables; then apply them, as often as it has more to apply.

        Raises UsageError for tables that it does not take, RefusedError for those that are new, or other than they
        were, and TurnError if it never has applied all.
        """
        if self._spec is None:
            self._adopt(message.state or {})
            self._connector.start()
            self._spec = self._agree(message)
            if self._spec.bindings != (self._applied if self._agreed is None else self._agreed):
                self._agreed = self._spec.bindings
                return Patch({"agreed": self._agreed})
        while self._rounds is not None:
            if self._rounds == _ROUNDS:
                raise TurnError("driver", f"sent Applied with a state {_ROUNDS} times, and never one without")
            asked = {**self._whole(self._spec), **self._last, "state": self._state}
            patch = self._patch(self._request("apply", asked, "applied"))
            self._rounds += 1
            if patch is not None:
                return patch
            self._rounds = None
        return None

    def open(self, message: Open) -> Opened:
        """See :class:`Driver`. Raises UsageError also for a share of the keys where its commit counts."""
        while self._spec is None or self._rounds is not None:
            self.prepare(message)
        self._turns.record(message)
        spec = self._spec
        self._unapplied = self._applied != spec.bindings or self._agreed is not None
        self._applied, self._agreed = spec.bindings, None
        pairs = zip(message.tables, spec.bindings)
        self._documents = [Documents(table, one["fieldSelection"]["values"]) for table, one in pairs]
        self._tables = message.tables
        keys = {"keyBegin": message.range.begin, "keyEnd": message.range.end, "rClockBegin": 0, "rClockEnd": 2**32 - 1}
        asked = {**self._whole(spec), "range": keys, "state": self._state}
        opened = self._opened(self._request("open", asked, "opened"), message)
        self._turns.record(opened)
        return opened

    def acknowledge(self, message: Acknowledge) -> Acknowledged:
        """See :class:`Driver`. The recovery log learns here, at first, what was applied."""
        self._send(message, {"acknowledge": {}})
        response = self._expect(Acknowledged, self._acknowledge_patience)
        if self._unapplied:
            self._unapplied = False
            return Acknowledged(self._full_patch())
        return response

    def load(self, message: Load) -> Iterable[Loaded]:
        """See :class:`Driver`. What it has answered by now is given out; the rest comes with ``flush``."""
        key = self._documents[message.binding].key(message.key)
        self._send(message, {"load": {"binding": message.binding, "key": key, "keyPacked": packed(key)}})
        return list(self._there())

    def flush(self, message: Flush) -> Iterable[Loaded | Flushed]:
        """See :class:`Driver`."""
        self._send(message, {"flush": {}})
        while not isinstance(response := self._response(self._connector.receive()), Flushed):
            if isinstance(response, Loaded):
                yield response
        yield response

    def store(self, message: Store) -> None:
        """See :class:`Driver`."""
        operation = "d" if message.delete else "u" if message.exists else "c"
        key, values, document = self._documents[message.binding].row(message.key, message.values, operation)
        if self._tables[message.binding].erased:
            self._gone.record(message)
        self._send(message, {"store": {
            "binding": message.binding,
            "key": key, "keyPacked": packed(key),
            "values": values, "valuesPacked": packed(values),
            "doc": document,
            "exists": message.exists, "delete": message.delete,
        }})  # fmt: skip
        for _ in self._there():
            continue

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """See :class:`Driver`."""
        self._send(message, {"startCommit": {"runtimeCheckpoint": checkpoint_to_plain(message.checkpoint)}})
        return self._expect(StartedCommit)

    def interrupt(self) -> None:
        """See :class:`Driver`: it gets its grace to end what it does."""
        self._connector.interrupt()

    def close(self) -> None:
        """See :class:`Driver`: end its input, wait for its end for a while, then end it."""
        self._connector.close()

    # --- opening

    def _adopt(self, state: Mapping[str, Any]) -> None:
        if set(state) - {"connector", "applied", "agreed"}:
            raise ForeignStateError("the recovery log is another driver's: name another place for this connector's")
        self._state, self._applied = dict(state.get("connector") or {}), list(state.get("applied") or [])
        self._agreed = list(state["agreed"]) if state.get("agreed") else None

    def _agree(self, message: Open) -> Spec:
        """Ask what it is, and whether it takes the tables."""
        content = self._request("spec", {"connectorType": "IMAGE", "config": self._config}, "spec")
        known = self._applied if self._agreed is None else self._agreed
        spec = Spec(message.materialization, message.tables, self._config, self._resource, content, known)
        if known:
            self._last = {"lastMaterialization": spec.materialization(known), "lastVersion": version_of(known)}
        spec.agree(self._request("validate", {**spec.validate(), **self._last}, "validated"))
        self._demand_same(spec)
        return spec

    @staticmethod
    def _whole(spec: Spec) -> dict[str, Any]:
        return {"materialization": spec.materialization(), "version": version_of(spec.bindings)}

    def _request(self, kind: str, question: Mapping[str, Any], wanted: str) -> Any:
        """A question before Open, and its answer."""
        self._connector.send({kind: question})
        found, content = _sub_message(self._connector.receive())
        if found != wanted:
            raise TurnError("driver", f"sent {_shown(found)} out of turn (expected {_shown(wanted)})")
        return content

    def _demand_same(self, spec: Spec) -> None:
        """Raise RefusedError if a table is new, or was another: it would lack what came before."""
        known = {one["collection"]["name"]: one for one in self._applied}
        for one in spec.bindings:
            name = one["collection"]["name"]
            if known and (name not in known or same_view(known[name]) != same_view(one)):
                state = "was another" if name in known else "is new"
                raise RefusedError(
                    f"{name} {state} in the view that this recovery log goes with, and would lack what came before: "
                    "materialize again, with a new recovery log and into a new place of the connector's"
                )

    def _opened(self, content: Mapping[str, Any], message: Open) -> Opened:
        plain = content.get("runtimeCheckpoint")
        if plain is None:
            return Opened()
        if not message.range.whole:
            raise UsageError(
                f"the keys {message.range} only: what this connector has of other shares is not known; open all of it"
            )
        return Opened(checkpoint_from_plain(plain, message))

    # --- talking

    def _send(self, message: Any, plain: dict[str, Any]) -> None:
        self._turns.record(message)
        self._connector.send(plain)

    def _there(self) -> Iterator[Loaded]:
        """The answers that are there, and may be: Loaded only, or it speaks out of turn."""
        while (plain := self._connector.received()) is not None:
            response = self._response(plain)
            if isinstance(response, Loaded):
                yield response

    def _expect(self, kind: type[R], *patience: float | None) -> R:
        """The next answer, which is of this kind."""
        response = self._response(self._connector.receive(*patience))
        if not isinstance(response, kind):
            raise TurnError("driver", f"sent {type(response).__name__} out of turn (expected {kind.__name__})")
        return response

    def _response(self, plain: Mapping[str, Any]) -> Response:
        """An answer after Opened, as a message of ours. Raises TurnError if it is not its turn."""
        kind, content = _sub_message(plain)
        response: Response
        if kind == "loaded":
            response = self._loaded(content)
        elif kind == "flushed":
            response = Flushed()
        elif kind == "startedCommit":
            response = StartedCommit()
        elif kind == "acknowledged":
            response = Acknowledged()
        else:
            raise TurnError("driver", f"sent {_shown(kind)} out of turn (it has sent Opened before)")
        self._turns.record(response)
        if isinstance(response, Loaded):
            return response
        return type(response)(self._patch(content))

    def _loaded(self, content: Mapping[str, Any]) -> Loaded:
        binding = content.get("binding", 0)
        if type(binding) is not int or not 0 <= binding < len(self._documents):
            raise TurnError("driver", f"sent Loaded for the table {binding!r} of {len(self._documents)}")
        documents, table, plain = self._documents[binding], self._tables[binding], content.get("doc")
        loaded = Loaded(binding, *documents.back(plain))
        if table.erased and (documents.is_deleted(plain) or self._gone.has(loaded)):
            raise RefusedError(
                f"{table.name}: the connector has {loaded.key!r} still, which was deleted, and deletes is 'hard': it "
                f"does not delete. Turn its own option for that on ({HARD_DELETES[0]}, or what its documentation calls "
                "it), or set deletes to soft; then materialize again, with a new recovery log and into a new place"
            )
        return loaded

    def _patch(self, content: Mapping[str, Any]) -> Patch | None:
        """A change of its state, for the recovery log."""
        state = content.get("state")
        if state is None:
            return None
        updated = state.get("updated") if isinstance(state, Mapping) else None
        if not isinstance(updated, dict):
            raise TurnError("driver", "sent a state that is no object with an object 'updated'")
        if state.get("mergePatch"):
            self._state = merge_patch(self._state, updated)
            return Patch({"connector": updated})
        self._state = updated
        return self._full_patch()

    def _full_patch(self) -> Patch:
        """All that the recovery log is to have."""
        agreed = {} if self._agreed is None else {"agreed": self._agreed}
        return Patch({"connector": self._state, "applied": self._applied, **agreed}, merge=False)


class _DeletedKeys:
    """The last keys that a connector was ordered to delete: none of them may come back of itself."""

    def __init__(self) -> None:
        self._keys: dict[tuple[int, Key], None] = {}

    def record(self, store: Store) -> None:
        """Take note of what is to be at a key."""
        place = (store.binding, store.key)
        self._keys.pop(place, None)
        if store.delete:
            self._keys[place] = None
            if len(self._keys) > _REMEMBERED:
                del self._keys[next(iter(self._keys))]

    def has(self, loaded: Loaded) -> bool:
        """Whether nothing should be there."""
        return (loaded.binding, loaded.key) in self._keys


def checkpoint_to_plain(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint in the connectors' form, which has room for bytes under a name."""
    raw = json.dumps(checkpoint.to_plain(), separators=(",", ":")).encode()
    return {"ackIntents": {INTENT: base64.b64encode(raw).decode("ascii")}}


def checkpoint_from_plain(plain: Any, message: Open) -> Checkpoint:
    """The checkpoint again; an empty one is a view's that has nothing. Raises ForeignStateError for another's."""
    if plain == {}:
        return Checkpoint(message.start)
    try:
        raw = base64.b64decode(plain["ackIntents"][INTENT], validate=True)
        return Checkpoint.from_plain(parse_json(raw))
    except (KeyError, TypeError, ValueError) as cause:
        raise ForeignStateError(
            f"the connector has a checkpoint for {message.materialization!r} that is not of cdcv2: another keeps "
            "this view; give the materialization another name, or another place"
        ) from cause


def _sub_message(plain: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The one part that a message has."""
    found = [(kind, content) for kind, content in plain.items() if content is not None and not kind.startswith("$")]
    if len(found) != 1 or found[0][0] not in _KINDS or not isinstance(found[0][1], dict):
        names = ", ".join(map(repr, plain)) or "nothing"
        raise TurnError("driver", f"sent a message that has {names}, not one of {', '.join(_KINDS)}, with an object")
    return found[0]


def _shown(kind: str) -> str:
    return kind[0].upper() + kind[1:]
