"""Connectors, through a REST interface that answers as Kafka Connect's does; and what its client makes of answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from cdcv2 import failpoints
from cdcv2.control.entries import EntryState, Kind, Reason
from cdcv2.control.intents import used
from cdcv2.control.kinds.connectors import (
    ALTERED, BEFORE_DELETE, CHANGING, CHOSEN, MARK, RESUMED, STOPPED, ConnectorKind,
)  # fmt: skip
from cdcv2.errors import RefusedError, UnavailableError, UsageError
from cdcv2.store.connect_client import ConnectClient, without_secrets
from tests.fake_connect import FakeConnect, fake_connect
from tests.kinds_of_state import STORIES, KindCase

PASSWORD = "correct horse"
SETTINGS = {"connector.class": "Postgres", "database.user": "cdc", "slot.name": "shop"}


@pytest.fixture
def connect() -> Iterator[FakeConnect]:
    """A worker."""
    with fake_connect() as running:
        yield running


def case_at(connect: FakeConnect, **settings: str) -> KindCase:
    """A connector whose password is in clear text, and in no catalogue."""
    how = ConnectorKind(
        {"Connect": ConnectClient(connect.url, patience=5)}, lambda entry: {"database.password": PASSWORD}
    )

    def theirs() -> None:
        connect.configs["shop"] = {**SETTINGS, "name": "shop", MARK: "cdcv2: entry zz of lab"}

    return KindCase(
        Kind.CONNECTOR, how, "Connect", "shop", {**SETTINGS, **settings}, theirs,
        lambda: connect.configs.pop("shop"), lambda: "shop" in connect.configs, (BEFORE_DELETE, STOPPED),
    )  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_connectors_do_as_every_kind_does(story: Callable[[KindCase], None], connect: FakeConnect) -> None:
    """All of them."""
    story(case_at(connect))

    assert {} == connect.configs


@pytest.mark.parametrize(("positions", "running", "age", "waits"), [
    ([], True, 5.0, True), ([], True, 700.0, False), ([], False, 5.0, False),
    ([{"snapshot": "INITIAL", "last_snapshot_record": False, "lsn": 5}], True, 700.0, True),
    ([{"snapshot": "INITIAL", "last_snapshot_record": False, "lsn": 5}], False, 5.0, False),
    ([{"snapshot": "INITIAL", "last_snapshot_record": True, "lsn": 5}], True, 5.0, False),
    ([{"lsn": 7}], True, 5.0, False),
])
@pytest.mark.parametrize("mode", ["initial", "no_data"])
def test_a_connector_is_not_altered_in_its_first_snapshot(
    connect: FakeConnect, mode: str, positions: list[dict[str, object]], running: bool, age: float, waits: bool
) -> None:
    """It would take it again, and its capture would stop for good. One that does not work is mended at once."""
    case = case_at(connect, **{"snapshot.mode": mode})
    entry = case.up()
    how = ConnectorKind({"Connect": ConnectClient(connect.url, patience=5)}, clock=lambda: (entry.attempted or 0) + age)
    connect.positions, connect.running = positions, running
    done = how.alter(replace(entry, settings={**entry.settings, "heartbeat.interval.ms": "9"}))

    assert (waits and mode == "initial") is (done is not None and Reason.BUSY is done.reason)
    assert (done is None) is ("heartbeat.interval.ms" in connect.configs["shop"])


def test_a_secret_is_given_to_connect_and_kept_nowhere(connect: FakeConnect) -> None:
    """Neither in the catalogue, nor as drift, nor in a refusal."""
    case = case_at(connect)
    entry = case.up()
    assert PASSWORD == connect.configs["shop"]["database.password"]
    assert PASSWORD not in str(entry.to_plain())

    connect.refusal = 400, f"Connector configuration is invalid: 'database.password' {PASSWORD} is wrong"
    refused = case.up(settings={**SETTINGS, "topic.prefix": "x"})
    with pytest.raises(UsageError, match=r"a setting is wrong, of these that it names: database.password\.") as error:
        ConnectClient(connect.url).alter("shop", {})
    assert PASSWORD not in str(error.value) + str(refused.to_plain())


def test_a_changed_file_changes_the_connector_and_a_change_by_hand_is_shown(connect: FakeConnect) -> None:
    """What others did is not undone, and it is not taken for another's."""
    case = case_at(connect)
    case.up()
    changed = case.up(settings={**SETTINGS, "topic.prefix": "x"})
    assert ("x", None) == (connect.configs["shop"]["topic.prefix"], changed.debt)

    connect.configs["shop"]["topic.prefix"] = "x"
    connect.configs["shop"]["poll.interval.ms"] = "7"
    drifted = case.up(settings={**SETTINGS, "topic.prefix": "x"})
    assert drifted.debt is not None
    assert (EntryState.MADE, Reason.DRIFT, "7") == (
        drifted.state, drifted.debt.reason, connect.configs["shop"]["poll.interval.ms"]
    )
    assert "poll.interval.ms is '7', not None" in drifted.debt.text


