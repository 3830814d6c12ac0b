"""The options of the jobs on Spark that read logs; those of the capture job are in ``capture_options``."""

from __future__ import annotations

from cdcv2.cli.options.log_words import check_used_on_spark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare, declare_follow


def add_reader_options(made: OptionParser, quarantine: str = "") -> None:
    """Declare how a job reads logs; ``quarantine`` ends the help of that option."""
    declare(made, "--state", required=True, more=": what is not finished; every machine must see it")
    declare(made, "--checkpoint")
    declare(made, "--quarantine", more=f"; cdcv2 verify --quarantine DIR keeps the evidence{quarantine}")
    declare_follow(made, default=True)
    declare(made, "--interval", default=1.0, more=" (default: 1)")
    declare(made, "--events")
    declare(made, "--app-name", default=f"cdcv2 {made.prog.removesuffix('.py')}")
    declare(made, "--spark-log", default="ERROR")
    declare(made, "--max-records", more=" (of Kafka)")
    declare(made, "--max-files")
    for old, new in (("--available-now", "--no-follow"), ("--name", "--app-name"), ("--max-messages", "--max-records")):
        made.formerly(old, new)


def add_materialize_job_options(made: OptionParser) -> None:
    """Declare all options of the materialize job."""
    declare(made, "file", more=": what to keep where")
    declare(made, "--view")
    declare(made, "--no-create", more=" (drivers postgres and kafka)")
    add_reader_options(made, " (default: that of the file)")
    made.add_argument(
        "--merge-on-spark", action="store_true",
        help="merge staged rows by Delta on Spark (with the driver delta), not in one process; see the example",
    )


def add_replay_job_options(made: OptionParser) -> None:
    """Declare all options of the replay job."""
    declare(made, "log", nargs="*", more=" (the table: by default called as the log is); several are of several "
                                         "tables, or copies of one")
    declare(made, "--row", "--rows")
    declare(made, "--output", required=True, more=": a directory for the tables, which every machine must see")
    add_reader_options(made)
    declare(made, "--bootstrap", "--kafka-config", "--timeline", "--start")
    made.checks.append(check_used_on_spark)
