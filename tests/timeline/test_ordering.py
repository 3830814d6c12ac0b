"""What needs the state before a transaction is refused where transactions come in any order."""

from __future__ import annotations

import pytest

from cdcv2.errors import RefusedError
from cdcv2.timeline.ordering import AS_COMPLETE, COMMIT_ORDER, check_ordered


def test_only_the_order_of_commits_has_the_state_before_each_transaction() -> None:
    """The purpose and the ordering that there is are named."""
    check_ordered(COMMIT_ORDER, "a view")
    with pytest.raises(RefusedError, match="a view needs .*'complete'.* with the ordering 'commit'"):
        check_ordered(AS_COMPLETE, "a view")
