"""The times that a command line gives: as texts, of the kind that the logs have that they are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from cdcv2.core.order import MAX_TIME, Time, from_plain
from cdcv2.errors import MalformedError, UsageError
from cdcv2.rows.times import Times, check_kind, least_time


class TableLog(Protocol):
    """The log of a table, with the kind of its times."""

    @property
    def table(self) -> str:
        """The table."""

    @property
    def times(self) -> Times:
        """The kind."""


def kind_of_times(text: str) -> Times:
    """The kind of times that --times names. Raises UsageError.

    >>> kind_of_times("int"), kind_of_times("2")
    ('int', 2)
    """
    if text == "int":
        return text
    try:
        return whole_number(text)
    except ValueError:
        raise UsageError(f"--times {text!r}: it takes int, or the number of coordinates of Product times") from None


def parse_time(text: str) -> Time:
    """A time as it is written on a command line: ``17``, or ``3,4`` for a Product. Raises UsageError.

    >>> parse_time("17"), parse_time("3,4")
    (17, Product(3, 4))
    """
    try:
        numbers = [whole_number(part) for part in text.split(",")]
        return from_plain(numbers if len(numbers) > 1 else numbers[0])
    except ValueError as error:
        raise UsageError(f"{text!r} is no time: write an integer from 0 on, or 3,4 for a Product") from error


def whole_number(text: str) -> int:
    """The number that decimal digits are. Raises ValueError for other ways in which Python lets numbers be written."""
    if not (text.isascii() and text.isdecimal()):
        raise ValueError(f"{text!r} is not made of the digits 0 to 9")
    return int(text)


def whole_time(option: str, text: str) -> int:
    """The time of an instance that an option has. Raises UsageError.

    >>> whole_time("--after", "17")
    17
    """
    try:
        time = whole_number(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time of an instance: write a whole number") from None
    if time > MAX_TIME:
        raise UsageError(f"{option} {text} is no time of an instance: these are whole numbers up to {MAX_TIME}")
    return time


def start_of(texts: Sequence[str] | None, logs: Sequence[TableLog]) -> list[Time]:
    """Where the histories of logs that are read as one begin: at --start, else at the least time of their kind.

    Raises UsageError for logs of different kinds of times, and as :func:`given_times`.
    """
    kinds = {named.times: named for named in logs}
    if len(kinds) > 1:
        named_each = ", ".join(f"{named.table} ({_kind_text(times)})" for times, named in kinds.items())
        raise UsageError(f"these logs have times of different kinds, so they are of no one timeline: {named_each}")
    if texts:
        return given_times("--start", texts, logs)
    (times,) = kinds
    return [least_time(times)]


def _kind_text(times: Times) -> str:
    return "integers" if times == "int" else f"Products of {times}"


def given_times(option: str, texts: Iterable[str], logs: Iterable[TableLog]) -> list[Time]:
    """The times given with an option, which must be of the kind that the logs have. Raises UsageError."""
    try:
        times = [parse_time(text) for text in texts]
    except UsageError as error:
        raise UsageError(f"{option} {error}") from None
    for named in logs:
        for time in times:
            try:
                check_kind(named.times, time)
            except MalformedError as error:
                raise UsageError(f"{option} is for {named.table}: {error}") from None
    return times