@pytest.mark.parametrize(("name", "value", "lost"), [
    ("table.include.list", r"public\.orders", True), ("skipped.operations", "t,d", True),
    ("errors.tolerance", "all", True),
    ("table.include.list", r"public\.orders,public\.items,public\.more", False), ("heartbeat.interval.ms", "5", False),
])
def test_a_connector_that_sent_less_for_a_while_is_not_as_before(
    connect: FakeConnect, name: str, value: str, lost: bool
) -> None:
    """Somebody changes it through Connect while a job uses it, and puts it back."""
    own = {
        "table.include.list": r"public\.orders,public\.items", "skipped.operations": "none",
        "heartbeat.interval.ms": "9",
    }  # fmt: skip
    case = case_at(connect, **own)
    case.up()
    case.use()
    before = dict(connect.configs["shop"])
    connect.configs["shop"][name] = value
    away = case.go_on()
    connect.configs["shop"] = before
    back = case.go_on()

    assert away.debt is not None and f"{name} is {value!r}, not " in away.debt.text
    expected = (EntryState.LOST, Reason.LOST) if lost else (EntryState.IN_USE, Reason.DRIFT)
    assert expected == (away.state, away.debt.reason)
    assert (EntryState.LOST if lost else EntryState.IN_USE, lost) == (back.state, back.debt is not None)
    if lost:
        connect.configs.clear()
        with pytest.raises(RefusedError, match="it is missing, or another one has its name"):
            case.control().accept(["shop"])
        connect.configs["shop"] = {**before, MARK: "cdcv2: entry zz"}
        with pytest.raises(RefusedError, match="it is missing, or another one has its name"):
            case.control().accept(["shop"])


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("less", [
    {"table.include.list": r"public\.orders"}, {"skipped.operations": "t,d"}, {"errors.tolerance": "all"}, {},
])
def test_one_that_is_accepted_is_given_its_settings_and_its_mark_again(
    connect: FakeConnect, less: dict[str, str], marked: bool
) -> None:
    """Whether or not a person has put it back. A task that sends less runs no more when it has them."""
    case = case_at(connect, **{"table.include.list": r"public\.orders,public\.items", "skipped.operations": "none"})
    case.up()
    case.use()
    before = dict(connect.configs["shop"])
    connect.configs["shop"] = {**before, "errors.tolerance": "all"}
    lost = case.go_on()
    given = f"--accept-lost {lost.nonce}: it gives the connector its settings again"
    assert lost.debt is not None and given in lost.debt.text
    connect.configs["shop"] = {name: one for name, one in {**before, **less}.items() if marked or name != MARK}
    connect.asked.clear()
    # Its tasks still end, or Connect is away: it is tried again.
    connect.running = bool(less)
    accepted, = case.control().accept(["shop"])
    assert accepted.debt is not None and Reason.AWAITED is accepted.debt.reason
    waits = case.go_on()
    assert bool(less) is (waits.debt is not None and waits.debt.reason is Reason.BUSY)
    connect.running = False
    again = case.go_on()

    assert (EntryState.IN_USE, None, before) == (again.state, again.debt, connect.configs["shop"])
    assert (bool(less), set()) == (("PUT", "/connectors/shop/stop") in connect.asked, connect.stopped)
    connect.configs["shop"] = {**before, "errors.tolerance": "all"}
    assert EntryState.LOST is case.go_on().state


