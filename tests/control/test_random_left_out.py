"""Random sequences of tables that are left out and put back, kills, servers away: what is not refused has all rows.

The servers are in memory (`tests/external_world.py`), and so is the one connector: it sends what was published when it
was committed and is in its list when it reads that, into the topic that is there. It keeps its position by its prefix,
and takes a snapshot where it has none. The judge knows rows alone.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from cdcv2 import failpoints
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_state import DOUBT
from cdcv2.control.intents import missing_for, used_by
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.reconcile import ACT_DONE, INTENT_WRITTEN, Reconciliation
from cdcv2.control.refusals import refused_changes
from tests.external_world import OTHERS, MemoryCatalogue, World, WorldObject

pytest.importorskip("yaml")
pytest.importorskip("confluent_kafka")
pytest.importorskip("psycopg")

TABLES = ("public.orders", "public.items")
DATABASE, KAFKA, CONNECTS = "PostgreSQL db/shop", "Kafka k:9092", ("http://c:8083", "http://connect:8083")
ROW = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'
#: A pipeline without captures.
NOTHING = """
pipeline: shop
views:
  logs: {logs: {a: a}, bindings: [{log: a, target: a, key: [id]}], target: {driver: lake, folder: lake},
         recovery_log: recovery}
"""


@dataclass(frozen=True)
class Draft:
    """A pipeline file, by what is chosen in it."""

    tables: tuple[str, ...] = TABLES
    prefix: str = "shop"
    name: str = "shop"
    url: str = CONNECTS[0]
    publication: str = "yes"

    def write(self, folder: Path, into: int) -> Path:
        """The file and that of its connector. ``into``: logs that are new each time."""
        config = debezium_config(
            self.prefix, self.tables, host="db", port=5432, database="shop", user="cdc", publication="disabled",
            more={"slot.name": self.name, "publication.name": self.name},
        )  # fmt: skip
        (folder / "connector.json").write_text(json.dumps(config), "utf-8")
        captures = "\n".join(f"  {one[7:]}: {{tables: [{one}], into: logs{into}_{one}}}" for one in self.tables)
        text = f"""
pipeline: shop
kafka: {{bootstrap: "k:9092"}}
sources:
  shop:
    prefix: {self.prefix}
    notifications: {self.prefix}.notifications
    postgres: {{conninfo: "host=db dbname=shop"}}
    connector: {{name: {self.name}, url: "{self.url}", owned: yes, config: connector.json}}
    slot: {{name: {self.name}, owned: yes}}
    publication: {{name: {self.name}, owned: {self.publication}}}
