"""What every test may lean on: profiles for random histories, and one Spark for all tests of a worker."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcv2.servers.kafka import KafkaBroker

# No machine is fast enough to be sure of a deadline, and no test may depend on one.
settings.register_profile("ci", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("stress", settings.get_profile("ci"), max_examples=20_000, phases=tuple(Phase))
# One wrong line is enough for a mutation to be caught: the shrunk example is not read.
settings.register_profile(
    "mutate", settings.get_profile("ci"), max_examples=25, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

#: What is longer is no name for a case.
LONGEST_NAME = 100
#: What a JVM of many tests has besides: room for what is new, so that it is looked through less often.
LONGER_LIVED = ("-Xms1g", "-Xmn512m")
#: Hadoop starts a chmod for each file and folder that it makes on a local disk: some thirty for a test.
MANY_PROCESSES = ("-Djdk.lang.Process.launchMechanism=VFORK",)
#: How the files of those tests begin that capture with Spark.
CAPTURES = ("test_bound_", "test_capture_", "test_every_way_")


def pytest_configure(config: pytest.Config) -> None:
    """In the background of a shell Ctrl-C is ignored, and tests interrupt processes; nothing waits for the disk."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # A process that is killed loses nothing that it wrote: only a machine without power would, and no test has one.
    os.fsync = lambda _: None


def pytest_make_parametrize_id(val: object) -> str | None:
    """Begin and length of a long text: names of 10 MB would go to each worker, and into each line of the log."""
    if isinstance(val, str | bytes) and len(val) > LONGEST_NAME:
        return f"{ascii(val[:16])} and so on, {len(val)} long"
    return None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a Spark or servers run one after another in one worker, so that each is started once."""
    for item in items:
        group = group_of(item)
        if group is not None and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Thousands of tests, and all that they import, stay: a collection of garbage need not look at them again."""
    gc.collect()
    gc.freeze()


def group_of(item: pytest.Item) -> str | None:
    """What its tests wait for: as long as they are, captures have a Spark of their own, beside that of the readers."""
    if item.get_closest_marker("spark"):
        return "captures" if item.path.name.startswith(CAPTURES) else "spark"
    return "integration" if item.get_closest_marker("integration") else None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One local Spark for all tests of a worker, started by the first that asks for it."""
    # Also read by the executors that fetch the jars: otherwise they ask for the machine's own address.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from cdcv2.servers.archive import flags
    from cdcv2.servers.jars import comma_list
    from cdcv2.servers.java import SHORT_LIVED
    from tests.spark.java_names import remember_java_names

    remember_java_names()
    scratch = tmp_path_factory.mktemp("spark")
    options = ["-Xss8m", "-Duser.timezone=UTC", *SHORT_LIVED, *flags("spark"), *LONGER_LIVED, *MANY_PROCESSES]
    session = (
        SparkSession.builder.master("local[2]")
        .appName("cdcv2 tests")
        .config("spark.jars", f"{comma_list('spark')},{comma_list('delta')}")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.ui.enabled", "false")
        # Who called each function is of no use in a message here, and is looked up at each call.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "2g")
        # A query that is stopped inside a foreachBatch function otherwise prints a stack overflow of a thousand lines.
        .config("spark.driver.extraJavaOptions", " ".join(options))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        # Each plan of a small test is compiled for longer than it runs. What jobs do as users start them is compiled.
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        # Half the fixed cost of a micro-batch on a local disk; clusters keep their default.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    _write_no_checksums(session)
    yield session
    session.stop()


def _write_no_checksums(session: SparkSession) -> None:
    """With a checksum beside it, each file is two, and takes twice the processes of :data:`MANY_PROCESSES`."""
    context: Any = session.sparkContext
    files = context._jvm.org.apache.hadoop.fs.FileSystem
    files.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """One broker for all tests of a worker that neither stop nor kill theirs; each file has topics of its own."""
    from cdcv2.servers.kafka import KafkaBroker

    with KafkaBroker() as started:
        yield started