@pytest.mark.parametrize(("status", "reason"), [
    (409, Reason.BUSY), (403, Reason.DENIED), (401, Reason.DENIED), (500, Reason.UNREACHABLE),
])
def test_what_connect_refuses_is_owed_and_done_later(connect: FakeConnect, status: int, reason: Reason) -> None:
    """While it rebalances, without a right, and when it is broken: on the way up and on the way down."""
    case = case_at(connect)
    connect.refusal = status, "no"
    entry = case.up()
    assert entry.debt is not None and (EntryState.WANTED, reason) == (entry.state, entry.debt.reason)
    assert entry.debt.tries > 1
    connect.refusal = None
    assert EntryState.MADE is case.go_on().state

    connect.refusal = status, "no"
    entry = case.down()
    assert entry.debt is not None and (EntryState.UNWANTED, reason) == (entry.state, entry.debt.reason)
    connect.refusal = None
    assert (EntryState.GONE, {}) == (case.go_on().state, connect.configs)


def test_a_connector_that_was_deleted_is_made_again_with_its_mark(connect: FakeConnect) -> None:
    """Connect keeps its positions, so nothing is lost."""
    case = case_at(connect)
    made = case.up()
    case.catalogue.kept[made.nonce] = used(made, case.now)
    connect.configs.clear()

    assert EntryState.MADE is case.go_on().state
    assert made.nonce in connect.configs["shop"][MARK]


def test_one_whose_settings_were_sent_again_without_the_mark_is_not_called_gone(connect: FakeConnect) -> None:
    """It reads our slot, and goes on. With the mark it is removed."""
    case = case_at(connect)
    made = case.up()
    marked = connect.configs["shop"]
    connect.configs["shop"] = {"name": "shop", **SETTINGS}
    entry = case.go_on()

    assert entry.debt is not None and (EntryState.MADE, Reason.DRIFT) == (entry.state, entry.debt.reason)
    left = case.down()
    assert left.debt is not None and (EntryState.UNWANTED, Reason.DOUBTFUL) == (left.state, left.debt.reason)
    assert "shop" in connect.configs and f"'cdcv2: entry {made.nonce}'" in left.debt.text
    connect.configs["shop"] = marked
    assert (EntryState.GONE, {}) == (case.go_on().state, connect.configs)


def test_one_that_others_made_with_another_slot_is_theirs(connect: FakeConnect) -> None:
    """It has our configuration, and not the mark."""
    case = case_at(connect)
    made = case.up()
    connect.configs["shop"] = {"name": "shop", **SETTINGS, "slot.name": "another"}
    entry = case.go_on()

    assert entry.debt is not None and Reason.REFUSED is entry.debt.reason
    assert EntryState.GONE is case.down().state
    assert "shop" in connect.configs and made.nonce == entry.nonce


def test_the_positions_of_a_connector_go_with_it(connect: FakeConnect) -> None:
    """Or one of the same name, made later, would go on where this one was, on a new slot: changes would be missing."""
    case = case_at(connect)
    case.up()
    connect.running = True
    entry = case.down()
    assert entry.debt is not None
    assert (EntryState.UNWANTED, Reason.BUSY, [], True) == (
        entry.state, entry.debt.reason, connect.forgotten, "shop" in connect.configs
    )
    assert "its tasks still end" in entry.debt.text

    connect.running = False
    assert (EntryState.GONE, ["shop"], {}) == (case.go_on().state, connect.forgotten, connect.configs)


