"""What a recipe without some tables leaves to be written in their logs, and how it is brought up to where it begins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cdcv2.capture.binder import Binder
from cdcv2.capture.connector import FROM_STATE
from cdcv2.capture.run import omitted_tables as module
from cdcv2.capture.run.omitted_tables import CaptureLogs, EarlierRecipe, _request, bring_up, check_left_out, left_out
from cdcv2.connectors.debezium.recipe import Recipe
from cdcv2.errors import MissingLogError, RefusedError, UnavailableError, UsageError
from cdcv2.failpoints import PlacedCrash, placed
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.memory import MemoryLog
from cdcv2.protocol.iter import Iter
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER
from cdcv2.timeline.recipe import MAPPING, BoundRecipe
from cdcv2.timeline.records import RecipeEpoch
from tests.capture.run.test_on_remap import ROWS, Stage

OTHER = RowType({"type": "record", "name": "u", "fields": [{"name": "id", "type": "int"}]})
TOPICS = LogAddress.parse("kafka:of.{table}")


def unasked(*_: Any) -> Any:
    """What may not be called."""
    raise AssertionError("not to be asked for")


def logs(
    address: LogAddress, rows: Path, opened: Callable[[str, RowType], Log] = unasked, ranges: Any = unasked,
    at_most: int = 1,
) -> CaptureLogs:
    """By default none may be opened."""
    return CaptureLogs(address, rows, opened, ranges, at_most)


def saved(path: Path, kind: RowType = ROWS) -> Path:
    """A row type in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kind.schema), "utf-8")
    return path


def of(kind: RowType = ROWS, **more: str) -> dict[str, str]:
    """A table in a recipe."""
    return {"row": kind.fingerprint, **more}


def test_the_row_type_of_a_directory_is_its_own(tmp_path: Path) -> None:
    """Where the log is there, and was bound with it."""
    found = logs(LogAddress.parse(str(tmp_path)), tmp_path / "rows")
    assert found.kind("a", of()) is None
    DirectoryLog(tmp_path / "a", ROWS, create=True).close()

    assert ROWS == found.kind("a", of())
    assert found.kind("a", of(OTHER)) is None


def test_the_row_type_of_a_topic_is_in_a_folder(tmp_path: Path) -> None:
    """In that of its database first; else beside these. A plain topic's is called like its log."""
    found, bank = logs(TOPICS, tmp_path), of(database="bank", table="public.t")
    assert found.kind("bank.public.t", bank) is None
    saved(tmp_path / "public.t.avsc")
    assert ROWS == found.kind("bank.public.t", bank)
    saved(tmp_path / "bank" / "public.t.avsc", OTHER)
    assert found.kind("bank.public.t", bank) is None
    assert OTHER == found.kind("bank.public.t", of(OTHER, database="bank", table="public.t"))
    saved(tmp_path / "clicks.avsc")
    for other in ("None", "XXXX"):
        saved(tmp_path / other / "clicks.avsc", OTHER)

    assert ROWS == found.kind("clicks", of(topic="web.clicks"))


def stated(upper: int | None, **description: str) -> MemoryLog:
    """A topic that is stated up to there, by two messages; with rows that are not looked at."""
    log = MemoryLog("of.a")
    log.describe(LogDescription(**description))
    if upper is not None:
        begins = int(description.get("start", 0))
        log.send(Updates([("x", begins, 1)]))
        log.send(Progress([begins], [begins + 1], {begins: 1}))
        log.send(Progress([begins + 1], [upper], {}))
    log.flush()
    return log


def contradicting() -> MemoryLog:
    """The same, with two counts for one time: that is for the log's readers to decide."""
    log = stated(70)
    log.send(Progress([0], [1], {0: 2}))
    log.flush()
    return log


