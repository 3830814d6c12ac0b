"""`cdcv2 open-transactions` shows what a capture of transactions waits for."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.capture.open_record_codec import TEMP, OpenRecordCodec
from cdcv2.capture.open_records import EndRecord, HaltRecord
from cdcv2.capture.transactions_on_timeline import Transactions
from cdcv2.cli.main import main
from cdcv2.core.antichain import Antichain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.writer import Writer
from cdcv2.timeline.ordering import AS_COMPLETE
from tests.cli.conftest import Run, temp


def test_each_transaction_is_told_with_what_it_waits_for(run: Run, tmp_path: Path) -> None:
    """In the order of commits; at the end, and as it was before."""
    log = temp(tmp_path / "temp")
    said, before = run("open-transactions", log), run("open-transactions", log, "--at", "3000", "--lsn")

    assert [
        "transaction 8, committed at 48; 0 of 1 rows of public.items; 2 of 2 rows of public.orders; "
        "rows are missing: 1 of public.items",
        "transaction 9, committed at 64; 1 of 1 rows of public.items; whole; it waits for those committed before it",
        "transaction 11; 1 rows of public.items; no END yet",
    ] == said.out.splitlines()
    assert (0, "cdcv2 open-transactions: complete through 5000: 3 are held; given out through 32\n") == (
        said.code, said.err
    )
    assert [
        "transaction 8; 2 rows of public.orders; no END yet", "transaction 9; 1 rows of public.items; no END yet",
    ] == before.out.splitlines()
    assert "given out through 0/20" in before.err
    (first, *_) = map(json.loads, run("open-transactions", log, "--json").out.splitlines())
    assert {
        "transaction": 8, "commit": 48, "rows": {"public.orders": 2}, "counts": {"public.items": 1, "public.orders": 2},
        "halt": None, "done": False, "waits_for": "rows are missing: 1 of public.items",
    } == first
    assert 1 == run("open-transactions", log, "--at", "6000").code


def test_what_was_given_out_early_and_what_never_is_are_told(run: Run, tmp_path: Path) -> None:
    """As soon as complete, a later one goes first; a TRUNCATE goes never."""
    carry, kept = Transactions(["t"], ordering=AS_COMPLETE), OpenRecordCodec({})
    writer = Writer(DirectoryLog(tmp_path / "temp", TEMP, create=True))
    heard = [EndRecord.of(1, 10, {"t": 1}), EndRecord.of(2, 20, {}), HaltRecord(3, 20, "t was truncated", "Start over")]
    done = carry.updates([(one, 1, 1) for one in heard], Antichain([2]))
    writer.extend((kept.row(held), time, diff) for held, time, diff in done.temp)
    writer.advance(done.frontier)
    said = run("open-transactions", tmp_path / "temp")

    assert "transaction 1, committed at 10; 0 of 1 rows of t; rows are missing: 1 of t" == said.out.splitlines()[0]
    assert "transaction 2, committed at 20; given out already, before one that was committed earlier" in said.out
    assert "transaction 3; it can never be given out: t was truncated. Start over" in said.out
    assert "none is given out, each as soon as it is complete" in said.err


def test_another_log_is_refused(run: Run, prices: Path) -> None:
    """Exit 2, with what it is."""
    said = run("open-transactions", prices)

    assert (2, True) == (said.code, "is no open-records log: it has the columns id, price, name" in said.err)
    assert 2 == main(["open-transactions", "nowhere"])


def test_the_directory_of_a_capture_has_it(run: Run, tmp_path: Path, captured: Path) -> None:
    """That of one database; several are named, and a capture by commit times has none."""
    log = temp(tmp_path / "logs" / "_temp" / "bank")
    one = run("open-transactions", tmp_path / "logs")
    temp(tmp_path / "logs" / "_temp" / "shop")
    two = run("open-transactions", tmp_path / "logs")
    none = run("open-transactions", captured / "logs")

    assert (0, 3) == (one.code, len(one.out.splitlines()))
    assert (2, True) == (two.code, f"of several databases: name one, for example {log}" in two.err)
    assert (2, True) == (none.code, "only a capture with --remap keeps one" in none.err)
