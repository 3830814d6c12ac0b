"""An instance alone answers clients with what as_of states of its logs; and it may be killed while it is asked."""

from __future__ import annotations

import os
import random
import re
import stat
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.errors import IncompleteError, RefusedError, UnavailableError, UsageError
from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.client import InstanceClient
from cdcv2.instances.run.place import InstancePlace
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_names import named_after
from cdcv2.logs.named_logs import NamedLog, directory_logs
from cdcv2.rows.row_type import RowType
from cdcv2.timeline.gauges import lsn_text
from tests.children import CDCV2, started
from tests.serving import served

KEYS = {"public.orders": ["id"], "public.order_items": ["order_id"]}
#: Seconds after which something is broken, and not only slow.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def place(logs: Path) -> Iterator[Path]:
    """Where an instance of these logs answers, from a thread of this process."""
    opened = [DirectoryLog(folder) for folder in directory_logs(logs)]
    instance = LoneInstance([NamedLog(named_after(log.path), log, log.row_type) for log in opened], KEYS)
    with served(instance, logs.parent / "shop.sock") as path:
        yield path


def test_an_answer_is_what_as_of_states(logs: Path, place: Path) -> None:
    """For random keys of two tables, some of which are not there, at random times and now."""
    draw = random.Random(15)
    reading = cdcv2.open(str(logs))
    last = reading.frontier.integer
    assert last is not None
    times = sorted({time for cut in cdcv2.read(str(logs)) for rows in cut.updates.values() for _, time, _ in rows})
    for at in (None, last - 1, *draw.sample(times, 2), draw.choice(times) - 1):
        truth = reading.as_of(at)
        keys = {table: [draw.randrange(1, 40) for _ in range(8)] for table in KEYS}
        answer = cdcv2.connect(place).peek(keys, at=at)
        assert answer.at == (last - 1 if at is None else at) and answer.frontier == reading.frontier
        for table, [column] in KEYS.items():
            wanted = Counter(row for row in truth[table] if getattr(row, column) in keys[table])
            assert Counter(answer[table]) == wanted
            assert answer[table].to_arrow().num_rows == sum(wanted.values())
            assert answer[table].to_arrow().schema == truth[table].to_arrow().schema


def test_an_answer_has_what_was_committed_and_states_how_old_that_is(logs: Path, place: Path) -> None:
    """By the LSN that a client has of its commit; how old is known from the log."""
    client, last = cdcv2.connect(place), cdcv2.open(str(logs)).frontier.integer
    assert last is not None
    answer = client.peek({"public.orders": 1}, after=lsn_text(last - 9))
    assert answer.at == last - 1 and answer.age is not None and answer.age > 0
    with pytest.raises(IncompleteError, match=f"not everything up to {last} is finished .*a source that is idle"):
        client.peek({"public.orders": 1}, after=lsn_text(last), timeout=0)


def test_a_question_that_cannot_be_answered_states_why(place: Path, tmp_path: Path) -> None:
    client = InstanceClient(place)
    wrong = "the columns id, and the key has 2 values"
    for keys, text in (({"none": 1}, "table 'none' is not kept"), ({"public.orders": (1, 2)}, wrong),
                       ({"public.orders": "x"}, "column 'id'"), ({"public.orders": [[1]]}, "column 'id'")):
        with pytest.raises(UsageError, match=text):
            client.peek(keys)
    with pytest.raises(UsageError, match="is no time"):
        client.peek({"public.orders": 1}, at=-1)
    with pytest.raises(UsageError, match="fewer keys"):
        client.peek({"public.orders": list(range(300_000))})
    with pytest.raises(IncompleteError, match="the time 9223372036854775000 is not finished after 0 seconds"):
        client.peek({"public.orders": 1}, at=9223372036854775000, timeout=0)
    with pytest.raises(UnavailableError, match="no instance answers at"):
        InstanceClient(tmp_path / "none.sock").peek({"public.orders": 1}, timeout=0)


