"""Values of PostgreSQL's types, as the connector writes them: the one spelling of each, and what it means.

A target whose columns have the source's types gives a value back as PostgreSQL holds it; :func:`normal` makes of every
spelling of the connector's that one. What the connector has changed before (``docs/types.md``) looks like a value that
was so, and is not changed back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from typing import Any, TypeAlias

from cdcv2.errors import MalformedError
from cdcv2.rows.source_types import SourceType
from cdcv2.rows.values import decimal_from_text

#: From a value, not null, to another.
Convert: TypeAlias = Callable[[Any], Any]

#: Days of infinite dates: in a snapshot, and in the stream.
DATES = {
    -622191234: "infinity", 2146033979: "infinity", -625821272: "-infinity", -2147472691: "-infinity",
}  # fmt: skip
#: What an infinite date is in a snapshot, which is no finite one, and in the stream.
STREAM_DATES = {-622191234: 2146033979, -625821272: -2147472691}
#: Infinite timestamps, in microseconds and in milliseconds.
TIMESTAMPS = {
    2**63 - 1: "infinity", -(2**63): "-infinity",
    9223372036825200000: "infinity", -9223372036832400000: "-infinity",
}  # fmt: skip
#: The first and last finite day of PostgreSQL's, since 1970-01-01; and of its timestamps in milliseconds, and in
#: microseconds, of which a long has not the last ones.
_DAYS = (-2440588, 2145042905)
_FINITE_MILLIS = (-2440588 * 86_400_000, 9224318015999999)
_FINITE_MICROS = (-2440588 * 86_400_000_000, 2**63 - 1)
_STREAM_DATES = {name: number for number, name in DATES.items() if number not in STREAM_DATES}
_MILLIS = {2**63 - 1: 9223372036825200000, -(2**63): -9223372036832400000}
#: How the connector spells what is no number.
NO_NUMBERS = {"NAN": "NaN", "POSITIVE_INFINITY": "Infinity", "NEGATIVE_INFINITY": "-Infinity"}

#: Python's decimals otherwise round to 28 digits, silently. A numeric has up to 131,072 digits before the point and
#: 16,383 behind it.
EXACT = Context(prec=150_000, traps=[Inexact])
DAY = 86_400_000_000
_AT_FAULT = "The connector is at fault, or another writer: capture the table again with that mended"
_NUMBER = re.compile(r"-?\d+", re.ASCII)
_PLAIN = re.compile(r"-?\d+(?:\.(\d+))?", re.ASCII)
_ISO = re.compile(
    r"(?:([+-]?\d{4,})-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T)?"
    r"([01]\d|2[0-4]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?(Z|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)", re.ASCII
)
#: What the connector writes of the years 0001 to 9999, but for the leap day.
_USUAL = re.compile(
    r"\d{4}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
    r"T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?Z", re.ASCII
)
_IN_FEBRUARY = 28


def normal(source: SourceType) -> Convert | None:
    """What makes a value of the log, not null, the spelling that PostgreSQL's own type gives back; None: it is already.

    A value that the type does not hold exactly is given back as it is: see :func:`holds`. MalformedError is raised for
    text that is no number, moment or time at all.

    >>> normal(SourceType("numeric", precision=5, scale=-2))("12300.000")
    '12300'
    >>> normal(SourceType("timestamptz", precision=3))("2024-01-01T01:00:00.1+01:00")
    '2024-01-01T00:00:00.100Z'
    """
    digits = source.precision if source.precision is not None else 6
    if source.type in ("numeric", "money"):
        return partial(_number, 2 if source.type == "money" else source.scale)
    if source.type == "timestamptz":
        return partial(_zoned, digits)
    if source.type == "timestamp" and digits <= 3:
        return _in_millis
    if source.type == "bit" and source.length != 1:
        return partial(_bits, ((source.length or 1) + 7) // 8)
    others: dict[str, Convert] = {"date": _date, "timetz": _zoned_time, "varbit": _varying_bits, "uuid": str.lower}
    return others.get(source.type)


def holds(source: SourceType) -> Callable[[Any], bool] | None:
    """Whether the type holds a value of the log, not null, as it is; None: it does, or refuses it itself.

    It raises MalformedError for a number that is no time of a day.

    >>> holds(SourceType("numeric", precision=12, scale=2))("1.505"), holds(SourceType("varchar", length=3))("abc ")
    (False, False)
    """
    if source.type in ("varchar", "bpchar") and source.length is not None:
        # PostgreSQL cuts blanks at the end without a word.
        return partial(_has_length, source.length)
    digits = source.precision if source.precision is not None else 6
    if source.type in ("numeric", "money") and (source.type == "money" or source.precision is not None):
        return partial(_has_digits, 2 if source.type == "money" else source.scale or 0)
    if source.type == "time":
        return lambda value: not time_of_day(value, 1000 if digits <= 3 else 1) % 10 ** (6 - digits)
    if source.type == "timestamp" and digits not in (3, 6):
        unit = 10 ** ((3 if digits < 3 else 6) - digits)
        return lambda value: value in TIMESTAMPS or not value % unit
    if source.type == "timestamptz" and digits < 6:
        return lambda value: value in ("infinity", "-infinity") or not micros(value) % 10 ** (6 - digits)
    return None


def possible_numbers(source: SourceType) -> tuple[int, int, Collection[int]] | None:
    """The least and the greatest number of the log that is a value of the type, and those beyond that are, too.

    None: which numbers are none cannot be known. What is none is what the connector makes of a value that it cannot
    hold: a timestamp of the last days comes as a number before the first, and an interval that is too long as the
    largest or smallest long.

    >>> possible_numbers(SourceType("interval"))
    (-9223372036854775807, 9223372036854775806, ())
    """
    if source.type == "date":
        return *_DAYS, DATES
    if source.type == "timestamp":
        return *(_FINITE_MILLIS if source.in_millis else _FINITE_MICROS), TIMESTAMPS
    return (1 - 2**63, 2**63 - 2, ()) if source.type == "interval" else None


def order(source: SourceType) -> Convert | None:
    """What text of such a type is ranked by, as PostgreSQL ranks it; None: by itself.

    >>> sorted(["9", "NAN", "10.0", "NEGATIVE_INFINITY"], key=order(SourceType("numeric")))
    ['NEGATIVE_INFINITY', '9', '10.0', 'NAN']
    """
    if source.type in ("numeric", "money"):
        return _number_order
    return _moment_order if source.type in ("timestamptz", "timetz") else None


def number_text(value: str) -> str:
    """A number without zeros behind it, by which equal ones are found; what is none is named as PostgreSQL does.

    >>> number_text("1.50"), number_text("-0.0"), number_text("NAN")
    ('1.5', '0', 'NaN')
    """
    number = decimal_from_text(NO_NUMBERS.get(value, value))
    if number is None:
        # None of PostgreSQL's: it will differ, and be shown.
        return value
    if not number.is_finite():
        return str(number)
    return format(number.normalize(EXACT), "f") if number else "0"


def date_text(value: int) -> str:
    """Days since 1970-01-01, or infinity."""
    return DATES.get(value, str(value))


def moment_text(unit: int, value: int) -> str:
    """Microseconds, or infinity; ``unit``: how many of them the value counts."""
    return TIMESTAMPS[value] if value in TIMESTAMPS else str(value * unit)


def micros(value: str) -> int:
    """ISO text as microseconds: since 1970, or of the day where it has no date.

    Raises MalformedError for other text, for days and times that no calendar and clock have, and for what is finer than
    a microsecond, which PostgreSQL never writes. A time may be 24:00:00, as PostgreSQL has it.

    >>> micros("2024-02-29T10:34:56.123456Z"), micros("01:00:00.5+02:00")
    (1709202896123456, -3599500000)
    """
    found = _ISO.fullmatch(value)
    if found is None:
        raise MalformedError(f"{value!r} is no moment in ISO text that a calendar and a clock have. {_AT_FAULT}")
    year, month, day, hour, minute, second, broken, zone = found.groups()
    if (broken or "")[6:].strip("0"):
        raise MalformedError(f"{value!r} is finer than a microsecond, which is the most that a column of moments holds")
    _demand_possible(value, year, month, day, (hour, minute, second, broken))
    total = ((int(hour) * 60 + int(minute)) * 60 + int(second or 0)) * 1_000_000
    total += int((broken or "0").ljust(6, "0")[:6])
    if zone != "Z":
        away = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
        total -= (away if zone[0] == "+" else -away) * 60_000_000
    return total if year is None else days(int(year), int(month), int(day)) * DAY + total


def _demand_possible(
    value: str, year: str | None, month: str, day: str, clock: tuple[str | None, ...]
) -> None:
    """Raise MalformedError unless the month has the day, and if anything comes behind 24:00:00."""
    if year is not None and int(day) > _IN_FEBRUARY and date_of(days(int(year), int(month), int(day)))[2] != int(day):
        raise MalformedError(f"{value!r} is no moment: its month has no day {day}. {_AT_FAULT}")
    hour, *rest = clock
    if hour == "24" and any((one or "").strip("0") for one in rest):
        raise MalformedError(f"{value!r} is no moment: a day ends at 24:00:00. {_AT_FAULT}")


def time_of_day(value: int, unit: int) -> int:
    """The microseconds of a time that the log counts in units of so many. Raises MalformedError for what is none.

    >>> time_of_day(86400000, 1000)
    86400000000
    """
    if not 0 <= value * unit <= DAY:
        raise MalformedError(f"{value} is no time: a day begins at 0 and ends at {DAY // unit}. {_AT_FAULT}")
    return value * unit


def zoned_text(value: str) -> str:
    """ISO text by which equal moments are found: microseconds, of the day in UTC where it has no date; or as it is.

    The end of a day in UTC is not its begin, as PostgreSQL has it.

    >>> zoned_text("2024-02-29T10:34:56.123456Z"), zoned_text("01:00:00.5+02:00"), zoned_text("infinity")
    ('1709202896123456', '82800500000', 'infinity')
    >>> zoned_text("24:00:00Z"), zoned_text("00:00:00Z")
    ('86400000000', '0')
    """
    try:
        total = micros(value)
        whole = "T" in value or (total == DAY and value.startswith("24:"))
        return str(total if whole else total % DAY)
    except MalformedError:
        return value


def shown_text(kind: str, text: str, unit: int = 1) -> str:
    """The text by which equal dates, times and moments are found, as people write these; other text as it is.

    ``kind`` is the name of the type in ``pg_type``, ``unit`` how many microseconds a number counts.

    >>> shown_text("date", "19782"), shown_text("timestamp", "1709210096123", 1000), shown_text("timetz", "82800500000")
    ('2024-02-29', '2024-02-29T12:34:56.123', '23:00:00.5Z')
    >>> shown_text("timestamptz", "infinity"), shown_text("int8", "19782")
    ('infinity', '19782')
    """
    if kind not in ("date", "time", "timetz", "timestamp", "timestamptz") or _NUMBER.fullmatch(text) is None:
        return text
    number = int(text)
    if kind == "date":
        return DATES.get(number) or _day_text(number)
    if kind == "timestamp" and number in TIMESTAMPS:
        return TIMESTAMPS[number]
    total = number * unit
    digits = len(f"{total % 1_000_000:06d}".rstrip("0"))
    if kind in ("time", "timetz"):
        return time_text(total, digits) + ("Z" if kind == "timetz" else "")
    return iso_text(total, digits).removesuffix("" if kind == "timestamptz" else "Z")


def iso_text(total: int, digits: int = 6) -> str:
    """Microseconds since 1970 as the connector writes a moment, with so many digits of its second.

    >>> iso_text(1709202896123456), iso_text(-63517780800000000, 0), iso_text(253402300800000000, 0)
    ('2024-02-29T10:34:56.123456Z', '-0043-03-15T12:00:00Z', '+10000-01-01T00:00:00Z')
    """
    day, rest = divmod(total, DAY)
    return f"{_day_text(day)}T{time_text(rest, digits)}Z"


def _day_text(day: int) -> str:
    year, month, of_month = date_of(day)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{of_month:02d}"


def time_text(rest: int, digits: int = 6) -> str:
    """Microseconds of a day as a time, with so many digits of its second.

    >>> time_text(45296123456), time_text(86400000000, 0)
    ('12:34:56.123456', '24:00:00')
    """
    seconds, broken = divmod(rest, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{f'{broken:06d}'[:digits]}" if digits else text


def days(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01 in the calendar that is the same for ever, whose year 0 is 1 BC.

    >>> days(1970, 1, 1), days(2000, 3, 1), days(0, 1, 1)
    (0, 11017, -719528)
    """
    # The year begins in March, so that a leap day is its last.
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    before = 365 * year + year // 4 - year // 100 + year // 400
    return before + (153 * month + 2) // 5 + day - 719_469


