"""What the questions about Spark share: a broker, a session with the locked jars, topics that are filled and copied."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession

from cdcv2.servers.jars import comma_list
from cdcv2.servers.kafka import KafkaBroker

#: Kafka messages in one micro-batch, for every job alike
BATCH = 6000


@dataclass
class Stage:
    """A running broker and session, a folder for output, and numbers that the question keeps."""

    broker: KafkaBroker
    spark: SparkSession
    folder: Path
    numbers: dict[str, float] = field(default_factory=dict)

    @classmethod
    def open(cls) -> Stage:
        """Start both."""
        folder = Path(tempfile.mkdtemp(prefix="cdcv2-bench-"))
        # Else executors run whatever python3 is first on the path.
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        broker = KafkaBroker(heap="768m", options=("-XX:+UseSerialGC",)).__enter__()
        spark = (
            SparkSession.builder.master("local[2]").appName("benchmark")
            .config("spark.jars", comma_list("spark"))
            .config("spark.ui.enabled", "false")
            .config("spark.driver.memory", "3g")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.extraJavaOptions", "-Xss8m -Duser.timezone=UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.local.dir", str(folder / "local"))
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        return cls(broker, spark, folder)

    def close(self) -> None:
        """Stop both and remove the folder."""
        self.spark.stop()
        self.broker.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def fresh(self) -> Path:
        """A folder that is not there yet."""
        return self.folder / uuid.uuid4().hex

    def topic(self, partitions: int = 1, name: str | None = None) -> str:
        """Make a topic that keeps everything, and return its name."""
        return make_topic(self.broker.bootstrap, name or uuid.uuid4().hex, partitions)

    def fill(self, records: Iterable[tuple[str, int, bytes | None, bytes]]) -> int:
        """See :func:`fill`."""
        return fill(self.broker.bootstrap, records)

    def stream(self, *topics: str, records: int = BATCH) -> DataFrame:
        """The topics from their start, as a streaming frame of so many records in a micro-batch."""
        return (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.broker.bootstrap)
            .option("subscribe", ",".join(topics))
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", str(records))
            .load()
        )


def make_topic(bootstrap: str, name: str, partitions: int) -> str:
    """Make a topic that keeps everything, and return its name."""
    config = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic(name, partitions, 1, config=config)]).values():
        made.result(30)
    return name


def fill(bootstrap: str, records: Iterable[tuple[str, int, bytes | None, bytes]]) -> int:
    """Send records (topic, partition, key, value), and return how many bytes their values have."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 50,
        "queue.buffering.max.messages": 500_000, "queue.buffering.max.kbytes": 524_288,
    })  # fmt: skip
    size = 0
    for topic, partition, key, value in records:
        size += len(value)
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(1)
        producer.poll(0)
    if producer.flush(120):
        raise TimeoutError("the broker did not take all records within two minutes")
    return size