def test_a_place_is_of_one_process_and_one_user(place: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    mine = f"another process has .* .process {os.getpid()}"
    with pytest.raises(RefusedError, match=f"{mine} on "), InstancePlace(place):
        pass
    # Somebody has removed the lock: the one that works there keeps its place, and its clients.
    lock = Path(f"{place}.lock")
    lock.rename(tmp_path / "aside")
    with pytest.raises(RefusedError, match=mine), InstancePlace(place):
        pass
    (tmp_path / "aside").replace(lock)
    (tmp_path / "file").write_text("mine", "utf-8")
    with InstancePlace(tmp_path / "file") as taken, pytest.raises(UsageError, match="is no socket"):
        taken.listen()
    assert (tmp_path / "file").read_text("utf-8") == "mine"


def test_the_command_prints_the_rows_of_one_time(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["peek", "public.orders=1", "public.order_items=1", "--instance", str(place), "--json"]) == 0
    out, err = capsys.readouterr()
    assert '{"table": "public.order_items", "data": {"order_id": 1,' in out
    assert err.startswith("cdcv2 peek: at ")
    assert main(["peek", "public.orders", "--instance", str(place)]) == 2
    assert main(["peek", "public.orders=1", "--at", "9" * 18, "--timeout", "0", "--instance", str(place)]) == 1
    assert main(["peek", "public.orders=1", "--timeout", "0", "--instance", str(place.with_name("x"))]) == 4


PRICES = RowType({"type": "record", "name": "prices", "fields": [
    {"name": "name", "type": "string"}, {"name": "price", "type": "long"}]})


def test_an_instance_is_killed_while_it_is_asked(tmp_path: Path) -> None:
    """A price is always its time. While one client asks for now, the log grows and the instance is killed twice."""
    log = DirectoryLog(tmp_path / "prices", PRICES, create=True,
                       description=LogDescription(timeline="market", identity="prices-1"))  # fmt: skip
    place, answers, ended = tmp_path / "market.sock", list[tuple[int | None, list[int]]](), threading.Event()

    def ask() -> None:
        while not ended.is_set():
            found = cdcv2.connect(place).peek({"prices": "pear"}, timeout=PATIENCE)
            answers.append((found.at, [row.price for row in found["prices"]]))

    with cdcv2.Writer(log) as writer:
        def reprice(time: int) -> None:
            gone = [(PRICES.row(["pear", time - 1]), time, -1)] if time > 1 else []
            writer.extend([*gone, (PRICES.row(["pear", time]), time, 1)])
            writer.advance([time + 1])
            log.flush()

        reprice(1)
        thread = threading.Thread(target=ask)
        thread.start()
        for time in (2, 4, 6):
            words = ("instance", str(tmp_path / "prices"), "--index", "prices=name", "--instance", str(place))
            with started(*CDCV2, *words) as process:
                for now in (time, time + 1):
                    reprice(now)
                    found = cdcv2.connect(place).peek({"prices": "pear"}, at=now, timeout=PATIENCE)
                    assert [row.price for row in found["prices"]] == [now]
                if time < 6:
                    process.kill()
                else:
                    ended.set()
                    thread.join()
                    process.terminate()
                    assert process.wait(PATIENCE) == 0
                    assert process.stderr is not None
                    first = re.search(r"complete through (\d+)", process.stderr.read())
    # It listens when it has read what was there.
    assert first is not None and int(first[1]) >= 5
    assert not place.exists()
    assert answers and all(prices == [at] for at, prices in answers)
    times = [at for at, _ in answers if at is not None]
    assert times == sorted(times)


def test_rows_are_of_the_type_that_the_instance_states_now(tmp_path: Path) -> None:
    """A client that has asked an instance asks the next one at its place, whose table has another column."""
    client = cdcv2.connect(tmp_path / "market.sock")
    for number, names in enumerate((["name", "price"], ["name", "place", "price"])):
        kinds = {"price": "long"}
        columns = [{"name": name, "type": kinds.get(name, "string")} for name in names]
        row_type = RowType({"type": "record", "name": "prices", "fields": columns})
        log = DirectoryLog(tmp_path / str(number) / "prices", row_type, create=True,
                           description=LogDescription(timeline="market", identity="prices"))  # fmt: skip
        with cdcv2.Writer(log) as writer:
            row = row_type.row([{"name": "pear", "place": "here", "price": 3}[name] for name in names])
            writer.extend([(row, 1, 1)])
            writer.advance([2])
        with served(LoneInstance([NamedLog("prices", log, row_type)], {"prices": ["name"]}), tmp_path / "market.sock"):
            for _ in range(2):
                assert list(client.peek({"prices": "pear"})["prices"]) == [row]