def date_of(day: int) -> tuple[int, int, int]:
    """The year, month and day of month of a number of days since 1970-01-01.

    >>> date_of(0), date_of(11017), date_of(-719528)
    ((1970, 1, 1), (2000, 3, 1), (0, 1, 1))
    """
    era, within = divmod(day + 719_468, 146_097)
    of_era = (within - within // 1460 + within // 36_524 - within // 146_096) // 365
    of_year = within - (365 * of_era + of_era // 4 - of_era // 100)
    month = (5 * of_year + 2) // 153
    of_month = of_year - (153 * month + 2) // 5 + 1
    year = of_era + era * 400
    return (year, month + 3, of_month) if month < 10 else (year + 1, month - 9, of_month)


def _number(scale: int | None, value: str) -> str:
    found = _PLAIN.fullmatch(value)
    if found is not None and (scale is None or len(found[1] or "") == scale):
        return value
    number = decimal_of(value)
    if not number.is_finite():
        return str(number)
    if scale is not None:
        try:
            number = EXACT.quantize(number, Decimal((0, (1,), -max(scale, 0))))
        except (Inexact, InvalidOperation):
            return value
    return format(number, "f")


def _number_order(value: str) -> tuple[bool, Decimal]:
    number = decimal_of(value)
    return number.is_nan(), Decimal(0) if number.is_nan() else number


def _moment_order(value: str) -> float | int:
    return float(value) if value in ("infinity", "-infinity") else micros(value)


def decimal_of(value: str) -> Decimal:
    """The number of a text, also NaN and infinities as PostgreSQL names them. Raises MalformedError for other text."""
    number = decimal_from_text(NO_NUMBERS.get(value, value))
    if number is None:
        raise MalformedError(
            f"{value!r} is no number, and its column has numbers: the connector is at fault (it needs "
            "decimal.handling.mode=string), or another writer"
        )
    return number


def _has_length(length: int, value: str) -> bool:
    return len(value) <= length


def _has_digits(scale: int, value: str) -> bool:
    found = _PLAIN.fullmatch(value)
    if found is not None and len(found[1] or "") <= scale:
        return True
    number = decimal_of(value)
    if not number.is_finite():
        return True
    try:
        EXACT.quantize(number, Decimal((0, (1,), -scale)))
    except (Inexact, InvalidOperation):
        return False
    return True


def _date(value: int) -> int:
    return _STREAM_DATES[DATES[value]] if value in DATES else value


def _in_millis(value: int) -> int:
    return _MILLIS.get(value, value)


def _zoned(digits: int, value: str) -> str:
    if value in ("infinity", "-infinity"):
        return value
    if len(value) == 20 + (digits and digits + 1) and _USUAL.fullmatch(value) is not None:
        return value
    if "T" not in value:
        raise MalformedError(f"{value!r} is no moment: it has no date. {_AT_FAULT}")
    total = micros(value)
    return value if total % 10 ** (6 - digits) else iso_text(total, digits)


def _zoned_time(value: str) -> str:
    found = _ISO.fullmatch(value)
    if found is None or found[1] is not None:
        raise MalformedError(f"{value!r} is no time with a zone in ISO text. {_AT_FAULT}")
    micros(value)
    _, _, _, hour, minute, second, broken, zone = found.groups()
    broken = (broken or "").rstrip("0")
    return f"{hour}:{minute}:{second or '00'}{f'.{broken}' if broken else ''}{'Z' if zone == '+00' else zone}"


def _bits(size: int, value: bytes) -> bytes:
    return value.ljust(size, b"\0")


def _varying_bits(value: bytes) -> bytes:
    return value.rstrip(b"\0")
