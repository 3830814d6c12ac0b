"""Write what captures and materializations leave: ``python -m tests.golden.captures FOLDER``, once per version.

As :mod:`tests.golden.write`, by commands alone: captures of the first part of recorded topics, in two runs each, so
that what they remember is of readers in mid-history; and what ``cdcv2 materialize`` made of one of them. The folder
``captures`` was written before a log had an identity, and a value of ``last`` the rows behind it; ``counts`` in it
since the files of a multiset in a lake are changes of counts.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).resolve().parents[1] / "data" / "debezium"
TABLES = ("public.order_items", "public.orders")
#: How much of each partition the two runs had.
SHARES = (0.3, 0.5)
COMMIT_TIMES, STATE, REMAP = ("clean_full", []), ("clean_default", ["--before", "from-state"]), ["--remap", "remap"]
#: Folder -> the recorded run, and the command's options for it.
CAPTURES: dict[str, tuple[str, list[str]]] = {
    "commit-times": COMMIT_TIMES,
    "from-state": STATE,
    "remap": (COMMIT_TIMES[0], [*COMMIT_TIMES[1], *REMAP]),
    "remap-from-state": (STATE[0], [*STATE[1], *REMAP]),
}
VIEWS = """
materialization: shop
logs: {logs}
bindings:
  - {{log: public.orders, target: orders, key: [id]}}
  - {{log: public.order_items, target: items}}
  - {{log: public.order_items, target: per_order, key: [order_id],
     reduce: {{n: count, qty: {{sum: qty}}, most: {{max: qty}}{last}}}, deletes: soft}}
target: {{driver: {driver}, folder: tables}}
recovery_log: {recovery}
rows: 100
"""
LAST = ", last: {last: qty}"
#: Folder -> driver, recovery log, and one more reduction.
MATERIALIZED = {
    "lake": ("lake", "recovery", ""),
    "delta": ("delta", "{sqlite: recovery.sqlite}", ""),
    "last": ("lake", "recovery", LAST),
    "counts": ("lake", "recovery", ""),
}


def dump(path: Path, run: str, share: float = 1.0) -> Path:
    """The first part of each partition of a recorded run, with the notifications that its snapshot would have had."""
    wanted = {f"{run}.transaction", *(f"{run}.{table}" for table in TABLES)}
    parts: dict[tuple[str, int], list[dict[str, Any]]] = {}
    counts = dict.fromkeys(TABLES, 0)
    with gzip.open(RECORDED / run / "topics.jsonl.gz", "rt", encoding="utf-8") as file:
        for record in map(json.loads, file):
            if record["topic"] in wanted:
                parts.setdefault((record["topic"], record["partition"]), []).append(record)
                table = record["topic"].partition(".")[2]
                if table in counts and '"op":"r"' in (record["value"] or ""):
                    counts[table] += 1
    kept = [record for records in parts.values() for record in records[: int(len(records) * share)]]
    scans = [("TABLE_SCAN_COMPLETED", *found) for found in counts.items()]
    for at, (kind, table, rows) in enumerate([("STARTED", None, None), *scans, ("COMPLETED", None, None)]):
        more = {"scanned_collection": table, "total_rows_scanned": rows}
        value = json.dumps({"type": kind, "aggregate_type": "Initial Snapshot", "additional_data": more})
        kept.append({"topic": f"{run}.notes", "partition": 0, "offset": at, "value": value})
    path.write_text("".join(json.dumps(record) + "\n" for record in kept), "utf-8")
    return path


def words(folder: Path, records: Path, run: str, more: list[str]) -> list[str]:
    """The capture into the folder."""
    placed = [str(folder / "remap") if word == "remap" else word for word in more]
    return [
        "capture", str(records), "--prefix", run, "--notifications", f"{run}.notes", "--tables", ",".join(TABLES),
        "--rows", str(RECORDED / "rows"), "--into", str(folder / "logs"), "--max-records", "400", *placed,
    ]  # fmt: skip


def views(folder: Path, logs: Path, name: str) -> Path:
    """The file of a materialization of captured logs."""
    driver, recovery, last = MATERIALIZED[name]
    path = folder / "shop.yaml"
    path.write_text(VIEWS.format(logs=logs, driver=driver, recovery=recovery, last=last), "utf-8")
    return path


def _command(*said: str) -> None:
    # In mid-history a capture ends with 1: transactions are not complete.
    ended = subprocess.run([sys.executable, "-m", "cdcv2", *said], check=False, capture_output=True, text=True)
    if ended.returncode not in (0, 1):
        sys.exit(f"cdcv2 {' '.join(said)}: {ended.returncode}\n{ended.stderr}")


def write(folder: Path) -> None:
    """All of them. Raises SystemExit when a command cannot do what is asked."""
    for name, (run, more) in CAPTURES.items():
        place = folder / name
        place.mkdir(parents=True)
        for share in SHARES:
            records = dump(folder / "records.jsonl", run, share)
            _command(*words(place, records, run, more))
            records.unlink()
    for name in MATERIALIZED:
        place = folder / name
        place.mkdir()
        file = views(place, folder / "commit-times" / "logs", name)
        _command("materialize", str(file))
        file.unlink()


if __name__ == "__main__":
    write(Path(sys.argv[1]))
