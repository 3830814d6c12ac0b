"""One random sequence of up, down, change, kill, two controllers, others who come and go, on real servers.

Each step is a process of its own; after each one, what exists is compared with what the catalogues state, by a reader
that shares no rule with the product.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import cdcv2.control.kinds.connectors
import cdcv2.control.kinds.folders
import cdcv2.control.kinds.postgres
import cdcv2.control.kinds.topics  # noqa: F401  # the steps that they declare
import cdcv2.control.reconcile  # noqa: F401
from cdcv2 import failpoints
from tests.external_drafts import HOSTS, FileDraft, wanted_names
from tests.external_servers import CONNECTOR, SLOT, TABLE, TOPIC, RealServers, SeenObject, entries_of

ROOT = Path(__file__).resolve().parent.parent
STEPS = sorted(name for name in failpoints.KNOWN if name.startswith(("external.", "catalogue.")))
#: Seconds that a request may be on its way, for a command that got no answer: see DOUBT of the product.
DOUBT = 61.0
FOLDER = "state folder"
Key = tuple[str, str]
#: One server at a time is away.
AWAY = Lock()


class ExternalSequence:
    """A sequence. ``number``: its seed, and what all its names begin with."""

    def __init__(self, servers: RealServers, number: int, folder: Path, counts: Counter[str]) -> None:
        self.servers, self.prefix, self.folder, self.counts = servers, f"q{number:05}", folder, counts
        self.chance, self.ahead = random.Random(number), 0.0
        self.draft = FileDraft()
        self.theirs = dict[Key, SeenObject]()
        #: what the file let go, with its identity; what others removed under our feet; topics that two catalogues took
        self.let_go, self.harmed, self.shared = dict[Key, str](), set[Key](), set[Key]()
        self.log = list[str]()
        folder.mkdir(parents=True)
        for table in ("orders", "items"):
            servers.source(f"CREATE TABLE {self.prefix}_{table} (id bigint PRIMARY KEY)")
            servers.source(f"ALTER TABLE {self.prefix}_{table} REPLICA IDENTITY FULL")
            servers.source(f"INSERT INTO {self.prefix}_{table} VALUES (1)")
        self._write()

    def play(self, steps: int) -> None:
        """So many steps, with what must hold after each; then all is removed, and nothing is left."""
        actions: list[Callable[[], None]] = [
            self.change, self.change, self.up, self.down, self.remove, self.killed_at_a_step, self.killed_at_a_step,
            self.killed_at_a_step, self.killed_at_a_moment, self.two_at_once, self.rival, self.rival, self.harm,
            self.others_come, self.others_leave, self.server_away, self.other_address,
        ]  # fmt: skip
        self.up()
        for _ in range(steps):
            action = self.chance.choice(actions)
            self.log.append(action.__name__)
            action()
            self.counts[f"steps: {action.__name__.replace('_', ' ')}"] += 1
            self.demand_as_stated()
        self.end()

    # -- what we do

    def change(self) -> None:
        """The file is changed, and the command started again."""
        self.draft = FileDraft.drawn(self.chance, self.draft)
        self._write()
        self.up()

    def up(self) -> None:
        """Until all is there, or it takes too long."""
        if self._run("up", self._file(), "--once", "--timeout=16") == 0:
            self.demand_complete(self._state())
            self._fill()

    def down(self) -> None:
        """Nothing external happens."""
        before = self.servers.seen(self.prefix).keys()
        assert self._run("down", self._file()) == 0
        after = self.servers.seen(self.prefix).keys()
        assert before <= after and {kind for kind, _ in after - before} <= {TOPIC, SLOT}, (before, after)

    def remove(self) -> None:
        """All of ours."""
        if self._run("down", self._file(), "--remove-external", "--timeout=16") == 0:
            self.demand_removed(self._state())

    def killed_at_a_step(self) -> None:
        """Where an intent is written, or an act is begun, half done or done: on the way up or down."""
        step, nth = self.chance.choice(STEPS), self.chance.choice((1, 1, 2, 3, 5, 8))
        way = self.chance.choice((["up", "--once"], ["up", "--once"], ["down", "--remove-external"]))
        if way[0] == "up" and self.chance.random() < 0.6:
            self.draft = FileDraft.drawn(self.chance, self.draft)
            self._write()
        self.kill_at(step, nth, *way)

    def kill_at(self, step: str, nth: int, *way: str) -> bool:
        """Run the command, and kill it when it reaches the step for the nth time; whether it did."""
        crash = {"CDCV2_CRASH": f"{step}:{nth}", "CDCV2_CRASH_HOW": "kill"}
        if self._run(way[0], self._file(), *way[1:], "--timeout=14", environment=crash) == -9:
            self.counts["kills"] += 1
            self.counts[f"kills at {step}"] += 1
            self._pass_doubts()
            return True
        return False

    def killed_at_a_moment(self) -> None:
        """Wherever it is then."""
        with self._started("up", self._file(), "--once", "--timeout=14") as process:
            time.sleep(self.chance.uniform(0.5, 5.0))
            killed = process.poll() is None
            process.kill()
        if killed:
            self.counts["kills"] += 1
            self.counts["kills at any moment"] += 1
            self._pass_doubts()

    def two_at_once(self) -> None:
        """Two processes, one catalogue: one works, and is killed; the other is refused, or takes over."""
        self.draft = FileDraft.drawn(self.chance, self.draft)
        self._write()
        with self._started("up", self._file(), "--once", "--timeout=16") as first:
            with self._started("up", self._file(), "--once", "--timeout=16") as second:
                if self.chance.random() < 0.5:
                    time.sleep(self.chance.uniform(1.0, 4.0))
                    first.kill()
                ends = [self._ended(one) for one in (first, second)]
        refused = sum("are kept by" in text for _, text in ends)
        self.counts["second controllers refused"] += refused
        assert refused <= 1, ends
        if -9 in [code for code, _ in ends]:
            self.counts["kills"] += 1
            self._pass_doubts()
        self.up()

    def rival(self) -> None:
        """Another catalogue that wants the same names: beside ours, or alone, or it removes what it has."""
        file, state = self._file("rival"), self._state("rival")
        if self.chance.random() < 0.3 and state.exists():
            if self._run("down", file, "--remove-external", "--timeout=14") == 0:
                self.demand_removed(state)
            return
        FileDraft.drawn(self.chance, self.draft).write(self.servers, file, self.prefix, state)
        self.counts["rivals"] += 1
        if self.chance.random() < 0.6:
            with self._started("up", self._file(), "--once", "--timeout=12") as ours:
                self._run("up", file, "--once", "--timeout=10")
                self._ended(ours)
        else:
            self._run("up", file, "--once", "--timeout=12")

    def other_address(self) -> None:
        """The file names the same servers by another of their addresses: nothing is made again."""
        if self._run("up", self._file(), "--once", "--timeout=16") != 0:
            return
        before = {self._key(one): one["identity"] for one in self._entries() if one["state"] == "in use"}
        self.draft = replace(self.draft, hosts=self.chance.choice([one for one in HOSTS if one != self.draft.hosts]))
        self._write()
        self.up()
        seen = self._seen()
        for key, identity in before.items():
            assert key in self.harmed or (key in seen and seen[key].identity == identity), f"{key} is {seen.get(key)}"
        self.counts["other addresses"] += 1

    # -- what happens to us

    def harm(self) -> None:
        """Others remove something of ours; the next command has to go on."""
        there = [self._key(one) for one in self._entries() if one["owned"] and one["state"] in ("made", "in use")]
        for key in self.chance.sample(there, min(1, len(there))):
            if key[0] != FOLDER:
                self.servers.take(*key)
                self.harmed |= {key, *self._made_by(key)}
                self.let_go.pop(key, None)
                self.counts["dropped by hand"] += 1
        self._run("up", self._file(), "--once", "--timeout=10")

    def others_come(self) -> None:
        """With something under a name that we may want."""
        seen = self.servers.seen(self.prefix)
        # A slot that a connector of ours makes is its own while the connector is there, and not before or after.
        pending = {
            self._key(one) for one in self._entries()
            if one["attempted"] is not None and not one["identity"] and not one["maker"]
        }  # fmt: skip
        runs = any(kind == CONNECTOR for kind, _ in seen)
        free = [
            key for key in wanted_names(self.prefix)
            if key not in seen and key not in pending and not (runs and (key[0] == SLOT or ".cdc." not in key[1]))
        ]  # fmt: skip
        for key in self.chance.sample(free, min(1, len(free))):
            self.servers.give(*key)
            self.theirs[key] = self.servers.seen(self.prefix)[key]
            self.counts["things of others"] += 1
        self._run("up", self._file(), "--once", "--timeout=8")

    def others_leave(self) -> None:
        """With what they brought."""
        for key in self.chance.sample(sorted(self.theirs), min(1, len(self.theirs))):
            self.demand_as_stated()
            del self.theirs[key]
            self.servers.take(*key)
            self.harmed.add(key)
        self.up()

    def server_away(self) -> None:
        """One of three does not answer while we work, and is back afterwards."""
        if not AWAY.acquire(blocking=False):
            return self.up()
        try:
            name = self.chance.choice(("postgres", "postgres", "connect", "kafka"))
            server = getattr(self.servers, name)
            self.draft = FileDraft.drawn(self.chance, self.draft)
            self._write()
            server.stop()
            try:
                self._run("up", self._file(), "--once", "--timeout=4")
            finally:
                server.start()
            self.counts[f"{name} away"] += 1
        finally:
            AWAY.release()
        self._pass_doubts()
        return self.up()

    # -- what must hold

    def demand_as_stated(self) -> None:
        """All of others is as it was; all that exists is some entry's; and all that is recorded exists."""
        seen, ours = self._seen(), list(self._entries())
        both = [*ours, *self._entries("rival")]
        self._note(ours, both, seen)
        for key, thing in self.theirs.items():
            assert seen.get(key) == thing, f"{key} is of others: it was {thing}, and is {seen.get(key)}"
        for key, identity in self.let_go.items():
            assert key in seen and seen[key].identity == identity, f"{key} was let go, and is {seen.get(key)}"
        excused = self.harmed | self.shared
        for one in both:
            key = self._key(one)
            if one["owned"] and one["state"] in ("made", "in use") and key not in excused:
                assert key in seen and seen[key].identity == self._identity(one), f"{one}: there is {seen.get(key)}"
        for key, thing in seen.items():
            assert key in {*excused, *self.theirs, *self.let_go} or any(
                self._explains(one, key, thing) for one in both
            ), f"{key} {thing} is no one's"

    def demand_complete(self, state: Path) -> None:
        """The command ended well: all is made, and nothing is left to be removed."""
        for one in entries_of(state):
            if one["owned"] and self._key(one) not in self.harmed | self.shared:
                assert one["state"] in ("made", "in use", "gone"), one

    def demand_removed(self, state: Path) -> None:
        """Nothing of this catalogue is there."""
        assert {"gone"} >= {one["state"] for one in entries_of(state)}, list(entries_of(state))
        self.demand_as_stated()

    def _note(self, ours: list[dict[str, Any]], both: list[dict[str, Any]], seen: dict[Key, SeenObject]) -> None:
        """Take down what the files let go, and which topics two catalogues have."""
        live = [one for one in both if one["state"] != "gone"]
        claimed = Counter(
            (self._key(one), one["identity"]) for one in live
            if one["owned"] and one["identity"] and one["state"] in ("made", "in use", "unwanted")
            # What is there when a removal was begun may be of another already: then it is left alone, as doubtful.
            and not one["removal"] and one["before"] != "lost"
        )
        for (key, _), times in claimed.items():
            if times > 1:
                assert key[0] == TOPIC, f"two catalogues have {key}: {both}"
                self.shared.add(key)
        for one in both:
            key = self._key(one)
            if not one["owned"] and (one["attempted"] is not None) and key in seen and key not in self.theirs:
                self.let_go.setdefault(key, seen[key].identity)
            elif one["owned"] and one["identity"] and one["state"] != "gone":
                # It is ours once more, as it is the one that we made.
                self.let_go.pop(key, None)
        for key in [key for key in self.harmed if key not in seen and not any(self._key(one) == key for one in live)]:
            self.harmed.discard(key)

    def _explains(self, one: dict[str, Any], key: Key, thing: SeenObject) -> bool:
        if self._key(one) != key or one["state"] == "gone":
            return False
        recorded = self._identity(one)
        return recorded == thing.identity or (recorded is None and one["attempted"] is not None)

    def end(self, patience: int = 16) -> None:
        """Both catalogues remove all; then others are as they were, and there is nothing else."""
        for what in ("rival", "main"):
            if not self._state(what).exists():
                continue
            for _ in range(8):
                code = self._run("down", self._file(what), "--remove-external", f"--timeout={patience}")
                self.demand_as_stated()
                if code == 0:
                    break
                self._settle_doubts(what)
                self._declare_addresses(what)
                self._pass_doubts()
            assert code == 0, (what, [one for one in entries_of(self._state(what)) if one["state"] != "gone"])
            self.demand_removed(self._state(what))
        self.servers.settle()
        self.demand_as_stated()
        for key in self._seen():
            assert key in {*self.theirs, *self.let_go, *self.harmed, *self.shared}, f"{key} is left"
        self.counts["let go, and left alone"] += len(self.let_go)
        self.counts["of others, and left alone"] += len(self.theirs)
        self.counts["topics that two catalogues took while they were empty"] += len(self.shared)
        for kind, name in sorted(self._seen(), key=lambda key: key[0] != CONNECTOR):
            if kind != FOLDER:
                self.servers.take(kind, name)

    def _settle_doubts(self, what: str) -> None:
        """As a person who knows whose a slot is: one of ours is dropped, another is stated to be of others."""
        for one in self._entries(what):
            if one["debt"] is None or one["debt"]["reason"] != "doubtful":
                continue
            key = self._key(one)
            other = [self._key(one) for one in self._entries("main" if what == "rival" else "rival") if one["identity"]]
            ours = key not in self.theirs and key not in self.let_go and key not in other
            self.counts[f"in doubt, and {'ours' if ours else 'of others'}"] += 1
            if ours:
                self.servers.take(*key)
            else:
                self._run("down", self._file(what), "--remove-external", "--leave-doubtful", "--timeout=16")
            self.demand_as_stated()

    def _declare_addresses(self, what: str) -> None:
        """As the text of a debt asks: what was made at another address of a server goes while that is declared."""
        debts = [one["debt"]["text"] for one in self._entries(what) if one["debt"] is not None]
        if any("is declared any more" in text for text in debts):
            text = self._file(what).read_text("utf-8")
            here, there = ("localhost", "127.0.0.1") if "localhost" in text else ("127.0.0.1", "localhost")
            self._file(what).write_text(text.replace(here, there), "utf-8")
            self.counts["addresses declared once more"] += 1

    # -- tools

    def _made_by(self, key: Key) -> set[Key]:
        """What a connector that runs makes again by itself when it is missing."""
        return {(SLOT, self.prefix)} if key[0] == CONNECTOR else set()

    def _entries(self, what: str = "main") -> Iterator[dict[str, Any]]:
        return entries_of(self._state(what))

    def _key(self, entry: dict[str, Any]) -> Key:
        if entry["address"] == "this machine":
            return FOLDER, Path(entry["name"]).name
        return (TOPIC if entry["kind"] == "remap" else entry["kind"]), entry["name"]

    def _identity(self, entry: dict[str, Any]) -> str | None:
        found: str | None = entry["identity"]
        return found

    def _seen(self) -> dict[Key, SeenObject]:
        found = self.servers.seen(self.prefix)
        for path in self.folder.iterdir():
            mark = path / "_external.json"
            if path.name.endswith("-logs") or path.name.endswith(".removed"):
                text = json.loads(mark.read_text("utf-8"))["mark"] if mark.exists() else ""
                nonce = text.split()[2] if text else ""
                found[FOLDER, path.name.removeprefix(".").split(".")[0]] = SeenObject(nonce, nonce, "")
        return found

    def _fill(self) -> None:
        """As jobs do: what is in use has content."""
        for one in self._entries():
            key = self._key(one)
            if one["owned"] and one["state"] == "in use" and key not in self.theirs and key[0] == TABLE:
                self.servers.source(f'INSERT INTO "{key[1]}" VALUES (1) ON CONFLICT DO NOTHING', database="copy")
        self.servers.fill(name for kind, name in map(self._key, self._entries()) if kind == TOPIC and ".cdc." in name)

    def _pass_doubts(self) -> None:
        self.servers.settle()
        self.ahead += DOUBT

    def _write(self) -> None:
        self.draft.write(self.servers, self._file(), self.prefix, self._state())

    def _file(self, what: str = "main") -> Path:
        return self.folder / f"{what}.yaml"

    def _state(self, what: str = "main") -> Path:
        return self.folder / f"{what}.state"

    @contextmanager
    def _started(self, way: str, *words: object, environment: dict[str, str] | None = None) -> Iterator[Any]:
        argv = [sys.executable, "-m", "tests.external_process", str(self.ahead), way, *map(str, words)]
        more = {**self.servers.postgres.environment, "CDCV2_CRASH": "", **(environment or {})}
        with subprocess.Popen(
            argv, cwd=ROOT, env={**os.environ, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def _ended(self, process: Any) -> tuple[int, str]:
        _, text = process.communicate(timeout=240)
        self.log.append(f"{' '.join(process.args[4:])} -> {process.returncode}\n{text[-3000:]}")
        assert process.returncode in (0, 4, -9), text
        return process.returncode, text

    def _run(self, *words: object, environment: dict[str, str] | None = None) -> int:
        with self._started(*words, environment=environment) as process:  # type: ignore[arg-type]
            return self._ended(process)[0]
