"""``cdcv2 plan`` shows what ``cdcv2 up`` would change, and leaves all as it is."""

from __future__ import annotations

import json
from pathlib import Path

from cdcv2.exits import Exit
from tests.cli.conftest import Run


def test_the_command_shows_it_and_does_nothing(run: Run, tmp_path: Path) -> None:
    """A folder for the logs of a capture, and its job; with no state folder yet."""
    (tmp_path / "rows").mkdir()
    row = '{"type": "record", "name": "orders", "fields": [{"name": "id", "type": "long"}]}'
    (tmp_path / "rows" / "public.orders.avsc").write_text(row, "utf-8")
    file = tmp_path / "shop.yaml"
    file.write_text('pipeline: shop\nkafka: {bootstrap: "127.0.0.1:1"}\nsources: {shop: {}}\n'
                    "captures: {shop: {into: logs, owned: yes}}\n", "utf-8")  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    shown, as_json = run("plan", file), run("plan", file, "--json")

    assert Exit.MISSING == shown.code == as_json.code
    assert ["start", "make"] == [line.split()[0] for line in shown.out.splitlines()], shown.out
    assert ["job shop", f"state folder {tmp_path / 'logs'} (this machine)"] == [
        one["what"] for one in json.loads(as_json.out)["changes"]
    ]
    assert before == sorted(tmp_path.rglob("*"))
    view = "{bindings: [{log: public.orders, traget: o, key: [id]}], target: {driver: lake, folder: a}}"
    file.write_text(file.read_text("utf-8") + f"views: {{copy: {view}}}\n", "utf-8")
    mistaken = run("plan", file)
    assert Exit.MISSING == mistaken.code
    assert f"refused  job copy: {file}, line 5: 'traget' is not known here" in mistaken.out, mistaken.out
    file.write_text("pipeline: shop\nviews: {}\ncaptures: {}\n", "utf-8")
    assert Exit.USAGE == run("plan", file).code
