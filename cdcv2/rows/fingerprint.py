"""Fingerprints: a few numbers for a multiset of rows, the same wherever they are worked out; and what differs.

A row is a tuple of texts, one per column, None for null; the columns of its key come first. Its *bytes* put them
together so that no two rows have the same: characters, colon and text of each column, ``n`` for null::

    ("7", None, "né")       1:7,n,2:né

SHA-256 of these bytes has two numbers of 60 bits at its beginning; the *fingerprint* of a table is how many rows it
has and the sums of both: the order of rows means nothing, and how often one is there does. A database can work this
out itself (``cdcv2/rows/postgres_texts.py`` has it as SQL), so tables that are equal need not be moved.

Rows are spread over *buckets* by the SHA-256 of their key's bytes. Where two sides differ, the buckets that do are
fetched, and the rows in them compared one by one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

#: A row as texts, the key's columns first.
Texts: TypeAlias = tuple["str | None", ...]
#: How many buckets a table is spread over: few enough to send them quickly, many enough that one is a small part.
BUCKETS = 4096
#: Hexadecimal digits of each of the two numbers.
DIGITS = 15


class Fingerprint(NamedTuple):
    """A fingerprint: the number of rows, and the sums of both numbers of each."""

    rows: int = 0
    first: int = 0
    second: int = 0

    def plus(self, other: Fingerprint) -> Fingerprint:
        """The fingerprint of both multisets together."""
        return Fingerprint(self.rows + other.rows, self.first + other.first, self.second + other.second)

    def __str__(self) -> str:
        """Sixteen digits, for people to compare."""
        return hashlib.sha256(f"{self.rows},{self.first},{self.second}".encode()).hexdigest()[:16]


def row_bytes(row: Texts) -> bytes:
    """The bytes by which a row is known.

    >>> row_bytes(("7", None, "né")).decode()
    '1:7,n,2:né'
    """
    return ",".join("n" if one is None else f"{len(one)}:{one}" for one in row).encode("utf-8")


def row_of(text: str) -> Texts:
    """The row that these bytes are of, as text.

    >>> row_of("1:7,n,2:né"), row_of("")
    (('7', None, 'né'), ())
    """
    row, at = list[str | None](), 0
    while at < len(text):
        if text[at] == "n":
            row.append(None)
            at += 2
            continue
        colon = text.index(":", at)
        end = colon + 1 + int(text[at:colon])
        row.append(text[colon + 1:end])
        at = end + 1
    return tuple(row)


def print_of(row: Texts, count: int = 1) -> Fingerprint:
    """The fingerprint of one row that is there ``count`` times."""
    digits = hashlib.sha256(row_bytes(row)).hexdigest()
    return Fingerprint(count, count * int(digits[:DIGITS], 16), count * int(digits[DIGITS:2 * DIGITS], 16))


def bucket_of(key: Texts) -> int:
    """The bucket of the rows with this key."""
    return int(hashlib.sha256(row_bytes(key)).hexdigest()[:8], 16) % BUCKETS


class Side(Protocol):
    """A multiset of rows, wherever it is."""

    def prints(self) -> dict[int, Fingerprint]:
        """Bucket -> its fingerprint, for those that have rows."""

    def rows(self, buckets: Collection[int]) -> Iterable[tuple[Texts, int]]:
        """The rows in these buckets, and how often each is there; one may come several times."""


class LocalRows:
    """Rows in memory; the first ``width`` texts of each are its key. Cost: one or two SHA-256 per row."""

    def __init__(self, rows: Iterable[tuple[Texts, int]], width: int) -> None:
        self._buckets: dict[int, list[tuple[Texts, int]]] = {}
        for row, count in rows:
            self._buckets.setdefault(bucket_of(row[:width]), []).append((row, count))

    def prints(self) -> dict[int, Fingerprint]:
        """See :class:`Side`."""
        return {bucket: total(print_of(*one) for one in rows) for bucket, rows in self._buckets.items()}

    def rows(self, buckets: Collection[int]) -> Iterator[tuple[Texts, int]]:
        """See :class:`Side`."""
        for bucket in buckets:
            yield from self._buckets.get(bucket, ())


@dataclass(frozen=True)
class Difference:
    """A key at which two sides have other rows: those of each, and how often they are there."""

    key: Texts
    one: Counter[Texts]
    other: Counter[Texts]


@dataclass(frozen=True)
class Verdict:
    """What two sides are to each other. ``differing`` is in the order of keys."""

    one: Fingerprint
    other: Fingerprint
    differing: tuple[Difference, ...]


def total(prints: Iterable[Fingerprint]) -> Fingerprint:
    """The fingerprint of all together."""
    found = Fingerprint()
    for one in prints:
        found = found.plus(one)
    return found


def compare(one: Side, other: Side, width: int) -> Verdict:
    """Compare two sides whose keys are the first ``width`` texts. Memory: the rows of the buckets that differ."""
    prints, others = one.prints(), other.prints()
    buckets = sorted(bucket for bucket in prints.keys() | others.keys() if prints.get(bucket) != others.get(bucket))
    by_key: dict[Texts, tuple[Counter[Texts], Counter[Texts]]] = {}
    for number, side in enumerate((one, other) if buckets else ()):
        for row, count in side.rows(buckets):
            by_key.setdefault(row[:width], (Counter(), Counter()))[number][row] += count
    differing = [Difference(key, *pair) for key, pair in by_key.items() if pair[0] != pair[1]]
    differing.sort(key=lambda found: [(text is None, text or "") for text in found.key])
    return Verdict(total(prints.values()), total(others.values()), tuple(differing))
