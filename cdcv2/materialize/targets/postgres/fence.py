"""The fence of :mod:`cdcv2.materialize.protocol.fence` as a table of PostgreSQL, changed by one statement.

The statement takes the lock of every holding that it raises; at READ COMMITTED it thereby waits for a commit that is
under way, and then sees its checkpoint. Two who open a range that is new wait for each other at a lock of the
materialization's name, as there is no row yet that both could find.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from cdcv2.materialize.protocol.fence import Holding, Range

if TYPE_CHECKING:
    from psycopg import Connection

CREATE = """
CREATE TABLE IF NOT EXISTS cdcv2_checkpoints (
    materialization text NOT NULL, key_begin bigint NOT NULL, key_end bigint NOT NULL,
    fence bigint NOT NULL, checkpoint text NOT NULL,
    PRIMARY KEY (materialization, key_begin, key_end))
"""
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('cdcv2 ' || %(name)s, 0))"
# The parts of the one statement: raise every fence that overlaps; of those that cover the range, the narrowest; a new
# row, unless the range has one. What is read is what UPDATE returns, so it is what the locks protect.
INSTALL = """
WITH covered AS (
    UPDATE cdcv2_checkpoints SET fence = fence + 1
     WHERE materialization = %(name)s AND key_end >= %(begin)s AND key_begin <= %(end)s
    RETURNING *),
best AS (
    SELECT * FROM covered WHERE key_begin <= %(begin)s AND key_end >= %(end)s
     ORDER BY key_end - key_begin, key_begin LIMIT 1),
new AS (
    INSERT INTO cdcv2_checkpoints
    SELECT %(name)s, %(begin)s, %(end)s, fence, checkpoint FROM best
     WHERE (key_begin, key_end) <> (%(begin)s, %(end)s)
    UNION ALL
    SELECT %(name)s, %(begin)s, %(end)s, %(fence)s, %(checkpoint)s WHERE NOT EXISTS (SELECT FROM best)
    RETURNING *)
SELECT fence, checkpoint FROM new UNION ALL SELECT fence, checkpoint FROM best LIMIT 1
"""
# A narrower holding may be ahead of what was inherited: then all that overlap get one fence, above all of theirs.
RAISE = """
UPDATE cdcv2_checkpoints SET fence = (
    SELECT max(fence) FROM cdcv2_checkpoints
     WHERE materialization = %(name)s AND key_end >= %(begin)s AND key_begin <= %(end)s)
 WHERE materialization = %(name)s AND key_end >= %(begin)s AND key_begin <= %(end)s
RETURNING fence
"""
NEAR = """
SELECT key_begin, key_end, fence, checkpoint FROM cdcv2_checkpoints
 WHERE materialization = %(name)s AND key_end >= %(begin)s AND key_begin <= %(end)s
"""
ALL = "SELECT checkpoint FROM cdcv2_checkpoints WHERE materialization = %(name)s"
OTHERS = "SELECT materialization, checkpoint FROM cdcv2_checkpoints WHERE materialization <> %(name)s ORDER BY 1"
#: A holding as its instance left it: its fence was not raised, and the table was not put back to an earlier moment.
OURS = "fence = %(fence)s AND sha256(convert_to(checkpoint, 'UTF8')) = %(held)s"
HELD = f"""
SELECT FROM cdcv2_checkpoints
 WHERE materialization = %(name)s AND key_begin = %(begin)s AND key_end = %(end)s AND {OURS}
"""
COMMIT = f"""
UPDATE cdcv2_checkpoints SET checkpoint = %(checkpoint)s
 WHERE materialization = %(name)s AND key_begin = %(begin)s AND key_end = %(end)s AND {OURS}
"""
FENCE = """
SELECT fence FROM cdcv2_checkpoints
 WHERE materialization = %(name)s AND key_begin = %(begin)s AND key_end = %(end)s
"""


def held(checkpoint: str) -> bytes:
    """What HELD and COMMIT know a checkpoint by, without its text being sent."""
    return hashlib.sha256(checkpoint.encode()).digest()


def install(
    connection: Connection[Any], name: str, wanted: Range, *, fence: int = 0, checkpoint: str = ""
) -> tuple[int, str]:
    """Begin to serve the range, in the transaction that is open: the new fence, and its checkpoint."""
    given = {"name": name, "begin": wanted.begin, "end": wanted.end, "fence": fence, "checkpoint": checkpoint}
    row = connection.execute(INSTALL, given).fetchone()
    return (0, "") if row is None else (row[0], row[1])


def claim(connection: Connection[Any], name: str, wanted: Range, checkpoint: str) -> tuple[int, list[Holding]]:
    """Begin to serve the range, in the transaction that is open, by the rule for narrower holdings.

    Returns the new fence, and every holding that overlaps, with its checkpoint's text. ``checkpoint`` is that of a view
    that has nothing.
    """
    given: dict[str, Any] = {"name": name, "begin": wanted.begin, "end": wanted.end}
    connection.execute(LOCK, given)
    fence, _ = install(connection, name, wanted, checkpoint=checkpoint)
    near = [Holding(Range(row[0], row[1]), row[2], row[3]) for row in connection.execute(NEAR, given)]
    if any(one.range.width < wanted.width for one in near):
        raised = connection.execute(RAISE, given).fetchone()
        fence = fence if raised is None else raised[0]
    return fence, near
