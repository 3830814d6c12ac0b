"""The steps at which tests of captures by commit times place crashes, and lives of captures that end there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from cdcv2 import failpoints
from cdcv2.capture.updates_then_statements import TEMP_STATED
from cdcv2.logs.directory import AFTER_LINK, BEFORE_LINK
from tests.doubles import KeptMemory, RecordingLog

#: Those of a release; by commit times there is no TEMP.
RELEASE = sorted(name for name in failpoints.KNOWN if name.startswith("release.") and name != TEMP_STATED)
#: Those of a release into directory logs, down to each file.
IN_FILES = sorted([
    *RELEASE, BEFORE_LINK, AFTER_LINK, *(name for name in failpoints.KNOWN if name.startswith("writer.")),
])

Logs = dict[str, RecordingLog]


def killed_anywhere(
    chance: random.Random, memory: str, logs: Logs, kept: KeptMemory, life: Callable[[Logs], object]
) -> Logs:
    """The logs after lives of a capture that are killed at drawn steps of a release, until one is not.

    ``memory`` is what becomes of what is ``kept`` between two lives: it is "kept", "lost" or an "older" one.
    """
    for _ in range(30):
        logs = {table: log.again() for table, log in logs.items()}
        kept.plain = {"kept": kept.plain, "lost": None, "older": chance.choice(kept.older)}[memory]
        try:
            with failpoints.placed(chance.choice(RELEASE), nth=chance.randint(1, 3)):
                life(logs)
            break
        except failpoints.PlacedCrash:
            continue
    return logs


def killed_three_times(
    step: str, logs: Logs, life: Callable[[Logs, Any, random.Random], object], *, most: int, remembers: bool
) -> Logs:
    """The logs after three lives that are killed at a step, the first to the ``most``-th time, and one that is not."""
    chance, memory, crashes = random.Random(step), KeptMemory(), 0
    while True:
        logs = {table: log.again() for table, log in logs.items()}
        memory = memory if remembers else KeptMemory()
        try:
            with failpoints.placed(step, nth=chance.randint(1, most) if crashes < 3 else 10**9):
                life(logs, memory, chance)
            break
        except failpoints.PlacedCrash:
            crashes += 1
    assert 3 == crashes
    return logs
