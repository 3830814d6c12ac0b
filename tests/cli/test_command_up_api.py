"""``cdcv2 up --listen``: the API beside the loop of a real process, and what is refused before that starts."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import main
from cdcv2.control.api.address import api_of
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.kept_value import keep
from cdcv2.control.supervision import JobState, JobStatus
from cdcv2.control.supervisor import STATUS
from cdcv2.exits import Exit
from cdcv2.servers.processes import poll_until
from tests.children import CDCV2

#: The log is not there, so the job of the view ends again and again, and does no work.
FILE = """
pipeline: shop
views:
  copy:
    logs: {items: items}
    bindings: [{log: items, target: items, key: [id]}]
    target: {driver: lake, folder: lake}
    recovery_log: recovery
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A pipeline with one view; its job ends with the test."""
    path = tmp_path / "shop.yaml"
    path.write_text(FILE, "utf-8")
    yield path
    job = JobFolder(tmp_path / "shop.state" / "jobs" / "copy")
    if job.path.exists():
        job.kill()
        assert poll_until(lambda: not job.alive(), 30)


def ask(
    url: str, token: str, method: str = "GET", *, read: Callable[[Any], Any] = json.load
) -> tuple[int, Any]:
    request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, read(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_real_process_serves_its_status_and_ends_with_a_client_connected(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers are those of ``cdcv2 status``; the loop starts a held job; a second ``up`` fails by the owner."""
    state, command = tmp_path / "shop.state", [*CDCV2, "up", str(file), "--listen", "127.0.0.1:0"]
    (state / "jobs" / "copy").mkdir(parents=True)
    held = JobStatus(JobState.HELD, since=1.0, deaths=5, reason="it ended 5 times")
    keep(state / "jobs" / "copy" / STATUS, held.to_plain())
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert poll_until(lambda: api_of(state) is not None, 60)
            record = api_of(state)
            assert record is not None
            token = Path(record.token_file).read_text("ascii").strip()
            found = ask(f"{record.url}/v1/status", token)
            before = ask(f"{record.url}/v1/jobs/copy", token)
            released = ask(f"{record.url}/v1/jobs/copy/release", token, "POST")
            assert poll_until(lambda: ask(f"{record.url}/v1/jobs/copy", token)[1]["run"] > 0, 60)
            refused = ask(f"{record.url}/v1/status", "wrong")
            external = ask(f"{record.url}/v1/external", token)
            metrics = ask(f"{record.url}/v1/metrics", token, read=lambda answer: answer.read().decode())
            opened = main(["page", str(file)]), capsys.readouterr().out
            page = ask(f"{record.url}/v1/page?width=400", token)
            second = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            host, _, port = record.url.removeprefix("http://").partition(":")
            with socket.create_connection((host, int(port)), timeout=60) as client:
                client.sendall(b"GET /v1/status HTTP/1.1\r\n")
                process.send_signal(signal.SIGTERM)
                code = process.wait(60)
                end = client.recv(100)
            assert process.stderr is not None
            output = process.stderr.read()
        finally:
            process.kill()
    closed = main(["page", str(file)]), capsys.readouterr().err
    main(["status", str(file), "--json"])
    plain = json.loads(capsys.readouterr().out)
    printed = main(["metrics", str(file)]), capsys.readouterr().out

    assert (found[0], found[1].keys(), found[1]["jobs"][0].keys()) == (200, plain.keys(), plain["jobs"][0].keys())
    assert found[1]["owner"].startswith(f"process {process.pid} ")
    assert (before[1]["state"], before[1]["reason"]) == ("held", "it ended 5 times")
    assert released == (200, {"name": "copy", "released": True})
    assert (refused[0], external) == (401, (200, {**external[1], "entries": []}))
    assert metrics[0] == 200 and "\ncdcv2_kept_running 1.0\n" in metrics[1] and '\ncdcv2_job_deaths{' in metrics[1]
    assert printed[0] == Exit.DONE and "\ncdcv2_kept_running 0.0\n" in printed[1]
    assert opened == (Exit.DONE, f"{record.url}/#token={token}\n")
    assert closed[0] == Exit.UNABLE and f"cdcv2 up {file} --listen" in closed[1]
    assert (page[0], page[1]["pipeline"], page[1]["file"]) == (200, "shop", str(file)) and page[1]["age"] >= 0
    assert page[1]["content"][0] == "div" and "viewBox" in str(page[1]["content"])
    assert second.returncode == Exit.UNABLE and f"process {process.pid}" in second.stderr
    assert (code, end) == (Exit.DONE, b"")
    assert api_of(state) is None and not (state / "api.json").exists()
    assert record.url in output and token not in output
    others = [one for one in state.rglob("*") if one.is_file() and one.name != "api.token"]
    assert others and not [one for one in others if token.encode() in one.read_bytes()]


def test_what_is_wrong_with_the_api_is_an_error_before_anything_is_started(
    tmp_path: Path, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A port in use, an address that others reach, a token file that others may read, and options without sense."""
    (tmp_path / "token").write_text("open-sesame-open-sesame\n", "ascii")
    (tmp_path / "token").chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = "127.0.0.1:{}".format(taken.getsockname()[1])
        wrong = {
            ("--listen", place): (Exit.UNABLE, f"served at {place}"),
            ("--listen", "0.0.0.0:0"): (Exit.USAGE, "--unencrypted"),
            ("--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token")): (Exit.USAGE, "chmod 600"),
            ("--listen", "--once"): (Exit.USAGE, "--listen and --once"),
            ("--token-file", "token"): (Exit.USAGE, "add --listen"),
            ("--unencrypted",): (Exit.USAGE, "add --listen"),
        }
        found = {words: (main(["up", str(file), *words]), capsys.readouterr().err) for words in wrong}

    assert {words: code for words, (code, _) in found.items()} == {words: code for words, (code, _) in wrong.items()}
    assert all(text in found[words][1] for words, (_, text) in wrong.items())
    assert "open-sesame" not in str(found)
    assert not (tmp_path / "shop.state" / "jobs").exists()
