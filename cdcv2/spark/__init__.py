"""Structured Streaming shells around the protocol; the only box that imports PySpark.

The control plane runs on the driver and is the very ``Ledger`` of ``cdcv2.protocol``; rows stay on the executors.
"""

try:
    import pyspark  # noqa: F401
except ImportError as cause:
    raise ImportError("cdcv2.spark needs PySpark: pip install '.[spark]'") from cause

from cdcv2.spark.output import as_of

__all__ = ["as_of"]