def demanded(log: Log | None, rows: Path, until: int | None) -> list[Any]:
    """How it was opened, where the row type of the topic of a table was demanded."""
    found: list[Any] = []

    def opened(name: str, kind: RowType) -> Log:
        found.append((name, kind.columns))
        if log is None:
            raise MissingLogError("there is no topic")
        return log

    logs(TOPICS, rows, opened).demand_kind("a", of(topic="web.a"), until)
    return found


@pytest.mark.parametrize(
    ("log", "until"),
    [
        (None, 70), (stated(70), 70), (stated(71), 70), (contradicting(), 70), (stated(None, start="none"), 70),
        (stated(None, start="partial"), 9),
        (stated(90, start="30"), 70),
    ],
)  # fmt: skip
def test_a_topic_that_lacks_nothing_needs_no_row_type(tmp_path: Path, log: Log | None, until: int) -> None:
    """It is missing, is stated so far, or nothing is stated of its table."""
    assert [("a", ("unknown",))] == demanded(log, tmp_path, until)


def test_a_row_type_that_is_there_needs_no_look_at_the_topic(tmp_path: Path) -> None:
    """And a directory has its own."""
    saved(tmp_path / "a.avsc")
    assert [] == demanded(None, tmp_path, 70)
    logs(LogAddress.parse(str(tmp_path)), tmp_path / "rows").demand_kind("a", of(), 70)


@pytest.mark.parametrize(
    ("log", "until", "far"),
    [
        (stated(69), 70, " from the time 70 on (stated through 68)."),
        (stated(69, start="30"), 70, " from the time 70 on (stated through 68)."),
        (stated(90), None, "."),
    ],
)
def test_a_topic_that_lacks_something_needs_its_row_type(
    tmp_path: Path, log: Log, until: int | None, far: str
) -> None:
    """The error has the file that is missing, or is another one."""
    with pytest.raises(RefusedError) as caught:
        demanded(log, tmp_path, until)
    text = f"a is left out{far} What was bound before belongs into its log, the topic 'of.a', and that needs its row "
    assert f"{text}type: {tmp_path / 'a.avsc'} is missing. Put it back" in str(caught.value)
    saved(tmp_path / "a.avsc", OTHER)
    with pytest.raises(RefusedError) as caught:
        demanded(log, tmp_path, until)
    assert f"type: {tmp_path / 'a.avsc'} is another one than it was bound with. Put" in str(caught.value)


def test_of_two_files_the_one_of_the_database_is_named(tmp_path: Path) -> None:
    """As it is looked at first; where neither is there, the other one is asked for."""
    found, bank = logs(TOPICS, tmp_path, lambda name, kind: stated(3)), of(database="bank", table="public.t")
    with pytest.raises(RefusedError, match=f"{tmp_path / 'public.t.avsc'} is missing"):
        found.demand_kind("bank.public.t", bank, 70)
    inner = saved(tmp_path / "bank" / "public.t.avsc", OTHER)
    with pytest.raises(RefusedError, match=f"{inner} is another one"):
        found.demand_kind("bank.public.t", bank, 70)


def recipe(*tables: str, **more: Any) -> BoundRecipe:
    """A recipe of plain topics."""
    return BoundRecipe({table: of(topic=f"topic-{table}") for table in tables}, timeline="drawn", **more)


def epochs(*recipes: tuple[int, BoundRecipe]) -> list[RecipeEpoch]:
    """As they follow each other."""
    return [RecipeEpoch(number, since, one.text()) for number, (since, one) in enumerate(recipes)]


def test_what_later_recipes_leave_out() -> None:
    """Each earlier one that has the table, up to where the next begins; one that comes back is left out, too."""
    found = left_out(epochs(
        (0, recipe("a", "b", "c")), (10, recipe("a", "b")), (20, recipe("b", "d")), (30, recipe("a", "b", "d")),
    ))  # fmt: skip

    assert [({"a", "c"}, 10), ({"a"}, 20)] == [(set(one.tables), one.until) for one in found]
    assert [] == list(left_out(epochs((0, recipe("a")), (5, recipe("a", "b")))))
    assert [] == list(left_out(epochs((0, recipe("a")))))


