"""The records in the log of a shared remap, as JSON: its genesis, proposals, holds and summaries.

::

    {"cdcv2-remap": 1, "kind": "genesis", "start": [{"rest": []}], "recipe": "...", "by": "capture-a",
     "digest": "..."}
    {"cdcv2-remap": 1, "kind": "proposal", "epoch": 0, "lower": 1, "upper": 9, "frontier": [...], "recipe": null, ...}
    {"cdcv2-remap": 1, "kind": "hold", "of": "7f...", "called": "kafka:cdc.{table}", "since": 8, "by": "capture-a"}
    {"cdcv2-remap": 1, "kind": "summary", "position": 7, "recipes": [[0, 0, "..."]], "remap": {...}, "holds": {...},
     "called": {...}}

Each has a digest of its other values: a changed number would bind other records, and look valid. Records of earlier
releases have none. A record is a request of its writer. The outcome is decided by reading: see
:mod:`cdcv2.timeline.shared_remap`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, Union

from cdcv2.core.antichain import Antichain
from cdcv2.core.json_text import parse_json
from cdcv2.core.own_json import CHANGED, is_whole, with_digest
from cdcv2.errors import DamagedRecordError, MalformedError, RefusedError
from cdcv2.timeline.binding import Binding, check_int
from cdcv2.timeline.gauges import frontier_from_plain, frontier_to_plain
from cdcv2.timeline.remap import Remap

#: The version of the records; any other is refused, as it may mean something that this release does not know.
VERSION = 1
_MARK = "cdcv2-remap"


class RecipeEpoch(NamedTuple):
    """Under which recipe times are bound: all from ``since`` on, until another one is; ``epoch`` counts the changes.

    ``text`` is the recipe itself, or what identifies it: tables, options, row types, the version of the mapping.
    """

    epoch: int
    since: int
    text: str


@dataclass(frozen=True, slots=True)
class Genesis:
    """The remap begins: its sources at ``start``, its times bound under ``recipe``. The first in the log counts."""

    start: Antichain
    recipe: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A request for this binding, in this epoch; with a ``recipe``, also for that one from the binding's lower on."""

    epoch: int
    binding: Binding
    recipe: str | None = None
    by: str = ""


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """The reader ``of`` needs the remap from ``since`` on, and nothing before; None: it no longer exists.

    ``of`` is an identity; ``called`` is the users' name for it, if that differs. Earlier records have only a name,
    which stands for all readers of that name.
    """

    of: str
    since: int | None
    by: str = ""
    called: str = ""


@dataclass(frozen=True, slots=True)
class Summary:
    """What all the records before ``position`` come to, compacted; they may be trimmed once it is in the log."""

    position: int
    recipes: tuple[RecipeEpoch, ...]
    remap: Mapping[str, Any]
    by: str = ""
    holds: Mapping[str, int] = field(default_factory=dict)
    called: Mapping[str, str] = field(default_factory=dict)


#: What a record is.
Record: TypeAlias = Union[Genesis, Proposal, HoldRecord, Summary]


def encode(record: Record) -> bytes:
    """The record's bytes, the same for equal records.

    >>> decode(encode(Genesis(Antichain([0]), "v1"))) == Genesis(Antichain([0]), "v1")
    True
    """
    plain: dict[str, Any]
    if isinstance(record, Genesis):
        plain = {"kind": "genesis", "start": frontier_to_plain(record.start), "recipe": record.recipe}
    elif isinstance(record, Proposal):
        binding = record.binding
        plain = {
            "kind": "proposal", "epoch": record.epoch, "lower": binding.lower, "upper": binding.upper,
            "frontier": frontier_to_plain(binding.frontier), "recipe": record.recipe,
        }  # fmt: skip
    elif isinstance(record, HoldRecord):
        # A missing key means what was the only way in earlier releases; here, and below.
        called = {"called": record.called} if record.called else {}
        plain = {"kind": "hold", "of": record.of, "since": record.since, **called}
    else:
        plain = {
            "kind": "summary", "position": record.position, "recipes": list(map(list, record.recipes)),
            "remap": record.remap,
            **({"holds": record.holds} if record.holds else {}),
            **({"called": record.called} if record.called else {}),
        }  # fmt: skip
    stated = with_digest({_MARK: VERSION, **plain, "by": record.by})
    return json.dumps(stated, separators=(",", ":"), allow_nan=False).encode()


def decode(raw: bytes, position: object = None) -> Record:
    """The record that the bytes are; ``position`` is for the error.

    Raises DamagedRecordError for anything else, and RefusedError for a record of another version: a reader that cannot
    read it cannot know what it decides. Cost: linear.
    """
    try:
        plain = parse_json(raw)
    except ValueError:
        plain = None
    if not isinstance(plain, dict) or _MARK not in plain:
        raise DamagedRecordError("it does not state that it is one", position, raw)
    if plain[_MARK] != VERSION:
        raise RefusedError(
            f"the record at {position} has version {plain[_MARK]!r} of the format, and this program knows version "
            f"{VERSION}: bring every capture of this remap to the newer release"
        )
    if not is_whole(plain):
        raise DamagedRecordError(CHANGED, position, raw)
    try:
        return _record(plain)
    except (KeyError, TypeError, ValueError) as cause:
        raise DamagedRecordError(f"{type(cause).__name__}: {cause}", position, raw) from cause


def _record(plain: dict[str, Any]) -> Record:
    kind, by = plain["kind"], _text(plain["by"])
    if kind == "genesis":
        return Genesis(frontier_from_plain(plain["start"]), _text(plain["recipe"]), by)
    if kind == "proposal":
        binding = Binding(plain["lower"], plain["upper"], frontier_from_plain(plain["frontier"]))
        recipe = None if plain["recipe"] is None else _text(plain["recipe"])
        return Proposal(check_int(plain["epoch"]), binding, recipe, by)
    if kind == "hold":
        since = None if plain["since"] is None else check_int(plain["since"])
        return HoldRecord(_text(plain["of"]), since, by, _text(plain.get("called", "")))
    if kind == "summary":
        recipes = tuple(
            RecipeEpoch(check_int(epoch), check_int(since), _text(text)) for epoch, since, text in plain["recipes"]
        )
        if not recipes:
            raise MalformedError("a summary without a recipe")
        # Restored here, though not kept: one that is damaged is found where it stands.
        Remap.restore(plain["remap"])
        holds = {_text(of): check_int(since) for of, since in dict(plain.get("holds", {})).items()}
        called = {_text(of): _text(name) for of, name in dict(plain.get("called", {})).items()}
        return Summary(check_int(plain["position"]), recipes, plain["remap"], by, holds, called)
    raise MalformedError(f"no kind {kind!r}")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise MalformedError(f"{value!r} is no text")
    return value
