"""Keep a view of finished logs in a foreign system, exactly once where that system allows it.

A *runtime* reads the cuts of a timeline and works out what each row of the view becomes; a *driver* knows one foreign
system. They take turns, by a protocol that is a table (:mod:`cdcv2.materialize.protocol.turns`). The runtime asks for
the present rows and sends the new ones. Both commit the *checkpoint* together with these, in the system's own
transaction or through a *recovery log*. Every commit is a consistent cut, and an instance that has been replaced can
commit nothing any more.
"""

import importlib
from typing import TYPE_CHECKING, Any

from cdcv2.materialize.connection import InlineConnection, ThreadConnection
from cdcv2.materialize.driver import Driver
from cdcv2.materialize.protocol.fence import Range
from cdcv2.materialize.protocol.messages import Checkpoint, Field, Patch, Table
from cdcv2.materialize.recovery_log import RecoveryLog
from cdcv2.materialize.recovery_log_stores import FileRecoveryLog, MemoryRecoveryLog, SqliteRecoveryLog

if TYPE_CHECKING:
    from cdcv2.materialize.runtime import Runtime
    from cdcv2.views.binding import ViewBinding
    from cdcv2.views.reductions import Count, Last, Max, Min, Sum

__all__ = [
    "Checkpoint",
    "Count",
    "Driver",
    "Field",
    "FileRecoveryLog",
    "InlineConnection",
    "Last",
    "Max",
    "MemoryRecoveryLog",
    "Min",
    "Patch",
    "Range",
    "RecoveryLog",
    "Runtime",
    "SqliteRecoveryLog",
    "Sum",
    "Table",
    "ThreadConnection",
    "ViewBinding",
]

#: What needs views, which import the protocol of this package: imported when it is asked for.
_NEEDS_VIEWS = {
    "Runtime": "cdcv2.materialize.runtime", "ViewBinding": "cdcv2.views.binding",
    **dict.fromkeys(("Count", "Last", "Max", "Min", "Sum"), "cdcv2.views.reductions"),
}  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _NEEDS_VIEWS:
            return getattr(importlib.import_module(_NEEDS_VIEWS[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
