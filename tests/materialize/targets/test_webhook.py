"""A webhook takes deltas: every fault of the kit, receivers in trouble, and the errors for wrong settings."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from unittest.mock import ANY

import pytest

from cdcv2 import failpoints
from cdcv2.core import Antichain
from cdcv2.errors import OutputError, RefusedError, UnavailableError, UsageError
from cdcv2.materialize import Checkpoint, Driver, MemoryRecoveryLog, Range, RecoveryLog, Runtime, ViewBinding
from cdcv2.materialize.protocol.messages import Load, Open
from cdcv2.materialize.subscriber import Subscriber
from cdcv2.materialize.targets.webhook.driver import WebhookDriver
from cdcv2.testing import Scenario, Stage, Subject, Workload, conform, scenarios
from cdcv2.testing.workload import ACCOUNTS, account

STEPS = ["push.deltas", "push.stated", "materialize.after-prepare", "materialize.after-commit"]


class Receiver(ThreadingHTTPServer):
    """Keeps the bodies that it answers 200 to; first it gives the answers that the test ordered."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        #: (headers, body) of each request, and the bodies that were taken
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self.taken: list[bytes] = []
        #: its answer to a body, without an order
        self.judge: Callable[[bytes], int] = lambda body: 200
        #: answers for the next requests: a status; 0 hangs up, -1 hangs up after it has kept the body
        self.answers: list[tuple[int, dict[str, str]]] = []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}/hook"

    def messages(self) -> Iterator[dict[str, Any]]:
        """All that was taken, in order."""
        for body in self.taken:
            yield from json.loads(body)["messages"]


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer as ordered, or take it."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((dict(self.headers), body))
        status, headers = (
            self.server.answers.pop(0) if self.server.answers else (self.server.judge(body), {})
        )
        if status in (200, -1):
            self.server.taken.append(body)
        if status <= 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Nothing on standard error."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """One that answers 200."""
    with Receiver() as started:
        yield started
        started.shutdown()


class WebhookSubject(Subject):
    """A receiver, and behind it a subscriber."""

    delta = True
    splits = False
    receiver: ClassVar[Receiver]

    def __init__(self) -> None:
        self.recovery, self.seen = MemoryRecoveryLog("conformance"), 0
        self.receiver.taken.clear()
        self.subscriber = Subscriber(Workload("delta").bindings)

    def driver(self) -> Driver:
        """One that posts a few at a time."""
        return WebhookDriver(self.receiver.url, batch=3)

    def log(self) -> RecoveryLog | None:
        """The one."""
        return self.recovery

    def view(self) -> dict[str, dict[Any, Any]]:
        """What the subscriber has made of it."""
        for body in self.receiver.taken[self.seen:]:
            self.seen += 1
            for message in json.loads(body)["messages"]:
                self.subscriber.take(message)
        return self.subscriber.view


@pytest.mark.parametrize("scenario", scenarios(WebhookSubject), ids=str)
def test_it_comes_through_every_fault(receiver: Receiver, scenario: Scenario) -> None:
    """And the subscriber's view is a consistent cut at any moment."""
    WebhookSubject.receiver = receiver
    conform(WebhookSubject, scenario)


@pytest.mark.parametrize("step", STEPS)
def test_what_was_pushed_before_a_crash_is_pushed_again_as_it_was(receiver: Receiver, step: str) -> None:
    """The same requests, byte for byte, so that a receiver can go by their keys alone."""
    WebhookSubject.receiver = receiver
    stage = Stage(WebhookSubject(), Workload("delta"))
    with failpoints.placed(step, 4), pytest.raises(failpoints.PlacedCrash):
        stage.instance().finish()
    before = list(receiver.taken)

    assert "done" == stage.instance().finish()
    stage.demand_whole()
    repeated = [body for body in receiver.taken[len(before):] if body in before]
    keys = {headers["Idempotency-Key"]: body for headers, body in receiver.asked}

    assert len(set(receiver.taken)) == len(receiver.taken) - len(repeated) == len(keys)
    assert bool(repeated) == (step in ("push.deltas", "push.stated"))
    stage.close()


def keep(receiver: Receiver, waits: list[float], **options: Any) -> Subscriber:
    """A small materialization; what its subscriber has."""
    work = Workload("delta", cuts=2)
    driver = WebhookDriver(options.pop("url", receiver.url), pause=waits.append, **options)
    Runtime("m", work.bindings, driver, work.source, log=MemoryRecoveryLog("m")).run()
    subscriber = Subscriber(work.bindings)
    for message in receiver.messages():
        subscriber.take(message)

    assert not subscriber.frontier
    return subscriber