class Asking:
    """Notes of which logs row types are demanded."""

    def __init__(self, bound: BoundRecipe, ours: BoundRecipe) -> None:
        self.bound, self.recipe = bound, ours
        self.asked: list[Any] = []

    def demand_kind(self, *of: Any) -> None:
        """Note it."""
        self.asked.append(of)


def test_before_a_proposal_all_that_it_leaves_out_is_demanded() -> None:
    """In order; it is not known yet how far they must come. Recipes of an older mapping are left to older releases."""
    bound = recipe("b", "c", "a")
    both: Any = Asking(bound, recipe("c", "d"))
    check_left_out(both, both)
    assert [("a", bound.tables["a"], None), ("b", bound.tables["b"], None)] == both.asked
    older: Any = Asking(recipe("b", "a", mapping=MAPPING - 1), recipe("a"))
    check_left_out(older, older)

    assert [] == older.asked


BANK = {"snapshot": "none", "notifications": "notes", "transactions": "ends", "ordering": AS_COMPLETE,
        "full_identity": ["public.t"]}  # fmt: skip


def bank(*tables: str, **more: Any) -> EarlierRecipe:
    """A recipe of a plain topic, and of a database with two tables; these were left out."""
    names = {name: of(kind, database="bank", table=f"public.{name}") for name, kind in (("t", ROWS), ("u", OTHER))}
    return EarlierRecipe(
        BoundRecipe({"a": of(topic="web.a"), **names}, {"bank": {**BANK, **more}}), frozenset(tables), 70
    )


def test_what_an_earlier_recipe_asked_for() -> None:
    """As far as row types are given; of a database all of it, with its options."""
    asked = _request(bank("t"), {"a": ROWS, "t": ROWS, "u": OTHER})
    assert ({"a": ("web.a", ROWS)}, AS_COMPLETE) == (asked.plain, asked.ordering)
    assert {"bank": (
        Recipe("bank", {"public.t": ROWS, "public.u": OTHER}, snapshot="none", notification_topic="notes",
               transaction_topic="ends", full_identity=frozenset({"public.t"})),
        {"public.t": "t", "public.u": "u"},
    )} == asked.databases  # fmt: skip
    more = _request(bank("t", before=FROM_STATE, empty=["public.u"], snapshot="initial"), {"t": ROWS, "u": OTHER})
    (made, _) = more.databases["bank"]
    assert (FROM_STATE, {"public.u"}, "initial", {}) == (made.before, made.empty, made.snapshot, more.plain)


def test_a_database_with_a_log_that_is_missing_is_written_by_none() -> None:
    """That is an error where its tables were left out and are there; else it is none of our business."""
    asked = _request(bank("a"), {"a": ROWS, "t": ROWS})
    assert ({"a": ("web.a", ROWS)}, {}, COMMIT_ORDER) == (asked.plain, asked.databases, asked.ordering)
    assert {} == _request(bank("u"), {"a": ROWS, "t": ROWS}).databases
    with pytest.raises(MissingLogError, match="the log of u is not there"):
        _request(bank("t"), {"a": ROWS, "t": ROWS})


def test_a_database_of_a_kind_that_is_not_known() -> None:
    """A later release bound it."""
    with pytest.raises(UsageError, match="there is no connector 'other'"):
        _request(bank("t", kind="other"), {"t": ROWS, "u": OTHER})


