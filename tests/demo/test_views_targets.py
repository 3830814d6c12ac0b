"""The last steps of the demonstration, on a real PostgreSQL and Delta tables: they see what is right, and what not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcv2 import failpoints
from cdcv2.cli.main import main
from cdcv2.demo import polls, views
from cdcv2.demo.bank import TABLES, Bank, row_types
from cdcv2.demo.story import FailedCheck
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Message, Progress, Updates
from cdcv2.servers.postgres import Postgres

pytestmark = pytest.mark.integration


Held = dict[str, Counter[Any]]


def said(bank: Bank, at: int, before: Held) -> tuple[Held, dict[str, list[Message]]]:
    """What the bank has now, and the messages of a log that change it from ``before`` at the time ``at``."""
    now = {table: Counter(rows) for table, rows in bank.cut().items()}
    messages: dict[str, list[Message]] = {}
    for table, row_type in row_types().items():
        diffs = now[table].copy()
        diffs.subtract(before.get(table, Counter()))
        updates = [(row_type.row(row), at, diff) for row, diff in diffs.items() if diff]
        messages[table] = [Updates(updates), Progress([max(0, at - 1)], [at + 1], {at: len(updates)})]
    return now, messages


def test_the_end_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots of both targets, each at its frontier; a torn transaction; the comparison, and what is altered."""
    monkeypatch.setattr(views, "LEAST", {"PostgreSQL": (2, 2, 2), "Delta": (2, 2, 2)})
    with Postgres() as server:
        with server.connect(autocommit=True) as connection:
            connection.execute("CREATE DATABASE copy")
        bank, target = Bank(server.connect, accounts=20, branches=3), SimpleNamespace(
            host=server.host, port=server.port, username=server.username, password=server.password, database="copy",
            connect=lambda **options: server.connect(dbname="copy", **options),
        )  # fmt: skip
        bank.create()
        stated = LogDescription(timeline="bank")
        logs = {
            table: DirectoryLog(tmp_path / "logs" / table, row, create=True, description=stated)
            for table, row in row_types().items()
        }
        whole: dict[str, list[Message]] = {table: [] for table in TABLES}
        demo = views.ViewsDemo(tmp_path, seed=0)
        demo.road = SimpleNamespace(  # type: ignore[assignment]
            bank=bank, postgres=server, rows=row_types(), kafka=SimpleNamespace(bootstrap="nowhere:1"),
            watch=SimpleNamespace(messages=whole.__getitem__),
        )  # fmt: skip
        demo.target = target  # type: ignore[assignment]
        demo._write_files()
        for name, value in demo._environment.items():
            monkeypatch.setenv(name, value)
        files = [tmp_path / "postgres.yaml", tmp_path / "delta.yaml"]
        for file in files:
            text = file.read_text("utf-8")
            begin, end = text.index("logs:"), text.index("bindings:")
            file.write_text(f"{text[:begin]}logs: logs\n{text[end:]}", "utf-8")
        demo.pollers = {
            "PostgreSQL": polls.Poller(polls.PostgresPoll(target.connect, views.NAME), bank.money, pause=1.0),
            "Delta": polls.Poller(polls.DeltaPoll(tmp_path / "delta"), bank.money, pause=1.0),
        }
        for poller in demo.pollers.values():
            poller.judge(poller.look())
            assert (0, []) == (poller.snapshots, poller.wrong)
        held: Held = {}
        for at in (1, 3, 5):
            held, messages = said(bank, at, held)
            for table, log in logs.items():
                for message in messages[table]:
                    log.send(message)
                log.flush()
                whole[table] += messages[table]
            if at == 5:
                with failpoints.placed("delta.table", 2), pytest.raises(failpoints.PlacedCrash):
                    main(["materialize", str(files[1])])
                having, newest = polls.applying(tmp_path / "delta")
                assert 2 == having and newest != bank.money
            for file, poller in zip(files, demo.pollers.values()):
                poller.judge(poller.look())
                assert 0 == main(["materialize", str(file)])
                poller.judge(poller.look())
            bank.run(12, clients=1, first=at)
        assert (0, bank.money) == polls.applying(tmp_path / "delta")
        held, messages = said(bank, 7, held)
        demo.pollers["PostgreSQL"].unreachable = 1
        for name, poller in demo.pollers.items():
            demo._judge(name, poller)
        with pytest.raises(FailedCheck, match="public.accounts equals the bank's"):
            demo._compare()
        for table, log in logs.items():
            for message in messages[table]:
                log.send(message)
            log.flush()
        for file in files:
            assert 0 == main(["materialize", str(file)])
        capsys.readouterr()
        demo._compare()
        demo._alter()
        for poller in demo.pollers.values():
            poller.look.close()
    told = capsys.readouterr().out

    assert 4 == told.count("exits 0") + told.count("cdcv2 compare exits 3, and names the row")
    assert 6 == told.count("equals the bank's, row by row")
