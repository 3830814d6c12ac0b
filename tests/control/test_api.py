"""The API in this process: who may use it, what it refuses, and that no client holds the loop that keeps the jobs."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2.control.api.address import api_of, listen, parse_address, published, url_of
from cdcv2.control.api.application import ApiAnswers, application
from cdcv2.control.api.limits import ALLOWED, BODY, HEADERS, BackgroundAnswer, RateLimit, RecentAnswer
from cdcv2.control.api.loop_requests import MOST, LoopRequests
from cdcv2.control.api.server import READERS, BoundedConnection, serving
from cdcv2.control.api.token_file import token_of
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.page.document import page_document
from cdcv2.errors import MalformedError, OutputError, UnavailableError, UsageError

TOKEN = "a-token-for-tests-alone"
#: Seconds that a test waits for what must come.
PATIENCE = 60
STATUS = {"pipeline": "shop", "owner": None, "jobs": [{"name": "copy", "state": "held"}, {"name": "orders"}]}


class Port:
    """An API at a port of its own, which answers out of :data:`STATUS`."""

    def __init__(self, opened: ExitStack, answers: ApiAnswers, **bounds: Any) -> None:
        listening = listen("127.0.0.1:0", unencrypted=False)
        self.number = listening.getsockname()[1]
        limit = RateLimit(bounds.pop("rate", 1e6), bounds.pop("burst", 1e6))
        refusals = RateLimit(bounds.pop("refused", 1e6), bounds.pop("refused_burst", 1e6))
        made = application(answers, TOKEN, limit=limit, refusals=refusals)
        self.thread = opened.enter_context(serving(made, listening, **bounds))

    def ask(
        self, method: str, path: str, token: str | None = f"Bearer {TOKEN}", **headers: str
    ) -> tuple[int, Any, http.client.HTTPResponse]:
        """Code, answer, and the response itself."""
        client = http.client.HTTPConnection("127.0.0.1", self.number, timeout=PATIENCE)
        try:
            client.putrequest(method, path)
            for name, value in {**headers, **({} if token is None else {"Authorization": token})}.items():
                client.putheader(name.replace("_", "-"), value)
            client.endheaders()
            response = client.getresponse()
            return response.status, json.loads(response.read()), response
        finally:
            client.close()

    def connected(self, data: bytes) -> socket.socket:
        """A connection over which a client has sent this, and no more."""
        client = socket.create_connection(("127.0.0.1", self.number), timeout=PATIENCE)
        client.sendall(data)
        return client


def answers(**changed: Any) -> ApiAnswers:
    mine = ApiAnswers(
        lambda: STATUS, lambda: {"entries": []}, lambda: "cdcv2_kept_running 1.0\n", lambda width: {"width": width},
        lambda name: name == "copy", lambda: True,
    )
    return mine._replace(**changed)


@contextmanager
def api(made: ApiAnswers | None = None, **bounds: Any) -> Iterator[Port]:
    with ExitStack() as opened:
        yield Port(opened, made or answers(), **bounds)


def everything(client: socket.socket) -> bytes:
    """What the server sends until it ends the connection; a reset ends it, too."""
    found = b""
    try:
        while more := client.recv(65536):
            found += more
    except ConnectionResetError:
        pass
    return found


def answered(port: Port) -> Any:
    """The status, though a machine that is busy may cut the connection of a client that did nothing wrong."""
    while True:
        try:
            return port.ask("GET", "/v1/status")[1]
        except (http.client.RemoteDisconnected, ConnectionResetError):
            pass


def test_the_paths_answer_with_the_token_alone() -> None:
    """Health is the one path without a token; no refusal shows the token, or whether the path exists."""
    with api() as port:
        right = [port.ask("GET", path)[:2] for path in ("/v1/status", "/v1/jobs/copy", "/v1/external", "/v1/health")]
        released = [port.ask("POST", f"/v1/jobs/{name}/release")[1] for name in ("copy", "orders")]
        tokens = (None, "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer ", f"bearer {TOKEN[:-1]}")
        paths = ("/v1/status", "/v1/jobs/copy/release", "/nothing")
        refused = [port.ask("GET", path, token) for path in paths for token in tokens]
        health = port.ask("GET", "/v1/health", None)
        scrape = f"GET /v1/metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        with port.connected(scrape.encode()) as one:
            metrics = everything(one)

    assert right == [(200, STATUS), (200, STATUS["jobs"][0]), (200, {"entries": []}), (200, {"alive": True})]
    assert released == [{"name": "copy", "released": True}, {"name": "orders", "released": False}]
    assert health[:2] == (200, {"alive": True})
    assert {(code, response.headers["WWW-Authenticate"]) for code, _, response in refused} == {(401, "Bearer")}
    assert {tuple(sorted(answer)) for _, answer, _ in refused} == {("reason", "remedy")}
    assert TOKEN not in str(refused)
    assert b"text/plain; version=0.0.4" in metrics and metrics.endswith(b"\r\n\r\ncdcv2_kept_running 1.0\n")


def test_the_page_is_for_everybody_and_what_it_shows_is_not() -> None:
    """It is the same whatever is asked for with it, and has no token in it. The width of a screen is kept in bounds."""
    widths = ("", "?width=", "?width=344", "?width=1280", "?width=99999", "?width=-5", "?width=x&token=y")
    with api() as port:
        pages = []
        for head in (f"GET / HTTP/1.1\r\nAuthorization: Bearer {TOKEN}", "GET / HTTP/1.1", "GET /?a=b HTTP/1.1",
                     "HEAD / HTTP/1.1"):
            with port.connected(f"{head}\r\nHost: x\r\n\r\n".encode()) as client:
                pages.append(everything(client).partition(b"\r\n\r\n"))
        found = [port.ask("GET", f"/v1/page{width}")[:2] for width in widths]
        refused = [port.ask("GET", "/v1/page", None)[0], port.ask("POST", "/", None)[0], port.ask("POST", "/")[0]]

    assert {head[:15] for head, _, _ in pages} == {b"HTTP/1.1 200 OK"}
    assert pages[0][2] == pages[1][2] == pages[2][2] == page_document().html.encode() and pages[3][2] == b""
    assert all(b"content-security-policy: default-src 'none'; " in head and b"no-store" in head for head, _, _ in pages)
    assert TOKEN.encode() not in pages[0][2] and b"set-cookie" not in pages[0][0].lower()
    assert found == [(200, {"width": width}) for width in (960, 960, 360, 1280, 1600, 960, 960)]
    assert refused == [401, 401, 405]


def test_errors_have_a_reason_and_a_remedy_and_no_secret() -> None:
    """Of what raises, the class is named as well; what looks like a password in a text is replaced."""

    def damaged() -> Any:
        raise MalformedError("status.json cannot be read: host=db password=hunter2. Remove it")

    def away() -> Any:
        raise UnavailableError("the loop did not come to it: try again")

    with api(answers(external=damaged, release=lambda name: away(), alive=lambda: False)) as port:
        found = [
            port.ask("GET", "/nothing"), port.ask("POST", "/v1/status"), port.ask("GET", "/v1/jobs/cpoy"),
            port.ask("GET", "/v1/external"), port.ask("POST", "/v1/jobs/copy/release"), port.ask("GET", "/v1/health"),
        ]  # fmt: skip

    assert [code for code, _, _ in found] == [404, 405, 404, 500, 503, 503]
    assert all(answer["reason"] and answer["remedy"] for _, answer, _ in found)
    assert "there are copy, orders" in found[2][1]["reason"] and "copy" in found[2][1]["reason"]
    assert found[3][1]["reason"].endswith("password=*** Remove it") and found[3][1]["error"] == "MalformedError"
    assert (found[4][1]["error"], found[5][1]["alive"]) == ("UnavailableError", False)


def test_what_is_too_large_is_refused_before_it_is_read() -> None:
    """The body is announced and not sent: an answer that waited for it would never come."""
    head = f"POST /v1/jobs/copy/release HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with api() as port:
        codes = []
        for more in (
            f"Content-Length: {BODY}\r\n\r\n{'x' * BODY}", f"Content-Length: {BODY + 1}\r\n\r\n",
            "Content-Length: 999999999999\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n",
            f"X: {'y' * HEADERS}\r\n\r\n",
        ):  # fmt: skip
            with port.connected((head + more).encode()) as client:
                codes.append(int(everything(client).split()[1]))
        with port.connected(b"GET / HTTP/1.1\r\n" + b"x" * (1 << 20)) as client:
            unending = everything(client)
        with port.connected(b"\x16\x03\x01 no HTTP\r\n\r\n") as client:
            other = everything(client)
        after = port.ask("GET", "/v1/status")[0]

    assert codes == [200, 413, 413, 411, 431]
    assert unending[:12] in (b"HTTP/1.1 400", b"") and other[:12] == b"HTTP/1.1 400"
    assert after == 200


def test_a_slow_client_is_cut_and_others_are_served_meanwhile() -> None:
    """One that sends nothing, one that stops in the middle of a line, and one that leaves its answer in the way."""
    with api(lifetime=0.5) as port:
        half = f"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN[:5]}"
        short = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"
        slow = [port.connected(data) for data in (b"", half.encode(), short)]
        meanwhile = answered(port)
        ends = [everything(client) for client in slow]
        for client in slow:
            client.close()

    assert meanwhile == STATUS
    assert ends[:2] == [b"", b""] and ends[2].startswith(b"HTTP/1.1 401")


def test_one_connection_too_many_is_refused_with_a_reason() -> None:
    """Health is no exception: it would show that no client gets through. The reason arrives every time."""
    go, there = threading.Event(), threading.Semaphore(0)

    def slow() -> Any:
        there.release()
        assert go.wait(PATIENCE)
        return STATUS

    with api(answers(status=slow), connections=3) as port:
        head = f"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
        others = [port.connected(head.encode()) for _ in range(3)]
        for _ in others:
            assert there.acquire(timeout=PATIENCE)
        codes = Counter(port.ask("GET", "/v1/health")[0] for _ in range(50))
        go.set()
        served = [everything(client)[:15] for client in others]
        for client in others:
            client.close()
        while port.ask("GET", "/v1/health")[0] != 200:
            pass

    assert codes == {503: 50}
    assert served == [b"HTTP/1.1 200 OK"] * 3


def test_clients_without_the_token_hold_no_connection_that_others_need() -> None:
    """All connections are theirs, and they send nothing: the oldest makes room for each client that comes."""
    with api(connections=3, lifetime=PATIENCE) as port:
        idle = [port.connected(b"") for _ in range(12)]
        found = [port.ask("GET", "/v1/status")[0] for _ in range(20)]
        for client in idle:
            client.close()

    assert found == [200] * 20


def test_what_many_clients_have_sent_at_once_is_read_before_others_take_their_place() -> None:
    """A server that was held up finds all of them waiting, the one with the token first: each is answered."""
    listening = listen("127.0.0.1:0", unencrypted=False)
    listening.listen(100)
    with ExitStack() as opened:
        clients = []
        for token in (TOKEN, *["wrong"] * 79):
            client = opened.enter_context(socket.create_connection(listening.getsockname(), timeout=PATIENCE))
            client.sendall(f"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
            clients.append(client)
        opened.enter_context(serving(application(answers(), TOKEN), listening, connections=8))
        codes = [everything(client)[9:12] for client in clients]

    assert codes == [b"200", *[b"401"] * 79]


def test_clients_without_the_token_take_no_requests_from_those_that_have_it() -> None:
    """They have a limit of their own, and are refused above it."""
    with api(rate=1e-9, burst=5.0, refused=1e-9, refused_burst=3.0) as port:
        without = [port.ask("GET", "/v1/status", "Bearer wrong")[0] for _ in range(6)]
        right = [port.ask("GET", "/v1/status")[0] for _ in range(6)]

    assert without == [401] * 3 + [429] * 3
    assert right == [200] * 5 + [429]


def test_a_mistake_is_an_error_as_any_other_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """With its class; the traceback is in the log alone, and no secret is in either."""

    def wrong() -> Any:
        raise KeyError("host=db password=hunter2")

    with api(answers(external=wrong)) as port:
        code, answer, response = port.ask("GET", "/v1/external")
        after = port.ask("GET", "/v1/status")[0]

    assert (code, answer["error"], after) == (500, "KeyError", 200)
    assert answer.keys() == {"reason", "remedy", "error"} and "KeyError" in answer["reason"]
    assert response.headers["Content-Type"] == "application/json"
    assert "Traceback" not in str(answer) and "hunter2" not in str(answer) + caplog.text
    assert "GET /v1/external" in caplog.text and "in wrong" in caplog.text


def test_a_refused_client_is_left_to_send_its_request_and_not_too_many_of_them_are() -> None:
    """A close before the request has arrived would reset the connection, and take the reason back."""
    done: list[list[str]] = []

    class Transport(asyncio.Transport):
        def __init__(self) -> None:
            super().__init__()
            done.append([])
            self.write = lambda data: done[-1].append("write")
            self.close, self.abort = (lambda: done[-1].append("close")), (lambda: done[-1].append("abort"))

    async def connect() -> None:
        inner, others = SimpleNamespace(scope={ALLOWED: True}), set[BoundedConnection]()
        full = {BoundedConnection(inner, 2, 60.0, others, {}): None for _ in range(2)}
        for _ in range(2 * READERS):
            connection = BoundedConnection(inner, 2, 60.0, others, full)
            connection.connection_made(Transport())
        assert done[-1] == ["write"]
        connection.data_received(b"GET")
        BoundedConnection(inner, 2, 60.0, others, full).connection_made(Transport())
        connection.connection_lost(None)
        BoundedConnection(inner, 2, 60.0, others, full).connection_made(Transport())

    asyncio.run(connect())

    assert done == [*[["write"]] * (2 * READERS - 1), ["write", "close"], ["abort"], ["write"]]


def test_a_flood_is_served_or_refused_and_the_loop_makes_its_turns() -> None:
    """Every request is answered; a release that is asked for in the flood is done by the loop."""
    requests, released, turns = LoopRequests(), [], 0
    codes: Counter[int] = Counter()

    def release(name: str) -> bool:
        return requests.ask(lambda: released.append(name) is None, PATIENCE)

    with api(answers(status=RecentAnswer(lambda: STATUS, 0.01), release=release), rate=50.0, burst=100.0) as port:
        def client() -> None:
            for _ in range(100):
                codes[port.ask("GET", "/v1/status")[0]] += 1

        def operator() -> None:
            while port.ask("POST", "/v1/jobs/copy/release")[0] != 200:
                pass

        threads = [*(threading.Thread(target=client) for _ in range(6)), threading.Thread(target=operator)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            requests.take(0.01)
            turns += 1
        alive = port.ask("GET", "/v1/health")[0]

    assert sum(codes.values()) == 600 and codes.keys() <= {200, 429, 503} and codes[200] and codes[429]
    assert released == ["copy"] and turns > 10
    assert alive == 200


def test_the_server_ends_with_connections_open() -> None:
    """Clients that hold connections do not hold the end of cdcv2 up."""
    with api() as port:
        clients = [port.connected(b"GET /v1/status HTTP/1.1\r\nHo") for _ in range(5)]
        assert port.ask("GET", "/v1/health")[0] == 200
    ends = [everything(client) for client in clients]
    for client in clients:
        client.close()

    assert not port.thread.is_alive() and ends == [b""] * 5
    with pytest.raises(ConnectionRefusedError):
        port.connected(b"")


def test_what_is_asked_of_the_loop_is_done_by_it_or_never() -> None:
    """In the loop's thread; after the patience has run out, not later either; not at all once it has ended."""
    requests, did = LoopRequests(), list[object]()
    with pytest.raises(UnavailableError, match="was not done"):
        requests.ask(lambda: did.append("late"), 0.0)
    requests.take(0.0)
    asking = threading.Thread(target=lambda: requests.ask(lambda: did.append(threading.current_thread()), PATIENCE))
    asking.start()
    while not did:
        requests.take(0.01)
    asking.join(PATIENCE)
    for _ in range(MOST):
        with pytest.raises(UnavailableError):
            requests.ask(lambda: did.append("never"), 0.0)
    with pytest.raises(UnavailableError, match="100 requests wait"):
        requests.ask(lambda: did.append("never"), 0.0)
    requests.close()
    requests.take(0.0)
    with pytest.raises(UnavailableError, match="is ending"):
        requests.ask(lambda: did.append("never"), PATIENCE)

    assert did == [threading.main_thread()]