"""
        path = folder / "shop.yaml"
        path.write_text(f"{text}captures:\n{captures}\n" if self.tables else NOTHING, "utf-8")
        return path


class LeftOut:
    """One sequence, drawn by chance."""

    def __init__(self, chance: Random, folder: Path) -> None:
        self.chance, self.folder, self.world, self.catalogue = chance, folder, World(), MemoryCatalogue()
        for other in CONNECTS[1:]:
            self.world.name(CONNECTS[0], other)
        self.world.slots_by_name, self.world.slot_of = True, _slot_of
        self._nonces, self._places = (f"n{number:03}n" for number in count(1)), count(1)
        self.draft = Draft(publication=chance.choice(("yes", "no")))
        if self.draft.publication == "no":
            for name in ("shop", "store"):
                there = WorldObject(self.world.identity(), OTHERS, {"tables": sorted(TABLES)}, empty=False)
                self.world.put(DATABASE, Kind.PUBLICATION, name, there)
        #: what was committed: the table, and the publications that had it then
        self.wal: list[tuple[str, frozenset[str]]] = []
        #: topic, by its identity -> the numbers in the WAL that it has
        self.topics: dict[str, set[int]] = defaultdict(set)
        #: a connector that was not removed, with its prefix -> how far it has read
        self.positions: dict[tuple[str, str], int] = {}
        #: the slots that were read, by who made them, each with the tables of its snapshot
        self.snapshots: dict[str, list[str]] = {}
        self.refused = self.compared = 0
        self.up(self.draft)

    def up(self, draft: Draft) -> None:
        """``cdcv2 up`` with this file, unless it is refused: then the old one stays."""
        self.owner = self.catalogue.taken()
        self.control = Reconciliation(self.owner, self.world.kinds(), lambda: self.world.now)  # type: ignore[arg-type]
        pipeline = read_pipeline(str(draft.write(self.folder, next(self._places))))
        desired = list(external_needs(pipeline).needs.desired(self.owner.entries()))
        if refused_changes(pipeline, self.owner.entries(), desired):
            self.refused += 1
            return
        self.draft = draft
        self.control.desire(desired, lambda: next(self._nonces))
        slots = {one.nonce for one in self.owner.entries() if one.kind is Kind.SLOT}
        for one in self.owner.entries():
            self.world.past_makers.setdefault(one.nonce, set()).update({one.maker} - {None})
            for need in slots.intersection(one.needs):
                self.world.past_makers.setdefault(need, set()).add(one.nonce)
        self.control.find_known()

    def play(self, steps: int) -> None:
        """So many things happen."""
        for _ in range(steps):
            self.world.now += self.chance.choice((0.1, 3, 30))
            self.world.deliver(late=True)
            self.chance.choice((self.change, self.work, self.work, self.crash, self.hinder, self.commit))()
            if self.chance.random() < 0.7:
                self.read()

    def change(self) -> None:
        """The file is another one."""
        draw = self.chance.choice
        new = replace(self.draft, tables=draw((TABLES, TABLES, TABLES[:1], TABLES[1:], ())))
        match draw((*["tables"] * 7, "url", "prefix", "all")):
            case "url":
                new = replace(new, url=draw(CONNECTS))
            case "prefix":
                new = replace(new, prefix=draw(("shop", "store")))
            case "all":
                name = draw(("shop", "store"))
                new = replace(new, prefix=name, name=name)
        self.up(new)

    def work(self) -> None:
        """A round. A job that runs as it was before keeps what is unwanted."""
        self.control.round(removing=self.chance.random() < 0.5)
        for job in {user for one in self.owner.entries() if one.is_live for user in one.users}:
            if not missing_for(job, self.owner.entries()):
                self.owner.write(used_by(job, self.owner.entries(), self.world.now))

    def crash(self) -> None:
        """At any step; then another process goes on with the same file, or with another one."""
        try:
            with failpoints.placed(self.chance.choice((INTENT_WRITTEN, ACT_DONE)), self.chance.randrange(1, 6)):
                self.work()
        except failpoints.PlacedCrash:
            self.chance.choice((self.change, lambda: self.up(self.draft)))()

    def hinder(self) -> None:
        """A server goes away, or refuses us, or comes back."""
        server = self.world.server(self.chance.choice((DATABASE, KAFKA, CONNECTS[0])))
        server.hindered = self.chance.choice((None, Reason.UNREACHABLE, Reason.DENIED))

    def commit(self) -> None:
        """A row in each of the tables."""
        objects = self.world.server(DATABASE).objects
        for table in TABLES:
            having = (name for (kind, name), one in objects.items() if kind is Kind.PUBLICATION
                      and table in one.settings["tables"])  # fmt: skip
            self.wal.append((table, frozenset(having)))

    def read(self) -> None:
        """Each connector with its slot reads on, or takes its snapshot."""
        for (kind, _), there in list(self.world.server(CONNECTS[0]).objects.items()):
            if kind is not Kind.CONNECTOR:
                continue
            config = there.settings
            slot = self.world.server(DATABASE).objects.get((Kind.SLOT, config["slot.name"]))
            if slot is None:
                continue
            listed = [one for one in TABLES if one.replace(".", r"\.") in config["table.include.list"]]
            place, end = (there.identity, config["topic.prefix"]), len(self.wal)
            if place not in self.positions:
                # Over a slot that was read before it would not meet the changes: its topics are of no use.
                if slot.maker not in self.snapshots:
                    self.snapshots[slot.maker] = listed
                    self._send(config["topic.prefix"], {n for n in range(end) if self.wal[n][0] in listed})
            else:
                self._send(config["topic.prefix"], {
                    n for n in range(self.positions[place], end)
                    if self.wal[n][0] in listed and config["publication.name"] in self.wal[n][1]
                })  # fmt: skip
            self.positions[place] = end

    def _send(self, prefix: str, numbers: set[int]) -> None:
        for n in numbers:
            name = f"{prefix}.{self.wal[n][0]}"
            # Where there is none, Connect makes one.
            self.world.put(KAFKA, Kind.TOPIC, name, WorldObject(self.world.identity(), OTHERS, {}))
            topic = self.world.server(KAFKA).objects[Kind.TOPIC, name]
            topic.empty = False
            self.topics[topic.identity].add(n)

    def settle(self) -> None:
        """All answer, and all is made and removed that can be."""
        for _ in range(6):
            self.world.deliver(late=False)
            for server in self.world.servers.values():
                server.hindered = None
            self.world.now += DOUBT + 10
            self.work()
            self.control.round()
        self.read()

    def demand_all_rows(self) -> None:
        """The topics of the file's tables have all that was committed, unless the catalogue states a loss."""
        live = [one for one in self.owner.entries() if one.is_live]
        if any(one.state is EntryState.LOST for one in live):
            return
        slot = self.world.server(DATABASE).objects.get((Kind.SLOT, self.draft.name))
        covered = [] if slot is None else self.snapshots.get(slot.maker, [])
        # A table that the snapshot has not had is connected before its first row, by a person.
        for table in (one for one in self.draft.tables if one in covered):
            name = f"{self.draft.prefix}.{table}"
            entry = next(one for one in live if one.kind is Kind.TOPIC and one.name == name)
            if not entry.is_there:
                # It is refused, as that of others: that is shown.
                assert entry.debt is not None and entry.debt.reason is Reason.REFUSED, entry
                continue
            has = self.topics[entry.identity or ""]
            lacking = {n for n, (of, _) in enumerate(self.wal) if of == table} - has
            assert not lacking, (self.draft, name, lacking, self.owner.entries())
            self.compared += 1


def _slot_of(entry: CatalogueEntry) -> tuple[str, str, dict[str, object]]:
    return DATABASE, entry.settings["slot.name"], {"plugin": "pgoutput", "database": "shop"}


def tell(seed: int, folder: Path) -> LeftOut:
    """One story, with its end."""
    story = LeftOut(Random(seed), folder)
    try:
        story.play(10 + seed % 40)
        story.settle()
        story.demand_all_rows()
    except BaseException as error:
        error.add_note(f"seed {seed}")
        raise
    return story


@pytest.mark.parametrize("block", range(2))
def test_a_table_that_comes_back_has_all_rows_or_is_refused(block: int, tmp_path: Path) -> None:
    """50 sequences each."""
    (tmp_path / "rows").mkdir()
    for table in TABLES:
        (tmp_path / "rows" / f"{table}.avsc").write_text(ROW, "utf-8")
    stories = [tell(seed, tmp_path) for seed in range(50 * block, 50 * block + 50)]

    assert sum(one.refused for one in stories) > 10 and sum(one.compared for one in stories) > 30