def test_a_connector_is_stopped_when_it_has_no_tasks_and_one_of_others_is_left(connect: FakeConnect) -> None:
    """As long as its tasks end, that is owed; what others put in its place runs on."""
    case = case_at(connect)
    made = case.up()
    connect.running = True
    still = case.how.stop(made)  # type: ignore[attr-defined]
    assert still is not None and (Reason.BUSY, "its tasks still end") == (still.reason, still.text[-19:])
    connect.running = False
    assert (None, {"shop"}) == (case.how.stop(made), connect.stopped)  # type: ignore[attr-defined]

    connect.stopped.clear()
    connect.configs["shop"] = {"name": "shop", **SETTINGS, MARK: "cdcv2: entry zz of lab"}
    assert (None, set()) == (case.how.stop(made), connect.stopped)  # type: ignore[attr-defined]


def test_what_others_run_may_have_any_settings(connect: FakeConnect) -> None:
    """It is there, and that is all that is asked of it here: cdcv2 doctor judges its settings."""
    connect.configs["shop"] = {"name": "shop", "tasks.max": "1"}
    entry = case_at(connect).up(owned=False, settings={})
    assert (EntryState.MADE, None) == (entry.state, entry.debt)


def test_a_connector_that_others_replaced_is_not_touched(connect: FakeConnect) -> None:
    """Between our look and our act: what is there is looked at once more."""
    case = case_at(connect)
    made = case.up()
    theirs = connect.configs["shop"] = {"name": "shop", **SETTINGS, MARK: "cdcv2: entry zz of lab"}
    case.how.destroy(made)
    case.how.alter(replace(made, settings={"x": "y"}))

    assert {"shop": theirs} == connect.configs
    assert "x" not in theirs


def test_settings_that_may_be_secrets_are_left_out() -> None:
    """By the name, or by an address with a password as the value; a reference to a place outside is kept."""
    kept = {
        "database.user": "cdc", "database.pwd": "${env:PW}", "registry.url": "http://u:${env:PW}@host/",
        "message.key.columns": "a:id", "topic.prefix": "shop", "ssl.keystore.location": "/etc/keys",
        "bootstrap.servers": "a:9092,b:9092",
    }  # fmt: skip
    secret = {
        "database.pwd": "x", "database.passwd": "x", "basic.auth.user.info": "u:x", "ssl.keystore.key": "x",
        "aws.access.key.id": "x", "registry.url": "http://u:x@host/", "store": "redis://:x@host", "a.password": "",
    }  # fmt: skip
    assert kept == without_secrets(kept)
    assert {} == without_secrets(secret)


