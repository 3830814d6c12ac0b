"""Which of the words that there are was probably meant by one that is none of them."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def meant(word: str, words: Iterable[str]) -> str:
    """A question for the end of an error; empty where no word is like it.

    >>> meant("verifi", ["inspect", "verify"]), meant("order", ["order_items", "orders"]), meant("x", ["inspect"])
    ('; did you mean verify?', '; did you mean orders?', '')
    """
    there = sorted(words)
    # One that was cut short is less alike than it looks.
    longer = sorted((one for one in there if len(word) > 2 and one.startswith(word)), key=len)
    close = longer or get_close_matches(word, there, 1, 0.7)
    return f"; did you mean {close[0]}?" if close else ""
