"""What a capture decides, whichever way it reads and writes, on numbers alone: no I/O, no clock.

``transactions`` has the tracker that all captures call; ``released_transactions`` what it knows of transactions that
are released, ``begins`` what two BEGINs mean, ``transaction_contradictions`` what stops one, in words; ``numbers`` is a
compact set. The folder ``snapshot`` has all of how a snapshot is judged.
"""

from cdcv2.capture.begins import BeginRecords
from cdcv2.capture.numbers import Numbers
from cdcv2.capture.released_transactions import KNOWN, ReleasedTransactions
from cdcv2.capture.transaction_contradictions import Commit, Contradiction
from cdcv2.capture.transactions import TransactionTracker

__all__ = ["BeginRecords", "Commit", "Contradiction", "KNOWN", "Numbers", "ReleasedTransactions", "TransactionTracker"]
