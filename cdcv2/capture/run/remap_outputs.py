"""The outputs of a capture on a shared remap, without Spark: what is asked for, with its logs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from cdcv2.capture.open_record_codec import TEMP
from cdcv2.capture.run.database import Database
from cdcv2.capture.run.on_remap import RemapOutput
from cdcv2.capture.run.plain_tables import PlainTables
from cdcv2.capture.run.request import CaptureRequest, temp_name
from cdcv2.capture.run.table_writers import TableWriters
from cdcv2.connectors.kinds import PLAIN_TOPIC
from cdcv2.protocol.log import Log
from cdcv2.protocol.log_address import LogAddress
from cdcv2.protocol.writer import Writer
from cdcv2.rows.row_type import RowType


def remap_outputs(
    asked: CaptureRequest, logs: LogAddress, opened: Callable[[str, RowType], Log], until: ExitStack
) -> tuple[list[RemapOutput], dict[str, Log]]:
    """Plain tables together, and each database; and their logs by name, which are open until the block is left.

    ``opened`` opens a log by its name at the address. Raises what that and the outputs raise.
    """
    made: list[RemapOutput] = []
    kept: dict[str, Log] = {}

    def written(log: Log) -> Writer:
        kept[log.name] = log
        return until.enter_context(Writer(log))

    if asked.plain:
        made.append(PlainTables({
            table: (topic, PLAIN_TOPIC(row_type), written(opened(table, row_type)))
            for table, (topic, row_type) in asked.plain.items()
        }))
    for prefix, (recipe, names) in asked.databases.items():
        tables = TableWriters({table: opened(names[table], kind) for table, kind in recipe.tables.items()})
        until.callback(tables.close)
        kept.update({log.name: log for log in tables.logs.values()})
        temp = opened(temp_name(logs, prefix), TEMP)
        made.append(Database(recipe, tables, (temp, written(temp)), ordering=asked.ordering, names=names))
    return made, kept
