"""The algebra of times: the partial order, antichains as frontiers, sums that forget zeroes.

Standard library and sortedcontainers only; no clock, no chance, no I/O.
"""

from cdcv2.core.antichain import Antichain, MutableAntichain
from cdcv2.core.changes import ChangeBatch, consolidate
from cdcv2.core.order import MAX_TIME, PartialOrder, Product, Time, join, less_equal

__all__ = [
    "Antichain",
    "ChangeBatch",
    "MAX_TIME",
    "MutableAntichain",
    "PartialOrder",
    "Product",
    "Time",
    "consolidate",
    "join",
    "less_equal",
]
