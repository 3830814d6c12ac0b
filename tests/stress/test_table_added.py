"""A table is added to a pipeline of ours, and written as soon as PostgreSQL publishes it: nothing is lost.

The connector runs, the other ten tables change, and the first rows are committed while it is given the table.
"""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.exits import Exit
from cdcv2.servers import jars
from cdcv2.servers.processes import poll_until
from tests.stress.summary import record
from tests.stress.test_readme_steps import SEED, changing
from tests.stress.test_what_stands_still import PATIENCE, World

pytestmark = pytest.mark.integration

_PUBLISHED = "SELECT FROM pg_publication_tables WHERE pubname = 'shop' AND tablename = 'fresh'"
#: So many transactions of one row, at least: they are committed before, while and after the connector reads the table.
ROWS = 5000


def with_fresh(world: World) -> str:
    """The file with the table, and with other logs and views, as its page has it."""
    path = world.folder / "shop" / "connector.json"
    config = json.loads(path.read_text("utf-8"))
    listed = config["table.include.list"] + r",(?-i:public\.fresh)"
    less = {"table.include.list": listed, "column.exclude.list": r"(?-i:public\.fresh\.place)"}
    path.write_text(json.dumps({**config, **less}), "utf-8")
    text = world.text.replace('tables: ["public.t0"', 'tables: ["public.fresh", "public.t0"')
    text = text.replace("into: logs", "into: logs2")
    text = text.replace("  copy:", "  copy2:").replace("  other:", "  other2:")
    text = text.replace('target: "t', 'target: "a').replace('target: "o', 'target: "b')
    bound = '      - {log: "public.t0"'
    return text.replace(bound, f'      - {{log: "public.fresh", target: "fresh", key: ["id"]}}\n{bound}', 1)


def test_a_table_that_is_written_while_it_is_added_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused as long as it has a row. A column of it is of a type that is not captured, and left out."""
    jars.fetch("kafka")
    jars.fetch("debezium")
    written, ended = [0], threading.Event()
    with ExitStack() as opened:
        world = World(tmp_path, opened, monkeypatch)
        with world.server.connect(autocommit=True, user="cdc", password="of-cdc") as session:
            session.execute("CREATE TABLE fresh (id int PRIMARY KEY, name text DEFAULT 'none', place point)")

            def write() -> None:
                while session.execute(_PUBLISHED).fetchone() is None and not ended.is_set():
                    pass
                while written[0] < ROWS and not ended.is_set():
                    written[0] += 1
                    session.execute("INSERT INTO fresh VALUES (%s, NULL, '(1,2)')", [written[0]])

            writer = threading.Thread(target=write, daemon=True)
            opened.callback(writer.join, PATIENCE)
            opened.callback(ended.set)
            with changing(world.server):
                compared = ["compare", str(world.path), "--source", "env", "--wait", "60", "--marker", "--view"]
                assert Exit.DONE == main([*compared, "copy"])
                rows = world.folder / "shop" / "rows" / "public.fresh.avsc"
                assert Exit.DONE == main(["rows", "--source", "env", "--table", "public.fresh", "--output", str(rows),
                                          "--exclude-columns", "place"])
                writer.start()
                world.change(with_fresh(world))
                assert poll_until(lambda: written[0] == ROWS, PATIENCE)
                assert Exit.DONE == main([*compared, "copy2"])
        world.process.send_signal(signal.SIGINT)
        world.process.wait(PATIENCE)
        assert Exit.DONE == main(["down", str(world.path)])
    record("a table is added while it is written", [SEED], {"rows of the new table": ROWS, "tables that are equal": 11})
