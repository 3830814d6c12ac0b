"""What looks like a secret in a command line, which every user of the machine can read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

from cdcv2.control.yaml_lines import YamlNode

_WORD = r"(?:password|passwd|pwd|passphrase|secret|token|credential|jaas|(?:access|api|private)[._-]?key)"
# Behind ':' the word must be the whole end of a name: coordinates of jars, as token-provider:4.0.0, are none.
_SECRET = re.compile(
    rf"""(?ix) ([\w.-]*{_WORD}[\w.-]*)["']?\s*=\s*\S | ([\w.-]*{_WORD})["']?\s*:\s*\S | //[^/\s:@]*:[^/\s@]+@"""
)


_OPTION = re.compile(rf"(?ix) --?[\w.-]*{_WORD}")


def demand_no_secrets(items: Iterable[YamlNode], instead: str) -> None:
    """Raise UsageError, with the line, unless no word is a secret, nor the value behind an option that takes one.

    So ``--token x``, in two words, is refused as ``--token=x`` is; ``--token-file x`` names a file.
    """
    before = ""
    for item in items:
        word = item.text()
        if _OPTION.fullmatch(before) and not word.startswith("--"):
            _refuse(item, before.lstrip("-"), instead)
        demand_no_secret(item, word, instead)
        before = word


def demand_no_secret(part: YamlNode, word: str, instead: str) -> None:
    """Raise UsageError, with the line of the part, unless a word of a command line is free of what looks like a secret.

    Judged are names and what stands behind them, as ``password=x`` in an address, and ``//user:x@``; none is shown.
    ``instead``: where the secret belongs.
    """
    found = _SECRET.search(word)
    if found is None:
        return
    name = found[1] or found[2] or "the user and password in an address"
    _refuse(part, name, instead)


def _refuse(part: YamlNode, name: str, instead: str) -> NoReturn:
    part.fail(f"{name} looks like a secret, and every user of the machine can read a command line: {instead}")
