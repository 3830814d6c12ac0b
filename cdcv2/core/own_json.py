"""JSON objects that a program of ours keeps for itself: with a digest of what they state, so that damage is found.

::

    {"version": 1, "positions": {"p.t": {"0": 7}}, "digest": "b2f1..."}

A file that was changed after it was written does not have the digest that it names, whatever was changed in it: a value
of another type, one that is missing, a number that is another one. A file without a digest is older, and is read
without this check; what is wrong with its values is found where they are read, within :func:`reading`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from cdcv2.errors import ForeignStateError, RefusedError

#: The name of the digest in an object.
DIGEST = "digest"
_KINDS = {int: "whole number", bool: "truth value", str: "text", list: "list", tuple: "list", dict: "object"}
#: What is wrong with one that has another digest.
CHANGED = "it was changed after it was written, and does not have the digest that it names"
#: What to do about a file that is damaged, by default.
RESTORE = "restore it, or start over without it"


def with_digest(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be kept, as JSON has it, and the digest of it.

    >>> with_digest({"at": {1: 2}})
    {'at': {'1': 2}, 'digest': 'b672e536f54b0e052dbaa0b480dba9f6'}
    """
    kept: dict[str, Any] = json.loads(json.dumps(plain))
    kept.pop(DIGEST, None)
    return {**kept, DIGEST: digest(kept)}


def without_digest(plain: Mapping[str, Any], place: object, remedy: str = RESTORE) -> dict[str, Any]:
    """What was kept so at a place. Raises ForeignStateError where it has another digest than it names.

    >>> without_digest(with_digest({"at": 1}), "_memory.json")
    {'at': 1}
    """
    if not is_whole(plain):
        raise ForeignStateError(f"{place} is damaged ({CHANGED}): {remedy}")
    return {name: value for name, value in plain.items() if name != DIGEST}


def is_whole(plain: Mapping[str, Any]) -> bool:
    """Whether an object has the digest that it names; one that names none is older, and nothing is known of it.

    >>> is_whole({"at": 1}), is_whole(with_digest({"at": 1})), is_whole({**with_digest({"at": 1}), "at": 2})
    (True, True, False)
    """
    kept = {name: value for name, value in plain.items() if name != DIGEST}
    return DIGEST not in plain or plain[DIGEST] == digest(kept)


def digest(plain: Mapping[str, Any]) -> str:
    """The digest of an object, the same for equal ones, in any order of their names. Cost: linear."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:32]


@contextmanager
def reading(place: object, remedy: str = RESTORE) -> Iterator[None]:
    """Within it, what was kept at a place is made into values: what cannot be raises ForeignStateError with the place.

    >>> with reading("recovery/7.json", "restore it"):
    ...     {}["holdings"]
    Traceback (most recent call last):
    cdcv2.errors.ForeignStateError: recovery/7.json is damaged ('holdings' is missing): restore it
    """
    try:
        yield
    except RefusedError:
        # Its text names what is wrong.
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as cause:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else cause
        raise ForeignStateError(f"{place} is damaged ({what}): {remedy}") from cause


def check_shape(value: Any, shape: Any) -> None:
    """Raise unless a value is as a type states: a TypedDict, ``list[X]``, ``dict[str, X]``, ``X | None``, a plain type.

    Of a TypedDict all names must be there but those that are NotRequired; others may be there, too. A bool is no int.
    Raises TypeError, and KeyError for a name that is missing. Cost: linear.

    >>> from typing import TypedDict
    >>> class Found(TypedDict):
    ...     lsn: int | None
    ...     rows: NotRequired[dict[str, int]]
    >>> check_shape({"lsn": None, "rows": {"t": 3}}, Found)
    >>> check_shape({"lsn": 7, "rows": {"t": True}}, Found)
    Traceback (most recent call last):
    TypeError: true is no whole number
    """
    kinds = get_args(shape) if get_origin(shape) in (Union, UnionType) else (shape,)
    if Any in kinds:
        return
    plain = [dict if is_typeddict(kind) else get_origin(kind) or kind for kind in kinds]
    checked(value, *plain)
    kind = kinds[plain.index(type(value))]
    if is_typeddict(kind):
        _check_names(value, kind)
    elif get_args(kind) and isinstance(value, (list, dict)):
        for one in value if isinstance(value, list) else value.values():
            check_shape(one, get_args(kind)[-1])


def _check_names(value: Mapping[str, Any], kind: Any) -> None:
    for name, shape in get_type_hints(kind, include_extras=True).items():
        if get_origin(shape) is not NotRequired:
            check_shape(value[name], shape)
        elif name in value:
            check_shape(value[name], get_args(shape)[0])


def checked(value: Any, *kinds: type) -> Any:
    """The value, if it is of one of these kinds; a bool is no int. Raises TypeError.

    >>> checked(7, int), checked(None, int, type(None))
    (7, None)
    """
    if type(value) not in kinds:
        raise TypeError(f"{json.dumps(value)[:60]} is no {' or '.join(_KINDS.get(kind, 'null') for kind in kinds)}")
    return value