class Site(Stage):
    """Two topics, of which two records are written; of both there are two more, which are bound only."""

    def __init__(self) -> None:
        super().__init__()
        for table in "ab":
            self.topics.add((f"topic-{table}", 0), "x", "x")
        self.remarks: list[str] = []

    def binder(self, tables: str = "a", *, propose: bool = False, mapping: int = MAPPING, **more: Any) -> Any:
        """A recipe of this release, whose rows have the type of the logs."""
        made = recipe(*tables, mapping=mapping)
        topics = frozenset(f"topic-{table}" for table in tables)
        binder = Binder(self.remap, made, topics=topics, now=self.now, **more)
        binder.begin(self.topics.look(), needed=topics, propose=propose)
        return binder

    def lack(self, mapping: int = MAPPING) -> int:
        """Both are bound, and neither written; up to where that is."""
        self.run("ab", mapping=mapping)
        for table in "ab":
            self.topics.add((f"topic-{table}", 0), "y", "y")
        binder = self.binder("ab", mapping=mapping)
        binder.bind(self.topics.look())
        return int(binder.remap.last)

    def up(self, binder: Any, folder: Path, *missing: str) -> None:
        """Bring up what the recipe before left; logs are in memory, with row types in a folder."""
        for table in set("ab") - set(missing):
            saved(folder / f"{table}.avsc")

        def opened(name: str, kind: RowType) -> Log:
            if name in missing:
                raise MissingLogError("there is no topic")
            return self.logs[name]

        bring_up(binder, logs(TOPICS, folder, opened, lambda asked: self.topics), self.remarks.append)

    def known(self, table: str) -> int:
        """Up to where a log is complete."""
        stated = [message for message in self.logs[table].messages if isinstance(message, Progress)]
        return max(message.upper.elements[0] for message in stated)

    def texts(self, table: str) -> list[str]:
        """The rows of a log, once for each that is there."""
        return sorted(
            row.text for batch in Iter(self.logs[table].messages) for row, _, diff in batch.updates for _ in range(diff)
        )


@pytest.fixture
def site() -> Site:
    """As above."""
    return Site()


def test_the_logs_are_brought_up_to_where_the_recipe_begins(site: Site, tmp_path: Path) -> None:
    """With what was bound before, in those that stay too; a second time there is nothing to do."""
    site.lack()
    binder = site.binder("a", propose=True)
    site.up(binder, tmp_path)

    begins = binder.recipes[-1].since
    assert (["x", "x", "y", "y"], ["x", "x", "y", "y"]) == (site.texts("a"), site.texts("b"))
    assert begins <= site.known("b") and begins <= site.known("a")
    assert [] == site.remarks
    before = [len(site.logs[table].messages) for table in "ab"]
    site.up(binder, tmp_path)
    assert before == [len(site.logs[table].messages) for table in "ab"]


def test_nothing_was_left_out(site: Site, tmp_path: Path) -> None:
    """No log is looked at."""
    site.lack()
    bring_up(site.binder("ab"), logs(TOPICS, tmp_path), site.remarks.append)

    assert ["x", "x"] == site.texts("a")


def test_a_log_that_is_missing_is_not_made(site: Site, tmp_path: Path) -> None:
    """Neither are the others written, which a capture of the recipe before brings up."""
    site.lack()
    site.up(site.binder("a", propose=True), tmp_path, "b")

    assert (["x", "x"], []) == (site.texts("a"), site.remarks)


def test_a_topic_that_needs_its_row_type_is_refused(site: Site, tmp_path: Path) -> None:
    """Up to where it has to come is known now."""
    site.lack()
    binder = site.binder("a", propose=True)
    with pytest.raises(RefusedError, match=f"b is left out from the time {binder.recipes[-1].since} on"):
        bring_up(binder, logs(TOPICS, tmp_path, lambda name, kind: site.logs[name]), site.remarks.append)


def test_what_can_be_written_no_more_is_named_and_the_others_are_written(site: Site, tmp_path: Path) -> None:
    """The topic has lost records that are bound."""
    site.lack()
    site.topics.lows["topic-b", 0] = 3
    binder = site.binder("a", propose=True)
    site.up(binder, tmp_path)

    (remark,) = site.remarks
    assert remark.startswith(
        f"the log of b, left out from the time {binder.recipes[-1].since} on, may end before that: the topic 'topic-b'"
    )
    assert (["x", "x", "y", "y"], ["x", "x"]) == (site.texts("a"), site.texts("b"))


