"""Which of the words that there are was probably meant by one that is none of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

#: argparse's message about an unknown option, and about a word that is none of several.
_UNKNOWN = re.compile(r"unrecognized arguments: (.*)", re.DOTALL)
_CHOICE = re.compile(r"(.*invalid choice: '([^']*)') \(choose from (.*)\)", re.DOTALL)


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
    >>> with_meant("invalid choice: 'verifi' (choose from 'inspect', 'verify')", [])
    "invalid choice: 'verifi'; did you mean verify?"
    """
    unknown, choice = _UNKNOWN.match(message), _CHOICE.match(message)
    if choice is not None:
        close = meant(choice[2], re.findall(r"[^\s',]+", choice[3]))
        # One suggestion helps more than the list of all.
        return choice[1] + close if close else message
    if unknown is not None:
        there = list(options)
        return message + next(filter(None, (meant(word.partition("=")[0], there) for word in unknown[1].split())), "")
    return message