def test_what_answers_otherwise_is_named(connect: FakeConnect) -> None:
    """No address, one with a password in it, no server, and a server that is not Connect."""
    for address, why in (
        ("localhost:8083", "is no address"), ("http://u:p@localhost:8083", "user or password"),
        ("http://localhost:8083/?api_key=p", "may be a secret"), ("http://localhost:8083#p", "may be a secret"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            ConnectClient(address)
    with pytest.raises(UnavailableError, match="does not answer"):
        ConnectClient("http://127.0.0.1:9").cluster_id()
    client = ConnectClient(connect.url)
    assert client.status("shop") is None
    client.create("shop", SETTINGS)
    assert not client.create("shop", {})
    assert "RUNNING" == (client.status("shop") or {})["connector"]["state"]
    connect.refusal = 409, "rebalance"
    with pytest.raises(RefusedError, match="try it again later|Try it again later"):
        client.delete("shop")
    connect.refusal = None
    client.delete("shop")
    client.delete("shop")
    entry = replace(case_at(connect).up(), address="Connect")

    assert [("DELETE", "/connectors/shop")] * 3 == [one for one in connect.asked if one[0] == "DELETE"]
    assert entry.is_there


@pytest.mark.parametrize("answer", [{"error": "x"}, [], [1], "hello", 7, {"kafka_cluster_id": None}])
def test_an_answer_of_something_else_is_no_answer(connect: FakeConnect, answer: object) -> None:
    """A proxy, or another program at this address: the entry waits, and names the address."""
    case = case_at(connect)
    connect.always = (answer,)
    entry = case.up()

    assert entry.debt is not None and Reason.UNREACHABLE is entry.debt.reason
    assert connect.url in entry.debt.text and "as Kafka Connect does" in entry.debt.text


@pytest.mark.parametrize("answer", [[], "x", 7, {"tasks": 7}, {"tasks": [7]}, {"connector": 7}])
def test_every_answer_has_the_form_of_connect(connect: FakeConnect, answer: object) -> None:
    """What is read of it later is there to be read."""
    client = ConnectClient(connect.url)
    connect.always = (answer,)
    for ask in (client.cluster_id, client.plugins, lambda: client.status("shop"), lambda: client.config("shop")):
        try:
            ask()
        except UnavailableError as error:
            assert connect.url in str(error)
    with pytest.raises(UnavailableError, match="as Kafka Connect does"):
        client.status("shop")


@pytest.mark.parametrize("path", ["/config", "/stop", "/offsets", "/shop", "/"])
def test_a_worker_that_starts_or_ends_does_not_state_that_a_connector_is_missing(
    connect: FakeConnect, path: str
) -> None:
    """Its 404 is a page, whatever is asked for. A connector that counted as removed would stay for ever."""
    case = case_at(connect)
    case.up()
    connect.pages = (path,)
    entry = case.down()
    assert entry.debt is not None and "while it starts or ends" in entry.debt.text
    assert (EntryState.UNWANTED, Reason.UNREACHABLE) == (entry.state, entry.debt.reason)

    connect.pages = ()
    assert (EntryState.GONE, {}, ["shop"]) == (case.go_on().state, connect.configs, sorted({*connect.forgotten}))


def test_other_tables_are_read_when_no_task_with_the_old_ones_runs(connect: FakeConnect) -> None:
    """It is stopped, changed, and resumed. As long as a task ends, it is busy, and has the old ones."""
    case = case_at(connect, **{"table.include.list": "a"})
    case.up()
    connect.running, connect.asked[:] = True, []
    busy = case.up(settings={**SETTINGS, "table.include.list": "a,b"})
    assert busy.debt is not None
    assert (Reason.BUSY, "a") == (busy.debt.reason, connect.configs["shop"]["table.include.list"])

    connect.running, connect.asked[:] = False, []
    good = case.go_on()
    changes = [path.rpartition("/")[2] for method, path in connect.asked if method == "PUT"]
    assert (None, "a,b", ["stop", "config", "resume", "config"]) == (
        good.debt, connect.configs["shop"]["table.include.list"], changes
    )
    assert (False, set()) == (CHANGING in connect.configs["shop"], connect.stopped)


@pytest.mark.parametrize("step", [CHOSEN, ALTERED, RESUMED])
@pytest.mark.parametrize("then", ["a,b", "a,b,c", "a"])
def test_a_crash_while_tables_are_changed_leaves_no_connector_stopped(
    step: str, then: str, connect: FakeConnect
) -> None:
    """The next owner finds that it was not finished, also if the file has other tables now."""
    case = case_at(connect, **{"table.include.list": "a"})
    case.up()
    with failpoints.placed(step), pytest.raises(failpoints.PlacedCrash):
        case.up(settings={**SETTINGS, "table.include.list": "a,b"})
    assert CHANGING in connect.configs["shop"]
    good = case.up(settings={**SETTINGS, "table.include.list": then})

    assert (None, then, set()) == (good.debt, connect.configs["shop"]["table.include.list"], connect.stopped)
    assert CHANGING not in connect.configs["shop"]
