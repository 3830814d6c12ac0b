"""Which of the words that there are was probably meant by one that is none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

#: argparse's message about an unknown option, and about a word that is none of several.
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_CHOICE = re.compile(r"invalid choice: '([^']*)' \(choose from (.*)\)")


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


def with_meant(message: str, options: Iterable[str]) -> str:
    """argparse's message about wrong arguments, and what was probably meant; ``options`` are those that there are.

    >>> with_meant("unrecognized arguments: --notification x", ["--notifications", "--rows"])
    'unrecognized arguments: --notification x; did you mean --notifications?'
    """
    unknown, choice = _UNKNOWN.match(message), _CHOICE.search(message)
    if choice is not None:
        return message + meant(choice[1], re.findall(r"'([^']*)'", choice[2]))
    if unknown is not None:
        there = list(options)
        return message + next(filter(None, (meant(word.partition("=")[0], there) for word in unknown[1].split())), "")
    return message
