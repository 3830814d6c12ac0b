"""``cdcv2 up --listen`` under a flood: every request is served or refused, and the controller goes on.

A thousand requests are begun in each second by clients without the token, with a wrong one, with the right one, with a
body that is too large, and by some that send no HTTP, and slow ones are connected beside them. Meanwhile a log
grows, of which a job keeps a lake; the job is killed once, and started again; and a client with the token asks.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cdcv2.control.api.address import api_of
from cdcv2.control.job_folder import JobFolder
from cdcv2.core.antichain import Antichain
from cdcv2.errors import MissingLogError
from cdcv2.exits import Exit
from cdcv2.logs.directory import DirectoryLog
from cdcv2.materialize.targets.lake.driver import open_lake
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2
from tests.stress.summary import record

RATE, SECONDS, SEED = 1000, 30, 20261127
#: Seconds after which something is broken, and not only slow.
PATIENCE = 120
#: Seconds between two looks at the lake, and between two rows of the log.
LOOK, ROW_EVERY = 2.0, 0.1
#: What may become of a request.
ANSWERS = {
    "no token": {"401", "429", "503", "cut"}, "wrong token": {"401", "429", "503", "cut"},
    "token": {"200", "429", "503", "cut"}, "huge body": {"413", "503", "cut"}, "no HTTP": {"400", "503", "cut"},
}
ROW = RowType({"type": "record", "name": "row", "fields": [{"name": "id", "type": "long"}]})
FILE = """
pipeline: shop
views:
  copy:
    logs: {items: items}
    bindings: [{log: items, target: items, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""


@contextmanager
def growing(folder: Path) -> Iterator[None]:
    """Within the block a log has one more row from time to time."""
    ended = threading.Event()

    def write() -> None:
        log = DirectoryLog(folder, ROW, create=True)
        with Writer(log) as writer:
            at = 0
            while not ended.wait(ROW_EVERY):
                writer.extend([(ROW.row([at]), at, 1)])
                at += 1
                writer.advance([at])
                log.flush()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def frontier(lake: Path) -> Antichain | None:
    """Up to where it is; None while there is none."""
    try:
        return open_lake(lake).frontier
    except MissingLogError:
        return None


def asked(url: str, token: str) -> str:
    """What a client with the token gets: the code, or the error's name."""
    request = urllib.request.Request(f"{url}/v1/status", headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            json.load(answer)
            return str(answer.status)
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError:
        return "cut"


def flooding(url: str, token: str) -> subprocess.Popen[str]:
    """The clients, as a process of their own."""
    host, _, port = url.removeprefix("http://").partition(":")
    words = [sys.executable, "-m", "tests.stress.api_flood", host, port, *map(str, (SECONDS, RATE, SEED))]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    process.stdin.write(f"{token}\n")
    process.stdin.flush()
    return process


def test_a_flood_is_served_or_refused_and_the_controller_goes_on(tmp_path: Path) -> None:
    """The frontier moves, a job that was killed runs again, and who has the token is served, again and again."""
    file, job = tmp_path / "shop.yaml", JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    file.write_text(FILE, "utf-8")
    command = [*CDCV2, "up", str(file), "--listen", "127.0.0.1:0"]
    mine, moved, looks, kills, stands = Counter[str](), 0, 0, 0, False
    try:
        with growing(tmp_path / "items"), subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert poll_until(lambda: api_of(tmp_path / "shop.state") is not None, PATIENCE)
                assert poll_until(lambda: frontier(tmp_path / "lake") is not None, PATIENCE)
                api = api_of(tmp_path / "shop.state")
                assert api is not None
                token, ended = Path(api.token_file).read_text("ascii").strip(), threading.Event()

                def ask() -> None:
                    while not ended.wait(0.1):
                        mine[asked(api.url, token)] += 1

                with flooding(api.url, token) as clients:
                    asking, begun = threading.Thread(target=ask), time.monotonic()
                    asking.start()
                    before, run = frontier(tmp_path / "lake"), job.observe().run
                    while clients.poll() is None and time.monotonic() < begun + SECONDS:
                        time.sleep(LOOK)
                        now = frontier(tmp_path / "lake")
                        moves, before = now != before, now
                        # Behind its kill the lake stands still until the job runs again.
                        stands = stands and not moves
                        if not stands:
                            looks, moved = looks + 1, moved + moves
                        if not kills and looks == 3:
                            job.kill()
                            kills, stands = kills + 1, True
                    assert poll_until(lambda: job.observe().run > run and job.alive(), PATIENCE)
                    assert clients.stdout is not None
                    done: dict[str, Any] = json.loads(clients.stdout.read())
                    ended.set()
                    asking.join()
                assert clients.returncode == 0 and process.poll() is None
                behind = frontier(tmp_path / "lake")
                assert poll_until(lambda: frontier(tmp_path / "lake") != behind, PATIENCE)
                assert poll_until(lambda: asked(api.url, token) == "200", PATIENCE)
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == Exit.DONE and process.stderr is not None
                output = process.stderr.read()
            finally:
                process.kill()
    finally:
        if job.path.exists():
            job.kill()
            assert poll_until(lambda: not job.alive(), PATIENCE)

    answers = {tuple(name.split(": ")): count for name, count in done["answers"].items()}
    print(done, mine, looks, moved)
    assert sum(answers.values()) == done["requests"] >= RATE * SECONDS * 0.9
    assert {(kind, code) for kind, code in answers if code not in ANSWERS[kind]} == set()
    assert all(answers.get((kind, "429")) for kind in ("no token", "wrong token", "token"))
    assert all(any(kind == of and code != "cut" for of, code in answers) for kind in ANSWERS)
    assert "Traceback" not in output and token not in output
    assert mine["200"] and mine.keys() <= {"200", "429", "503", "cut"}
    assert kills and looks > 5 and moved * 10 >= looks * 8
    codes = Counter[str]()
    for (_, code), count in answers.items():
        codes[code] += count
    record("the API of cdcv2 up in a flood", [SEED], {
        "requests": done["requests"], "seconds": round(done["seconds"]),
        **{"cut off" if code == "cut" else f"answered {code}": codes[code] for code in sorted(codes)},
        "times a slow client was cut off": done["slow clients cut"],
        "questions of another client with the token": sum(mine.values()), "of them answered 200": mine["200"],
        "kills of the job that keeps a lake": kills, "looks at the lake while it ran": looks,
        "of them had it moved": moved, "wrong answers": 0,
    })
