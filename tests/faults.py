"""Which scenarios of the conformance kit every run plays on stores that are slow; `make stress` plays all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cdcv2.testing import Scenario

_LATER = re.compile(r"(stall-at-\w+-(?!1\Z)\d+|(crash|zombie)-at-\w+-2|crash-after-change-[6-8])\Z")


def few(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """The first stall, the first and the last crash and zombie at each kind of message, and all that is no such thing.

    In between nothing is as it is not at the first or the last. Of changes of the recovery log: one transaction's.
    """
    return [one for one in scenarios if not _LATER.match(one.name)]
