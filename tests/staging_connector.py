"""A connector of the tests: the recovery log rules, what is staged is applied idempotently. It fails as configured.

Its config: ``folder`` (where the view is, ``view.json``); ``delta`` (whether it takes changes); ``eager`` (whether it
applies at StartCommit, and sends Acknowledged before it is asked to: at least once); ``constraints`` (of columns, where
they are not FIELD_OPTIONAL); ``opened`` (the fields of Opened); ``schema`` (of a table's settings); ``whole`` (whether
it sends its whole state each time, not a patch); ``record`` (the file that gets each message that it receives); and
``fault``: ``{"at": kind of message, "nth": 1, "how": what then}`` (see :func:`break_down`). It runs as a program of its
own, needs only the standard library, and shares no code with the driver.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys

# The annotations are never looked at when it runs, and every import makes the start of hundreds of processes slower.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def say(kind: str, **said: Any) -> None:
    """One message, at once."""
    print(json.dumps({kind: said}, ensure_ascii=False), flush=True)


class Shelf:
    """The view, and what is staged, in a folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def path(self, name: str) -> str:
        """A file there."""
        return os.path.join(self.folder, name)

    def view(self) -> dict[str, Any]:
        """What is applied, and the rows: table -> JSON of the key -> document; of changes, a list of documents."""
        try:
            return dict(self.read("view.json"))
        except FileNotFoundError:
            return {"applied": [], "tables": {}}

    def read(self, name: str) -> Any:
        """A file's JSON."""
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def write(self, plain: Any) -> str:
        """JSON as a new file; its name."""
        name = os.urandom(16).hex()
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(plain, file, ensure_ascii=False)
        return name

    def apply(self, names: list[str], tables: list[str], delta: bool) -> None:
        """Each once, also where another process applies the same."""
        with open(self.path("lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            view = self.view()
            for one in names:
                if one not in view["applied"]:
                    for store in self.read(one):
                        put(view["tables"], tables[store["binding"]], store, delta)
                    view["applied"].append(one)
            os.replace(self.path(self.write(view)), self.path("view.json"))


def put(rows: dict[str, Any], table: str, store: dict[str, Any], delta: bool) -> None:
    """Change the rows as a Store states."""
    if delta:
        rows.setdefault(table, []).append(store["doc"])
    elif store["delete"]:
        rows.setdefault(table, {}).pop(json.dumps(store["key"]), None)
    else:
        rows.setdefault(table, {})[json.dumps(store["key"])] = store["doc"]


class Session:
    """From Open on."""

    def __init__(self, opening: dict[str, Any]) -> None:
        whole = opening["materialization"]
        config = whole["config"]
        self.shelf, self.delta = Shelf(config["folder"]), bool(config.get("delta"))
        self.tables = [binding["resourcePath"][0] for binding in whole["bindings"]]
        self.range = f"{opening['range']['keyBegin']}-{opening['range']['keyEnd']}"
        self.merge = not config.get("whole")
        self.eager = bool(config.get("eager"))
        self.pending: dict[str, str] = dict(opening["state"].get("pending", {}))
        self.loads: list[dict[str, Any]] = []
        self.stores: list[dict[str, Any]] = []
        say("opened", **config.get("opened", {}))
        if self.eager:
            say("acknowledged")

    def flush(self) -> None:
        """What is there."""
        tables = self.shelf.view()["tables"]
        for load in self.loads:
            found = tables.get(self.tables[load["binding"]], {}).get(json.dumps(load["key"]))
            if found is not None:
                say("loaded", binding=load["binding"], doc=found)
        self.loads = []
        say("flushed")

    def commit(self) -> None:
        """Stage."""
        self.pending = {self.range: self.shelf.write(self.stores)}
        self.stores = []
        if self.eager:
            say("startedCommit")
            return self.apply()
        say("startedCommit", state={"updated": {"pending": self.pending}, "mergePatch": True})

    def acknowledge(self) -> None:
        """Apply what is committed."""
        if not self.eager:
            self.apply()

    def apply(self) -> None:
        """And forget it."""
        self.shelf.apply(list(self.pending.values()), self.tables, self.delta)
        done = dict.fromkeys(self.pending)
        self.pending = {}
        say("acknowledged", state={"updated": {"pending": done if self.merge else {}}, "mergePatch": self.merge})

    def hear(self, kind: str, said: dict[str, Any]) -> None:
        """One message."""
        if kind == "load":
            self.loads.append(said)
        elif kind == "store":
            self.stores.append(said)
        else:
            {"flush": self.flush, "startCommit": self.commit, "acknowledge": self.acknowledge}[kind]()


def validated(said: dict[str, Any]) -> None:
    """Every field is optional, except where the config has another constraint."""
    config, found = said["config"], []
    for binding in said["bindings"]:
        fields = [one["field"] for one in binding["collection"]["projections"]]
        constraints = {one: {"type": "FIELD_OPTIONAL"} for one in fields}
        found.append({
            "resourcePath": [binding["resourceConfig"]["table"]], "deltaUpdates": bool(config.get("delta")),
            "constraints": {**constraints, **config.get("constraints", {})},
        })  # fmt: skip
    say("validated", bindings=found)


def break_down(how: str) -> None:
    """Fail in one of the ways that programs do."""
    if how == "exit":
        sys.exit("the disk is full")
    elif how == "fenced":
        sys.exit("committing: this instance was fenced off by another")
    elif how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "hang":
        hang()
    elif how == "hang with a child":
        child = os.fork()
        if child:
            print(f"child {child}", file=sys.stderr, flush=True)
        hang()
    elif how == "close":
        os.close(1)
        hang()
    elif how == "half a line":
        os.write(1, b'{"acknowledg')
        sys.exit(0)
    else:
        # As it is, as a line.
        os.write(1, b"\xff\xfe\n" if how == "no text" else how.encode() + b"\n")


def hang() -> None:
    """Do nothing any more, and do not end when asked to."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def main() -> None:
    """Until the input ends."""
    session: Session | None = None
    fault: dict[str, Any] = {}
    heard: dict[str, int] = {}
    record: str | None = None
    table: dict[str, Any] = {}
    protocol = int(sys.argv[1]) if len(sys.argv) > 1 else 3032023
    for line in sys.stdin:
        [(kind, said)] = json.loads(line).items()
        heard[kind] = heard.get(kind, 0) + 1
        if kind == "spec":
            config = said["config"]
            fault, record = config.get("fault", {}), config.get("record")
            table = config.get("schema", {"properties": {"table": {"type": "string", "x-collection-name": True}}})
        if record:
            with open(record, "a", encoding="utf-8") as file:
                file.write(line)
        if fault.get("at") == kind and fault.get("nth", 1) == heard[kind]:
            break_down(fault["how"])
        if kind == "spec":
            say("spec", protocol=protocol, configSchema={}, resourceConfigSchema=table)
        elif kind == "validate":
            validated(said)
        elif kind == "apply":
            say("applied", actionDescription="")
        elif kind == "open":
            session = Session(said)
        elif session is not None:
            session.hear(kind, said)


if __name__ == "__main__":
    main()