def test_what_an_act_raises_is_raised_where_it_was_asked_for() -> None:
    """The loop goes on: a wrong name in a request is no reason to leave the jobs."""
    requests, found = LoopRequests(), list[str]()

    def act() -> None:
        raise UsageError("there is no job 'x'")

    def asks() -> None:
        try:
            requests.ask(act, PATIENCE)
        except UsageError as error:
            found.append(str(error))

    asking = threading.Thread(target=asks)
    asking.start()
    while asking.is_alive():
        requests.take(0.01)

    assert found == ["there is no job 'x'"]


def test_the_loop_is_idle_since_its_last_turn() -> None:
    """So a loop that hangs in a turn is noticed."""
    now = iter([0.0, 10.0, 11.0, 31.0])
    requests = LoopRequests(lambda: next(now))

    first = requests.idle()
    requests.take(0.0)

    assert (first, requests.idle()) == (10.0, 20.0)


def test_an_answer_is_given_again_until_it_is_old() -> None:
    """However many ask: reading all files of a pipeline for each of a thousand questions would starve the rest."""
    now, asked = [0.0], iter(range(9))
    answer = RecentAnswer(lambda: next(asked), 0.5, ticks=lambda: now[0])
    found = []
    for at in (0.0, 0.4, 0.5, 0.9, 1.0):
        now[0] = at
        found.append(answer())

    assert found == [0, 0, 1, 1, 2]


