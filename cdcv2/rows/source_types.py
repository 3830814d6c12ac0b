"""What a column is called in the database that it comes from: its type there, beside the physical type of the log.

It is an attribute of a field in the row schema::

    {"name": "total", "type": ["null", "string"], "cdcv2.source": {"type": "numeric", "precision": 12, "scale": 2}}

``type`` is PostgreSQL's name in ``pg_type`` (``int4``, ``timestamptz``), or ``array`` (with ``items``) or ``enum``
(with ``name``). Targets take their columns' types from it. It has no effect on the bytes or the values of a row: row
types that differ in it alone are equal, have one fingerprint, and their logs may be read and written as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cdcv2.errors import MalformedError

#: The attribute's name.
ATTRIBUTE = "cdcv2.source"
_NUMBERS = ("precision", "scale", "length")


@dataclass(frozen=True, slots=True)
class SourceType:
    """A type of the source.

    >>> SourceType.from_plain({"type": "array", "items": {"type": "varchar", "length": 10}}).items
    SourceType(type='varchar', precision=None, scale=None, length=10, name='', items=None)
    """

    type: str
    precision: int | None = None
    scale: int | None = None
    length: int | None = None
    #: an enum's name, ``schema.name``
    name: str = ""
    items: SourceType | None = None

    @property
    def in_millis(self) -> bool:
        """Whether the log counts a time or a timestamp of this type in milliseconds, and not in microseconds."""
        return self.type in ("time", "timestamp") and self.precision is not None and self.precision <= 3

    def to_plain(self) -> dict[str, Any]:
        """As the schema has it."""
        plain: dict[str, Any] = {"type": self.type}
        plain.update((one, getattr(self, one)) for one in _NUMBERS if getattr(self, one) is not None)
        if self.name:
            plain["name"] = self.name
        return plain if self.items is None else {**plain, "items": self.items.to_plain()}

    @classmethod
    def from_plain(cls, plain: Any) -> SourceType:
        """What :meth:`to_plain` made this of; other keys are passed over. Raises MalformedError for anything else."""
        if not isinstance(plain, Mapping) or not isinstance(plain.get("type"), str):
            raise MalformedError(f"{plain!r} is no source type: it needs a type, as in {{'type': 'numeric'}}")
        numbers = {one: plain.get(one) for one in _NUMBERS}
        if any(type(number) is not int for number in numbers.values() if number is not None):
            raise MalformedError(
                f"{plain!r} is no source type: {', '.join(_NUMBERS)} are whole numbers. Make the schema "
                "again (cdcv2 rows)"
            )
        name, items = plain.get("name", ""), plain.get("items")
        if not isinstance(name, str) or (plain["type"] == "array") != (items is not None):
            raise MalformedError(
                f"{plain!r} is no source type: an array has items, and a name is text. Make the schema "
                "again (cdcv2 rows)"
            )
        return cls(plain["type"], **numbers, name=name, items=None if items is None else cls.from_plain(items))