def test_what_may_answer_later_is_an_error(site: Site, tmp_path: Path) -> None:
    """The next start does it."""
    site.lack()
    binder = site.binder("a", propose=True)

    def unavailable(asked: Any) -> Any:
        raise UnavailableError("the broker does not answer")

    for table in "ab":
        saved(tmp_path / f"{table}.avsc")
    with pytest.raises(UnavailableError):
        bring_up(binder, logs(TOPICS, tmp_path, lambda name, kind: site.logs[name], unavailable), site.remarks.append)

    assert [] == site.remarks


def test_tables_are_left_out_one_after_the_other(site: Site, tmp_path: Path) -> None:
    """One of them has no log: that ends nothing."""
    site.logs["c"] = MemoryLog("c")
    site.topics.add(("topic-c", 0), "x")
    site.binder("c").bind(site.topics.look())
    site.binder("b", propose=True).bind(site.topics.look())
    site.up(site.binder("a", propose=True), tmp_path, "c")

    assert (["x", "x"], []) == (site.texts("b"), site.remarks)


def test_what_the_earlier_capture_is_made_of(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what the recipe before asked for, at the address, and with as many records at once as ours."""
    site.lack()
    seen: list[Any] = []
    outputs, capture = module.remap_outputs, module.SharedCapture

    def made(asked: Any, address: Any, *more: Any) -> Any:
        seen.append((asked.topics, address))
        return outputs(asked, address, *more)

    def carrying(*parts: Any, at_most: int | None = None) -> Any:
        seen.append(at_most)
        return capture(*parts, at_most=7)

    def ranges(asked: Any) -> Any:
        seen.append(asked.topics)
        return site.topics

    monkeypatch.setattr(module, "remap_outputs", made)
    monkeypatch.setattr(module, "SharedCapture", carrying)
    for table in "ab":
        saved(tmp_path / f"{table}.avsc")
    there = logs(TOPICS, tmp_path, lambda name, kind: site.logs[name], ranges, at_most=3)
    bring_up(site.binder("a", propose=True), there, site.remarks.append)

    both = {"topic-a", "topic-b"}
    assert [both, (both, TOPICS), 3] == seen


def test_all_tables_of_a_lost_recipe_are_named(site: Site, tmp_path: Path) -> None:
    """In order; where none is left there is nothing to write."""
    site.lack()
    site.topics.add(("topic-c", 0), "x")
    site.topics.lows["topic-b", 0] = 3
    site.up(site.binder("c", propose=True), tmp_path)

    assert site.remarks[0].startswith("the log of a, b, left out from")


def test_an_older_mapping_needs_no_row_type(site: Site, tmp_path: Path) -> None:
    """It is not written here."""
    site.lack(mapping=MAPPING - 1)
    binder = site.binder("a", propose=True)
    bring_up(binder, logs(TOPICS, tmp_path, lambda name, kind: site.logs[name]), site.remarks.append)

    assert [] == site.remarks


def test_recipes_of_an_older_mapping_are_left_to_their_captures(site: Site, tmp_path: Path) -> None:
    """It is a remark, and nothing is written."""
    site.lack(mapping=MAPPING - 1)
    site.up(site.binder("a", propose=True), tmp_path)

    (remark,) = site.remarks
    assert remark.endswith("an earlier version of cdcv2 has begun it, whose captures write it")
    assert ["x", "x"] == site.texts("a") == site.texts("b")


@pytest.mark.parametrize(("step", "written"), [("in-force", ["x", "x"]), ("brought", ["x", "x", "y", "y"])])
def test_a_crash_there(site: Site, tmp_path: Path, step: str, written: list[str]) -> None:
    """Before and behind the writing."""
    site.lack()
    binder = site.binder("a", propose=True)
    with placed(f"left-out.{step}"), pytest.raises(PlacedCrash):
        site.up(binder, tmp_path)

    assert written == site.texts("b")