def test_servers_that_do_not_answer_hold_up_no_request() -> None:
    """Who asks has the last answer until there is another one; one question at a time, however many ask."""
    now, go, asked = [0.0], threading.Semaphore(0), list[int | None]()

    def question(before: int | None) -> int:
        asked.append(before)
        assert go.acquire(timeout=PATIENCE)
        return len(asked)

    answer = BackgroundAnswer(question, 2.0, first=0.0, wait=0.0, ticks=lambda: now[0])
    early = [answer(), answer()]
    go.release()
    while answer() is None:
        pass
    now[0] = 1.9
    fresh = answer()
    now[0] = 2.0
    late = [answer(), answer()]
    go.release()
    while answer() == 1:
        pass

    assert (early, fresh, late, answer(), asked) == ([None, None], 1, [1, 1], 2, [None, 1])


def test_what_a_look_raises_is_raised_until_one_succeeds() -> None:
    """An old answer in its place would hide a damaged file."""
    now, damaged = [0.0], [True]

    def question(before: str | None) -> str:
        if damaged[0]:
            raise MalformedError("status.json cannot be read")
        return "well"

    answer = BackgroundAnswer(question, 2.0, first=PATIENCE, wait=PATIENCE, ticks=lambda: now[0])
    for _ in range(2):
        with pytest.raises(MalformedError):
            answer()
    damaged[0], now[0] = False, 2.0

    assert answer() == "well"


