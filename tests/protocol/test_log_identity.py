"""What is stated where something was kept of one log, and another one is there."""

from __future__ import annotations

import pytest

from cdcv2.protocol.log_identity import other_log_text


@pytest.mark.parametrize(("there", "named"), [
    ("log-2", "log-2"), (None, "one without an identity"), ("", "one without an identity"),
])  # fmt: skip
def test_both_logs_are_named_and_what_to_do(there: str | None, named: str) -> None:
    """A log of an earlier release has no identity."""
    assert (
        f"the stream of t is of the log log-1, and {named} is here now: its changes are others. Start over, and "
        "replace what you have by the first batch"
    ) == other_log_text("the stream of t", "log-1", there, "Start over")
