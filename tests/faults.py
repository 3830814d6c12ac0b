"""Which scenarios of the conformance kit every run plays on stores that are slow; `make stress` plays all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cdcv2.testing import Scenario

_LATER_STALL = re.compile(r"stall-at-\w+-(?!1$)\d+\Z")


def few_stalls(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """All but the stalls at a second and later message of a kind, at which nothing is as it was not at the first."""
    return [one for one in scenarios if not _LATER_STALL.match(one.name)]
