"""How does the capture job compare with a bare copy of the same records from topic to topic, and on a shared remap?

The records are generated: envelopes of the shape that Debezium 3.7 was recorded with (JSON without schemas, updates of
pgbench_accounts with replica identity FULL), in transactions of ten rows. Each record is two updates, so a million
records are two million. Expected: ten times as long, as every record is parsed in Python on the executors, counted,
read again when its transaction is whole, and consolidated. On a shared remap: a little more, as the driver receives
each row, and writes what is held from one binding to the next, but nothing is read again. Answer:
``results/spark_capture.csv``, from ``python -m benchmarks spark_capture``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

from benchmarks.harness import Case, Question
from benchmarks.stage import BATCH, Stage
from cdcv2.logs.avro import MessageCodec
from cdcv2.logs.kafka import KafkaLog
from cdcv2.protocol.messages import Updates
from cdcv2.rows.row_type import RowType
from cdcv2.spark.capture import job as capture_job
from cdcv2.spark.capture.report import CaptureReport
from cdcv2.spark.remap_capture import job as bound_job
from cdcv2.timeline.binding import check_int

TABLE = "public.pgbench_accounts"
PER_TRANSACTION, PARTITIONS = 10, 3
_COLUMNS = {"aid": "int", "bid": ["null", "int"], "abalance": ["null", "int"], "filler": ["null", "string"]}
AVSC = {
    "type": "record", "name": "pgbench_accounts",
    "fields": [{"name": name, "type": kind} for name, kind in _COLUMNS.items()],
}  # fmt: skip
#: records in a micro-batch: they are small, a message of a log is large
RECORDS = BATCH * 25


def envelopes(records: int) -> Iterator[tuple[str, int, bytes | None, bytes]]:
    """The topics of a connector called ``g``, as records (topic, partition, key, value)."""
    for tx in range(records // PER_TRANSACTION):
        begin, end = tx * 1000 + 1000, tx * 1000 + 2000
        for order in range(1, PER_TRANSACTION + 1):
            aid = (tx * 7 + order) % 100_000
            yield f"g.{TABLE}", aid % PARTITIONS, json.dumps({"aid": aid}).encode(), update("g", tx, aid, begin, order)
        collections = [{"data_collection": TABLE, "event_count": PER_TRANSACTION}]
        said = {"status": "END", "id": f"{tx}:{end}", "event_count": PER_TRANSACTION, "data_collections": collections}
        yield "g.transaction", 0, None, json.dumps({**said, "ts_ms": 1795251720511}).encode()


def update(prefix: str, tx: int, aid: int, begin: int, order: int) -> bytes:
    """The envelope of a changed row."""
    row = {"aid": aid, "bid": 1, "abalance": tx, "filler": " " * 84}
    lsn = begin + order * 10
    source = {
        "version": "3.7.0.Final", "connector": "postgresql", "name": prefix, "ts_ms": 1795251720505,
        "snapshot": "false", "db": prefix, "sequence": json.dumps([str(begin), str(lsn)]), "ts_us": 1795251720505412,
        "ts_ns": 1795251720505412000, "schema": "public", "table": "pgbench_accounts", "txId": tx, "lsn": lsn,
        "xmin": None, "origin": None, "origin_lsn": None,
    }  # fmt: skip
    place = {"id": f"{tx}:{lsn}", "total_order": order, "data_collection_order": order}
    return json.dumps({
        "before": row, "after": {**row, "abalance": tx + 1}, "source": source, "transaction": place, "op": "u",
        "ts_ms": 1795251720962, "ts_us": 1795251720962715, "ts_ns": 1795251720962715363,
    }).encode()  # fmt: skip


def filled(seed: int, size: int) -> Stage:
    """A broker with the connector's topics; the records are the same for every seed."""
    stage = Stage.open()
    stage.topic(PARTITIONS, f"g.{TABLE}")
    stage.topic(1, "g.transaction")
    rows = stage.folder / "rows"
    rows.mkdir()
    (rows / f"{TABLE}.avsc").write_text(json.dumps(AVSC), "utf-8")
    stage.numbers.update(records=size // 2, bytes=stage.fill(envelopes(size // 2)))
    return stage


def bare_copy(stage: Stage) -> dict[str, float]:
    """Kafka -> Kafka, nothing looked at."""
    out = stage.fresh()
    query = (
        stage.stream(f"g.{TABLE}", "g.transaction", records=RECORDS).select("key", "value").writeStream.format("kafka")
        .option("kafka.bootstrap.servers", stage.broker.bootstrap)
        .option("topic", stage.topic(PARTITIONS))
        .option("checkpointLocation", f"{out}-at")
    )
    query.trigger(availableNow=True).start().awaitTermination()
    return {"bytes per record, in the connector's topics": stage.numbers["bytes"] / stage.numbers["records"]}


def captured(stage: Stage) -> dict[str, float]:
    """The job."""
    out = stage.fresh()
    topic = f"{out.name}.{TABLE}"
    words = [
        "--bootstrap", stage.broker.bootstrap, "--prefix", "g", "--rows", str(stage.folder / "rows"),
        "--snapshot", "none", "--into", f"kafka:{out.name}.{{table}}", "--state", str(out), "--no-follow",
        "--max-records", str(RECORDS), "--partitions", str(PARTITIONS),
    ]  # fmt: skip
    plan = capture_job.planned(capture_job.parser().parse_args(words))
    made = capture_job.capture(stage.spark, plan, CaptureReport.standard())
    stage.numbers["through"] = check_int(made.frontier.elements[0]) - 1 if made.frontier else 0
    return _size(stage, topic)


def bound(stage: Stage) -> dict[str, float]:
    """The job with --remap, which binds all there is and writes it."""
    out = stage.fresh()
    words = [
        "--bootstrap", stage.broker.bootstrap, "--prefix", "g", "--rows", str(stage.folder / "rows"),
        "--snapshot", "none", "--into", f"kafka:{out.name}.{{table}}", "--remap", f"kafka:{out.name}.remap",
        "--no-follow", "--bind-at-most", str(RECORDS), "--max-records", str(RECORDS),
        "--partitions", str(PARTITIONS),
    ]  # fmt: skip
    plan = bound_job.planned(capture_job.parser().parse_args(words))
    came = bound_job.capture(stage.spark, plan, CaptureReport.standard(), stopping=threading.Event())
    stage.numbers["left"] = 1 if came is None else len(came.waiting)
    return _size(stage, f"{out.name}.{TABLE}")


def _size(stage: Stage, topic: str) -> dict[str, float]:
    """Bytes per update of the log, from a look at its beginning."""
    row_type = RowType(AVSC)
    log = KafkaLog(topic, stage.broker.bootstrap, row_type)
    size = updates = 0
    codec = MessageCodec(row_type)
    for entry in log.read():
        if entry is not None and isinstance(entry.message, Updates):
            size += len(codec.encode(entry.message))
            updates += len(entry.message)
            if updates > 20_000:
                break
    log.close()
    return {"bytes of the log per update": size / max(1, updates)}


def all_there(stage: Stage) -> None:
    """All transactions are released."""
    last = stage.numbers["records"] // PER_TRANSACTION * 1000 + 1000
    if stage.numbers["through"] != last:
        raise ValueError(f"capture stopped at {stage.numbers['through']}, not at {last}")


def nothing_left(stage: Stage) -> None:
    """No transaction is held."""
    if stage.numbers["left"]:
        raise ValueError("the capture on a shared remap holds transactions that are not complete")


QUESTION = Question(
    prepare=filled,
    baseline=Case("Kafka to Kafka, a bare copy", bare_copy),
    cases=[
        Case("capture job", captured, check=all_there),
        Case("capture job on a shared remap", bound, check=nothing_left),
    ],
    size=2_000_000,
    unit="updates",
    versions=("pyspark", "confluent-kafka"),
    close=Stage.close,
    rounds=2,
    warm_up=1,
)
