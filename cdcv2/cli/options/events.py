"""``--events`` of a command or a job: found before the other arguments are judged, so that wrong usage has an end, too.
"""

from __future__ import annotations

import argparse

from cdcv2.cli.options.parser import OptionParser
from cdcv2.errors import UsageError
from cdcv2.event_stream import OPTION, event_place, open_events
from cdcv2.events import JobEvents


def has_events(parser: OptionParser) -> bool:
    """Whether the program of this parser states events."""
    return OPTION in parser._option_string_actions


def started_events(job: str, place: str) -> JobEvents:
    """The events of a job at this place; the start is written.

    Raises UsageError for what is no place, and what :func:`~cdcv2.event_stream.open_events` raises.
    """
    try:
        events = JobEvents(job, open_events(event_place(place)))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"argument {OPTION}: {error}") from None
    events.start()
    return events
