"""Random sequences of up, down, change, crash and two owners, from pipeline files: nothing leaks, nothing is taken.

The file becomes what is desired, as ``cdcv2 up`` does it; jobs start and end as its loop lets them. The servers in
memory know who made what. A job that runs must never miss what it was started with, unless others removed it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from random import Random

import pytest

from cdcv2 import failpoints
from cdcv2.connectors.debezium.config import debezium_config
from cdcv2.control.entries import CatalogueEntry, EntryState, Kind, Reason
from cdcv2.control.external_work import ExternalWork
from cdcv2.control.intents import DesiredState
from cdcv2.control.pipeline_external import external_needs
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import jobs_of, with_needs
from cdcv2.control.pipeline_needs import PipelineNeeds
from cdcv2.control.reconcile import ACT_DONE, INTENT_WRITTEN
from cdcv2.control.supervisor import JobPlan

from tests.control.test_random_external_state import Story
from tests.external_world import OTHERS, WorldObject

pytest.importorskip("psycopg")
pytest.importorskip("confluent_kafka")

DATABASE, COPY, KAFKA, CONNECT = "PostgreSQL db/shop", "PostgreSQL copy/copy", "Kafka k:9092", "http://c:8083"
ADDRESSES = (DATABASE, COPY, KAFKA, CONNECT)
ROW = '{"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]}'


@dataclass(frozen=True)
class Draft:
    """A pipeline file, by what is chosen in it; None: the part is not there. A word is that of ``owned``."""

    connector: str | None = None
    prefix: str = "shop"
    snapshot: str = "initial"
    capture: str | None = None
    second: bool = False
    view: str | None = None
    target: str = "orders"
    topics: str | None = None

    def text(self) -> str:
        """As YAML."""
        lines = ["pipeline: shop", 'kafka: {bootstrap: "k:9092"}']
        if self.connector is not None:
            lines += [
                "sources:", "  shop:", f"    prefix: {self.prefix}",
                f"    notifications: {self.prefix}.notifications",
                '    postgres: {conninfo: "host=db dbname=shop"}',
                f"    connector: {{name: {self.prefix}, url: 'http://c:8083', owned: {self.connector}, "
                f"config: {self.prefix}-{self.snapshot}-{'both' if self.second else 'one'}.json}}",
                "captures:", f"  shop: {{tables: [public.orders], into: 'kafka:cdc.{{table}}', remap: 'kafka:timeline'"
                f"{_owned(self.capture)}}}",
            ]  # fmt: skip
            if self.second:
                lines.append("  items: {tables: [public.items], into: items}")
        if self.connector is not None and (self.view or self.topics):
            lines.append("views:")
            if self.view:
                lines += [
                    f"  copy: {{capture: shop, bindings: [{{log: public.orders, target: {self.target}, key: [id]}}], "
                    f"target: {{driver: postgres, conninfo: 'host=copy dbname=copy'}}{_owned(self.view)}}}",
                ]
            if self.topics:
                lines += [
                    "  out: {capture: shop, bindings: [{log: public.orders, target: out, key: [id], delta: true}], "
                    f"target: {{driver: kafka}}, recovery_log: recovery{_owned(self.topics)}}}",
                ]
        if self.connector is None:
            lines += ["views:", "  logs: {logs: {a: a}, bindings: [{log: a, target: a, key: [id]}], "
                      "target: {driver: lake, folder: lake}, recovery_log: recovery}"]  # fmt: skip
        return "\n".join(lines) + "\n"


def _owned(word: str | None) -> str:
    return f", owned: {word}" if word in ("yes", "no") else ""


@cache
def folder() -> Path:
    """A folder with what the files name; their content is the same for all."""
    import tempfile

    made = Path(tempfile.mkdtemp())
    (made / "rows").mkdir()
    for table in ("orders", "items"):
        (made / "rows" / f"public.{table}.avsc").write_text(ROW, "utf-8")
    several = {"one": ["public.orders"], "both": ["public.orders", "public.items"]}
    for prefix, snapshot, tables in product(("shop", "store"), ("initial", "no_data"), several):
        config = debezium_config(
            prefix, several[tables], host="db", port=5432, database="shop", user="cdc", publication="disabled",
            snapshot=snapshot,
        )  # fmt: skip
        (made / f"{prefix}-{snapshot}-{tables}.json").write_text(json.dumps(config), "utf-8")
    return made


@cache
def read(text: str) -> tuple[PipelineNeeds, list[JobPlan]]:
    """What the file needs, and its jobs."""
    path = folder() / "shop.yaml"
    path.write_text(text, "utf-8")
    pipeline = read_pipeline(str(path))
    return external_needs(pipeline).needs, jobs_of(pipeline)


@dataclass
class RunningJob:
    """A job that runs: which command, and the nonces of what it was started with."""

    digest: str
    needs: set[str] = field(default_factory=set)


class FileStory(Story):
    """A story whose wishes are files, with jobs that use what is made for them."""

    def __init__(self, chance: Random) -> None:
        self.draft = self.former = Draft()
        self.jobs = dict[str, RunningJob]()
        super().__init__(chance)
        self.world.slot_of, self.world.slots_by_name = _slot_of, True
        self.work_of: ExternalWork | None = None
        self._up()

    # -- what we do

    def wish(self) -> None:
        """The file is changed, and the command started again; the old one may still believe that it is the owner."""
        draw = self.chance.choice
        self.former = self.draft
        self.draft = draw((
            self.draft, Draft(), Draft(
                draw(("yes", "yes", "no")), draw(("shop", "store")), draw(("initial", "initial", "no_data")),
                draw((None, "yes", "yes", "no")), draw((True, False)), draw((None, "yes", "yes", "left", "no")),
                draw(("orders", "others")), draw((None, "yes", "left")),
            ),
        ))  # fmt: skip
        self._up()

    def other_address(self) -> None:
        """These files have one address for each server: see the sequences without files."""
        self.wish()

    def put_back(self) -> None:
        """The file is as it was before the last change."""
        self.draft, self.former = self.former, self.draft
        self._up()

    def down(self) -> None:
        """``cdcv2 down``: the jobs end, and nothing else."""
        self.jobs.clear()

    def _up(self) -> None:
        if self.chance.random() < 0.3:
            self.zombies.append(self.control)
        self.owner = self.catalogue.taken()
        self.control = self._controller()
        needs, plans = read(self.draft.text())
        self.control.desire(needs.desired(self.owner.entries()), lambda: next(self._nonces))
        self.world.given_away |= {one.nonce for one in self.owner.entries() if not one.owned}
        slots = {one.nonce for one in self.owner.entries() if one.kind is Kind.SLOT}
        for one in self.owner.entries():
            self.world.past_makers.setdefault(one.nonce, set()).update({one.maker} - {None})
            for need in slots.intersection(one.needs):
                self.world.past_makers.setdefault(need, set()).add(one.nonce)
        self.plans = {plan.name: plan.digest for plan in with_needs(plans, self.owner.entries())}
        self.work_of = ExternalWork(self.control, list(self.plans), self.owner.entries, at_work=self._outdated())

    def _outdated(self) -> set[str]:
        return {name for name, job in self.jobs.items() if self.plans.get(name) != job.digest}

    def work(self) -> None:
        """A round, and a turn of the loop."""
        assert self.work_of is not None
        self.work_of.at_work = frozenset(self._outdated())
        self.work_of.turn()
        self.start_jobs()

    def last_round(self) -> None:
        """The jobs are still there."""
        self.control.round(removing=not self._outdated())

    def start_jobs(self) -> None:
        """Jobs that were dropped or changed end after a while; those that may start do, and write."""
        assert self.work_of is not None
        self.demand_jobs_have_what_they_need()
        for name in self._outdated():
            if self.chance.random() < 0.5:
                del self.jobs[name]
        self.work_of.look()
        for name, digest in self.plans.items():
            if name not in self.jobs and self.work_of.waits(name) is None:
                ours = [one for one in self.owner.entries() if name in one.users and one.owned and one.is_live]
                assert all(one.state is EntryState.IN_USE for one in ours), (name, ours)
                self.jobs[name] = RunningJob(digest, {one.nonce for one in ours})
                for one in ours:
                    there = self.world.server(one.address).objects.get((one.kind, one.name))
                    if there is not None:
                        there.empty = False

    def demand_jobs_have_what_they_need(self) -> None:
        """Nothing was removed under a job that runs, but by others."""
        entries = {one.nonce: one for one in self.owner.entries()}
        for name, job in self.jobs.items():
            for entry in (entries[nonce] for nonce in job.needs):
                there = self.world.server(entry.address).objects.get((entry.kind, entry.name))
                found = there is not None and there.identity == entry.identity
                harmed = entry.nonce in self.world.harmed or entry.kind in (Kind.CONNECTOR, Kind.SLOT)
                assert found or harmed, (name, entry)

    def crash(self) -> None:
        """At any step; then another process reads the same file."""
        step = self.chance.choice((INTENT_WRITTEN, ACT_DONE))
        try:
            with failpoints.placed(step, self.chance.randrange(1, 6)):
                self.work()
        except failpoints.PlacedCrash:
            self._up()

    def take_over(self) -> None:
        """A job is killed, or the jobs are ended."""
        if self.jobs and self.chance.random() < 0.7:
            del self.jobs[self.chance.choice(sorted(self.jobs))]
        elif self.chance.random() < 0.3:
            self.down()

    # -- what happens to us

    def hinder(self) -> None:
        """A server goes away, or refuses us, or comes back."""
        server = self.world.server(self.chance.choice(ADDRESSES))
        server.hindered = self.chance.choice((None, None, Reason.UNREACHABLE, Reason.DENIED))

    def others_come(self) -> None:
        """With something that has content, under a name that we might want."""
        wishes = [one for one in read(self.draft.text())[0].stated if one.maker is None]
        awaited = {one.key for one in self.owner.entries() if one.attempted and not one.identity}
        for one in self.chance.sample(wishes, min(1, len(wishes))):
            if one.key not in awaited:
                made = WorldObject(self.world.identity(), OTHERS, {"size": 9}, None, empty=False)
                self.world.put(one.address, one.kind, one.name, made)


def _slot_of(entry: CatalogueEntry) -> tuple[str, str, dict[str, object]] | None:
    """A connector of Debezium makes its slot whenever it starts and finds none, with a snapshot or without."""
    if "slot.name" not in entry.settings:
        return None
    return DATABASE, entry.settings["slot.name"], {"plugin": "pgoutput", "database": "shop"}


def tell_from_files(chance: Random, steps: int) -> None:
    """One story, with its end: all is removed, and all of others is there."""
    story = FileStory(chance)
    story.play(steps)
    for _ in range(2):
        story.settle()
        story.work()
        for name in story._outdated():
            del story.jobs[name]
    story.settle()
    story.demand_jobs_have_what_they_need()
    story.demand_as_stated()
    theirs = [one for server in story.world.servers.values() for one in server.objects.values() if one.maker == OTHERS]
    # cdcv2 down --remove-external.
    story.down()
    story.control.desire(list[DesiredState](), lambda: "never")
    story.settle()
    if story.look_at_doubts():
        story.settle()

    assert {EntryState.GONE} >= {entry.state for entry in story.owner.entries()}
    left = [one for server in story.world.servers.values() for one in server.objects.values()]
    assert theirs == [one for one in left if one.maker == OTHERS]
    ours = [one for one in left if one.maker != OTHERS]
    assert [] == [one for one in ours if one.maker.removeprefix("slot of ") not in story.world.given_away]


def tell_all(seeds: range) -> None:
    """A story for each seed; a failure names it."""
    for seed in seeds:
        try:
            tell_from_files(Random(seed), 5 + seed % 36)
        except BaseException as error:
            error.add_note(f"seed {seed}, with PYTHONHASHSEED={os.environ.get('PYTHONHASHSEED')}")
            raise


@pytest.mark.parametrize("block", range(2))
def test_from_files_what_exists_is_what_the_catalogue_states(block: int) -> None:
    """50 sequences each; tests/stress has 2,000."""
    tell_all(range(50 * block, 50 * block + 50))
