"""The options of the jobs on Spark, for the jobs themselves and for a file that names them."""

from __future__ import annotations

from cdcv2.cli.options.capture import add_capture_options
from cdcv2.cli.options.capture_command import add_sole_option
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.remap_capture import add_remap_options
from cdcv2.cli.options.stream_capture import add_stream_options
from cdcv2.cli.options.words import declare, declare_follow


def add_job_options(parser: OptionParser, *, interval: float | None, spark_log: str = "ERROR") -> None:
    """Declare how a job runs; its default ``interval`` in seconds, None: as soon as there is something."""
    declare_follow(parser, default=True)
    declare(
        parser, "--interval", default=interval,
        more=f" (default: {'as soon as there is something' if interval is None else f'{interval:g}'})",
    )
    declare(parser, "--events")
    declare(parser, "--app-name", default=f"cdcv2 {parser.prog.removesuffix('.py')}")
    declare(parser, "--spark-log", default=spark_log)
    for old, new in (("--available-now", "--no-follow"), ("--name", "--app-name")):
        parser.formerly(old, new)


def add_reader_options(made: OptionParser) -> None:
    """Declare how a job reads logs."""
    declare(made, "--state", required=True, more=": what is not finished; every machine must see it")
    declare(made, "--checkpoint")
    declare(made, "--quarantine", more="; cdcv2 verify --quarantine DIR keeps the evidence")
    add_job_options(made, interval=1.0)
    declare(made, "--max-records", more=" (of Kafka)")
    declare(made, "--max-files")
    made.formerly("--max-messages", "--max-records")


def add_capture_job_options(made: OptionParser) -> None:
    """Declare all options of the capture job."""
    add_capture_options(made)
    declare(made, "--state", more=", small, and Spark's checkpoint; not with --remap")
    declare(made, "--bootstrap")
    made.add_argument("--log-bootstrap", metavar="HOST:PORT", help="the Kafka of the logs, if it is another one")
    declare(made, "--partitions")
    declare(made, "--kafka-config", more="; all machines must see it")
    add_job_options(made, interval=None, spark_log="OFF")
    declare(made, "--max-records", default=200_000,
            more=" (default: 200000); with --remap about so many, and whole bindings")
    declare(made, "--max-files", more="; without --remap")
    add_sole_option(made)
    add_remap_options(made)
    add_stream_options(made.add_argument_group("records with times of their own"))
    for old, new in (("--logs", "--into"), ("--files", "{}"), ("--log-partitions", "--partitions"),
                     ("--max-offsets-per-trigger", "--max-records")):  # fmt: skip
        made.formerly(old, new)


def add_materialize_job_options(made: OptionParser) -> None:
    """Declare all options of the materialize job."""
    declare(made, "file", more=": what to keep where")
    declare(made, "--view")
    declare(made, "--no-create", more=" (drivers postgres and kafka)")
    add_reader_options(made)
    made.add_argument(
        "--merge-on-spark", action="store_true",
        help="merge staged rows by Delta on Spark (with the driver delta), not in one process; see the example",
    )
