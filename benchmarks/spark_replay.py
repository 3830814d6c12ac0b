"""How does the replay job compare with a bare copy of the same topic into Parquet?

The baseline decodes each message with ``from_avro`` and writes what it finds, repeats and disorder included, with the
same micro-batches. The log has two million distinct updates, one in five of them twice, shuffled within 400 messages.
Expected: three times as long: rows are written to the stash, read, folded, and written again. Answer:
``results/spark_replay.csv``, from ``python -m benchmarks spark_replay``. Two rounds by default, as one takes minutes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro

from benchmarks.avro_replay import ROWS
from benchmarks.harness import Case, Question
from benchmarks.stage import BATCH, Stage
from cdcv2 import Progress, Updates, mangle
from cdcv2.logs.avro import MessageCodec
from cdcv2.protocol.messages import Message
from cdcv2.spark import replay
from cdcv2.spark.output import history
from cdcv2.spark.progress import ProgressLines

UPDATES_PER_TIME, PER_MESSAGE, PER_STATEMENT = 1000, 100, 10_000
PARTITIONS = 4


def log_of(seed: int, size: int) -> Iterator[Message]:
    """The history, in order, each fact once."""
    random = Random(seed)
    for first in range(0, size, PER_STATEMENT):
        updates = [
            (_row(number, random), number // UPDATES_PER_TIME, 1)
            for number in range(first, min(first + PER_STATEMENT, size))
        ]
        for at in range(0, len(updates), PER_MESSAGE):
            yield Updates.trusted(tuple(updates[at:at + PER_MESSAGE]))
            if random.random() < 0.2:
                yield Updates.trusted(tuple(updates[at:at + PER_MESSAGE]))
        low, high = first // UPDATES_PER_TIME, (first + len(updates)) // UPDATES_PER_TIME
        yield Progress([low], [high], dict.fromkeys(range(low, high), UPDATES_PER_TIME))


def _row(number: int, random: Random) -> Any:
    return ROWS.row((number, f"payer {random.randrange(10**5)}", random.random(), None))


def filled(seed: int, size: int) -> Stage:
    """A broker whose topic ``log`` has the mangled history; ``size`` must be a multiple of 10,000."""
    stage = Stage.open()
    codec = MessageCodec(ROWS)
    stage.topic(PARTITIONS, "log")
    mangled = mangle(log_of(seed, size), seed=seed, copies=1, window=400, rebatch=False)
    sent = stage.fill(("log", number % PARTITIONS, None, codec.encode(one)) for number, one in enumerate(mangled))
    (stage.folder / "payment.avsc").write_text(json.dumps(ROWS.schema), "utf-8")
    stage.numbers.update(size=size, bytes=sent)
    return stage


def bare_copy(stage: Stage) -> dict[str, float]:
    """Kafka -> from_avro -> Parquet."""
    fields = [{"name": "message", "type": MessageCodec(ROWS).schema}]
    envelope = json.dumps({"type": "record", "name": "envelope", "fields": fields})
    rows = (
        stage.stream("log")
        .select(from_avro("value", envelope).alias("it"))
        .select(F.explode("it.message.member0").alias("update"))
        .select("update.*")
    )
    out = stage.fresh()
    query = rows.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", f"{out}-at")
    query.trigger(availableNow=True).start().awaitTermination()
    return {"bytes of the log per distinct update": stage.numbers["bytes"] / stage.numbers["size"]}


def replayed(stage: Stage) -> None:
    """The job."""
    out = stage.fresh()
    words = [
        "payment=kafka:log", "--row", f"payment={stage.folder / 'payment.avsc'}",
        "--bootstrap", stage.broker.bootstrap, "--output", str(out), "--state", f"{out}-state",
        "--no-follow", "--max-records", str(BATCH),
    ]  # fmt: skip
    plan = replay.planned(replay.parser().parse_args(words))
    reader = replay.replay(stage.spark, plan, ProgressLines.standard(), signals=False)
    end = stage.numbers["size"] // UPDATES_PER_TIME
    if list(reader.released) != [end]:
        raise ValueError(f"replay stopped at {reader.released}, not at {end}")
    stage.numbers["out"] = history(stage.spark, out).count()


def all_there(stage: Stage) -> None:
    """Every distinct update came out once."""
    if stage.numbers["out"] != stage.numbers["size"]:
        raise ValueError(f"{stage.numbers['out']} of {stage.numbers['size']} updates came out")


QUESTION = Question(
    prepare=filled,
    baseline=Case("Kafka to Parquet with from_avro", bare_copy),
    cases=[Case("replay job", replayed, check=all_there)],
    size=2_000_000,
    unit="distinct updates",
    versions=("pyspark", "confluent-kafka"),
    close=Stage.close,
    rounds=2,
    warm_up=1,
)