def test_a_receiver_in_trouble_is_asked_again(receiver: Receiver) -> None:
    """Longer and longer later, or as the receiver demands; what it took without an answer is a duplicate."""
    waits: list[float] = []
    receiver.answers += [(503, {}), (0, {}), (429, {"Retry-After": "7"}), (-1, {}), (500, {}), (200, {})]
    subscriber = keep(receiver, waits)

    assert [0.5, 1.0, 7.0, 14.0, 28.0] == waits
    assert subscriber.repeats > 0
    assert subscriber.view["account_total"]


def test_one_that_stays_in_trouble_is_given_up(receiver: Receiver) -> None:
    """With its last answer; and a port without a server is reported, too."""
    waits: list[float] = []
    receiver.answers += [(503, {})] * 3
    with pytest.raises(UnavailableError, match=r"3 times: 503 Service Unavailable; see to it"):
        keep(receiver, waits, attempts=3)

    assert [0.5, 1.0] == waits

    receiver.shutdown()
    receiver.server_close()
    with pytest.raises(UnavailableError, match="refused"):
        keep(receiver, waits, attempts=1)


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"])
def test_an_answer_that_comes_a_byte_at_a_time_is_given_up(said: bytes) -> None:
    """In the headers, and behind them: no operation of it ever takes long, and it never ends."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_trickle, args=[server, said], daemon=True).start()
        driver = WebhookDriver(
            f"http://127.0.0.1:{server.getsockname()[1]}/", attempts=2, timeout=0.3, pause=[].append
        )
        work = Workload("delta", cuts=1)
        with pytest.raises(UnavailableError, match="2 times: no whole answer in 0.3 seconds; see to it"):
            Runtime("m", work.bindings, driver, work.source, log=MemoryRecoveryLog("m")).run()


def _trickle(server: socket.socket, said: bytes) -> None:
    """For each client, for as long as it stays, but not for ever: then it answers 200 as others do."""
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            try:
                client.sendall(said)
                for _ in range(200):
                    threading.Event().wait(0.05)
                    client.sendall(b"x")
                client.sendall(b"\r\nContent-Length: 0\r\n\r\n")
            except OSError:
                continue


@pytest.mark.parametrize(
    ("status", "text"),
    [(409, "409 Conflict; .* is another log, or an old one .* and start again"),
     (404, "404 Not Found; correct the address"), (302, "name its final address"),
     (413, "make batch or batch_bytes")],
)
def test_a_refusal_is_not_repeated(receiver: Receiver, status: int, text: str) -> None:
    """A redirect is one: as a GET it would lose its body. Secrets are not shown."""
    receiver.answers += [(status, {"Location": "/elsewhere"})]
    with pytest.raises(OutputError, match=text) as caught:
        keep(receiver, [], url=f"{receiver.url}?token=secret-1", headers={"Authorization": "secret-2"})

    assert "secret" not in str(caught.value)
    assert 1 == len(receiver.asked)
    assert "secret-2" == receiver.asked[0][0]["Authorization"]


def test_a_receiver_refuses_a_recovery_log_that_is_old(receiver: Receiver) -> None:
    """What it has taken stays what it is; with the right log the run goes on."""
    work, right = Workload("delta"), MemoryRecoveryLog("m")
    cuts = list(work.source(Checkpoint(Antichain([0]))))
    subscriber = Subscriber(work.bindings)

    def keep(number: int, log: MemoryRecoveryLog) -> None:
        Runtime("m", work.bindings, WebhookDriver(receiver.url), lambda _: iter(cuts[:number]), log=log, rows=1).run()

    def judge(body: bytes) -> int:
        try:
            for message in json.loads(body)["messages"]:
                subscriber.take(message)
        except RefusedError:
            return 409
        return 200

    receiver.judge = judge
    keep(1, right)
    old = MemoryRecoveryLog("m")
    old._text = right._text
    keep(2, right)
    with pytest.raises(OutputError, match="409 Conflict; what it has continues where this recovery log does not"):
        # From the same place, up to another one: as a run with the old log would by chance.
        Runtime("m", work.bindings, WebhookDriver(receiver.url), lambda _: iter(cuts[:4]), log=old).run()
    keep(99, right)

    assert work.truth() == work.shown(subscriber.view)


class Flood(Workload):
    """A row for each of these texts, in one transaction."""

    def __init__(self, *texts: str) -> None:
        super().__init__("delta")
        self.history = [(0, "accounts", account(f"account {at}", text), 1) for at, text in enumerate(texts)]


def flood(receiver: Receiver, *texts: str, **options: Any) -> list[tuple[int, int]]:
    """Push these rows; the messages and bytes of each request."""
    work = Flood(*texts)
    binding = ViewBinding("accounts", ACCOUNTS, "now", ("name",), delta=True)
    driver = WebhookDriver(receiver.url, pause=[].append, **options)
    Runtime("m", [binding], driver, work.source, log=MemoryRecoveryLog("m")).run()
    return [(len(json.loads(body)["messages"]), len(body)) for _, body in receiver.asked]


def test_a_request_has_no_more_bytes_than_it_may_and_the_subscriber_has_all(receiver: Receiver) -> None:
    """As many messages as there is room for, to the byte: one byte less, and one message less."""
    texts = ["x" * 100] * 20
    ((_, whole), _) = flood(receiver, *texts)
    receiver.asked.clear()

    assert [(20, whole), (1, ANY)] == flood(receiver, *texts, batch_bytes=whole)
    receiver.asked.clear()
    requests = flood(receiver, *texts, batch_bytes=whole - 1)
    assert [19, 1, 1] == [messages for messages, _ in requests]
    receiver.asked.clear()
    requests = flood(receiver, *texts, batch_bytes=1500)

    assert all(size <= 1500 for _, size in requests)
    assert 21 == sum(messages for messages, _ in requests) and 4 <= requests[0][0]


def test_a_row_of_ten_megabytes_is_posted_alone(receiver: Receiver) -> None:
    """Those before it and behind it go as if it were not there; a receiver that refuses it learns which row it was."""
    requests = flood(receiver, "a", "b", "x" * 10_000_000, "c", "d")

    assert [2, 1, 2, 1] == [messages for messages, _ in requests]
    assert 10_000_000 < requests[1][1]
    receiver.answers += [(200, {}), (413, {})]
    said = r"one delta of 'now' alone, with 10000\d+ bytes, .*\"account 2\".*: let"
    with pytest.raises(OutputError, match=said) as told:
        flood(receiver, "a", "b", "x" * 10_000_000, "c", "d")
    assert len(str(told.value)) < 500


@pytest.mark.parametrize(
    ("url", "headers", "text"),
    [("http://h:hush/x", {}, "cannot be read"), ("http://h:99999/?hush", {}, "cannot be read"),
     ("http://[::1/hush", {}, "cannot be read"), ("http://u:hush@h/x", {}, "http://h/x: a user or a password"),
     ("http://h/a?token=hush hush", {}, "'http://h/a': the address has blanks"),
     ("http://h/\xe4?hush", {}, "%-escapes"), ("http://h\n/?hush", {}, "%-escapes"),
     ("http://h/", {"Authorization": "hush\n"}, "header 'Authorization' has a line break"),
     ("http://h/", {"Authorization": "\u20achush"}, "beyond Latin-1"), ("http://h/", {"X: y": "hush"}, "no name")],
)  # fmt: skip
def test_what_cannot_be_sent_is_said_at_once_and_without_secrets(url: str, headers: dict[str, str], text: str) -> None:
    """Not as a mistake in the program, and not after minutes of trying."""
    with pytest.raises(UsageError, match=text) as caught:
        WebhookDriver(url, headers=headers)

    assert "hush" not in str(caught.value) and caught.value.__cause__ is None


def test_what_cannot_be_pushed_is_refused(receiver: Receiver) -> None:
    """Views, a share of the keys, wrong addresses and numbers, a look-up."""
    (binding,) = [one for one in Workload().bindings if one.target == "account_now"]
    view, change = binding.view().table, ViewBinding(binding.log, binding.row_type, "t", delta=True).view().table
    driver = WebhookDriver(receiver.url)
    for message, text in [(Open("m", (view,)), "set delta to true"), (Open("m", (change,), Range(0, 9)), "no ranges")]:
        with pytest.raises(UsageError, match=text):
            driver.open(message)
    wrong: list[tuple[str, dict[str, Any]]] = [("file:///etc/passwd", {}), ("http://", {})]
    for url, options in [*wrong, ("http://h/", {"batch": 0}), ("http://h/", {"batch_bytes": 0})]:
        with pytest.raises(UsageError):
            WebhookDriver(url, **options)
    with pytest.raises(RefusedError, match="looked up"):
        driver.load(Load(0, ("k",)))