def test_a_token_file_is_made_for_its_owner_alone(tmp_path: Path) -> None:
    """With a token of its own each; it stays the same from then on."""
    old = os.umask(0)
    try:
        first, again, other = (token_of(tmp_path / name) for name in ("one", "one", "two"))
    finally:
        os.umask(old)

    assert first == again != other and len(first) >= 40
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {"one": 0o600, "two": 0o600}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_token_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    """Whether to read or to write; the error has no part of the token."""
    path = tmp_path / "token"
    token = token_of(path)
    path.chmod(mode)

    with pytest.raises(UsageError, match=f"mode 0{mode:o}.*chmod 600") as caught:
        token_of(path)
    assert token[:8] not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"two words, and long enough", b"\xff" * 40, b"x" * 2000])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty one above all: then every request would have the token."""
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(UsageError, match="holds no token") as caught:
        token_of(path)
    assert b"".join(content.split())[:5].decode("latin-1") in ("", "short"[:5]) or "xxxxx" not in str(caught.value)


def test_a_token_file_that_cannot_be_used_is_an_error_with_its_path(tmp_path: Path) -> None:
    """A folder that is not there, and a folder in its place."""
    with pytest.raises(OutputError, match=re.escape(str(tmp_path / "nowhere" / "token"))):
        token_of(tmp_path / "nowhere" / "token")
    with pytest.raises(OutputError, match="--token-file"):
        token_of(tmp_path)


@pytest.mark.parametrize("text", ["8642", "shop", ":8642", "localhost:", "localhost:http", "h:65536", "::1:80", "h:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    """With what one looks like."""
    with pytest.raises(UsageError, match=r"write .*HOST:PORT|in brackets"):
        parse_address(text)


@pytest.mark.parametrize("text", ["0.0.0.0:0", "[::]:0", "192.0.2.7:0"])
def test_other_machines_reach_it_only_where_that_is_requested(text: str) -> None:
    """The refusal has what it means, and both ways out."""
    with pytest.raises(UsageError, match="no encryption.*tunnel.*--unencrypted"):
        listen(text, unencrypted=False)


def test_an_open_address_may_be_requested() -> None:
    """In a container there is no other."""
    with listen("0.0.0.0:0", unencrypted=True) as listening:
        assert url_of(listening).startswith("http://0.0.0.0:")


def test_a_port_in_use_is_named() -> None:
    """With what to do, and that nothing was started."""
    with listen("127.0.0.1:0", unencrypted=False) as first:
        place = url_of(first).removeprefix("http://")
        with pytest.raises(UnavailableError, match=f"{place}: .*in use.*--listen.*Nothing was started"):
            listen(place, unencrypted=False)


def test_the_address_is_in_the_state_folder_for_as_long_as_it_is_served(tmp_path: Path) -> None:
    """What a killed process left there counts for no other command."""
    state = tmp_path / "state"
    with OwnedFolder(state, 0.0), published(state, "http://127.0.0.1:1", Path("token")):
        there = api_of(state)
        left = (state / "api.json").read_bytes()
    ended = api_of(state)
    (state / "api.json").write_bytes(left)
    killed = api_of(state)

    assert there == ("http://127.0.0.1:1", str(Path("token").absolute()), os.getpid())
    assert (ended, killed) == (None, None)
