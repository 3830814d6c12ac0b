"""The parser of every command and of every job on Spark: one help, one kind of error, and the words of before."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

from cdcv2.cli.options.help_text import HelpFormatter, epilog
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.suggestions import with_meant


#: argparse's messages about arguments that are missing.
_MISSING = re.compile("the following arguments are required|one of the arguments .* is required")


class OldOption(NamedTuple):
    """What an option of before is now; ``meant``: whether it is that, by its value (None: always)."""

    new: str
    meant: Callable[[str], bool] | None = None


class OptionParser(argparse.ArgumentParser):
    """A parser with examples, each a command and its meaning. It raises UsageError where argparse prints and leaves.

    ``exits`` has what exit codes mean of this program, beside those that mean the same everywhere.
    """

    def __init__(
        self, prog: str, description: str | None, examples: Sequence[tuple[str, str]] = (),
        exits: Mapping[Exit, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(
            prog=prog, description=description, epilog=epilog(examples, exits), formatter_class=HelpFormatter,
            allow_abbrev=False,
        )
        #: The options of before, which no help shows.
        self.old: dict[str, OldOption] = {}
        # The arguments that are read, before one that is only "--".
        self._given: list[str] = []
        #: Each raises UsageError for options, among those that are given, that do not go together or with arguments.
        self.checks: list[Callable[[frozenset[str], argparse.Namespace], object]] = []

    def formerly(self, old: str, new: str, meant: Callable[[str], bool] | None = None) -> None:
        """Accept an option of before. ``new`` is another word for it (``--into``), or what it stood for
        (``--source=env``), or what is made of its value (``--source=service:{}``, ``{}``)."""
        self.old[old] = OldOption(new, meant)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """The arguments; options of before are named in one line on standard error. Raises UsageError."""
        words, changed = self._in_new_words(sys.argv[1:] if args is None else args)
        if changed:
            print(f"{self.prog}: {'; '.join(f'{old} is {new} now' for old, new in changed)}", file=sys.stderr)
        own = words[:words.index("--")] if "--" in words else words
        self._given = own
        parsed = super().parse_args(words, namespace)
        self._demand_lists_once(own)
        given = frozenset(word.partition("=")[0] for word in own if word.startswith("--"))
        for check in self.checks:
            check(given, parsed)
        return parsed

    def _demand_lists_once(self, words: Sequence[str]) -> None:
        """Raise UsageError for a second list of an option: the parser would take the last, and forget the others."""
        for name, action in self._option_string_actions.items():
            times = sum(word.partition("=")[0] == name for word in words)
            is_list = isinstance(action.metavar, str) and "," in action.metavar
            if times > 1 and is_list and isinstance(action, argparse._StoreAction):
                self.error(f"{name} is given {times} times: give it once, with commas: {name} {action.metavar}")

    def error(self, message: str) -> NoReturn:
        """Raise UsageError: one line, which names where to read more, and what was probably meant.

        Options that are unknown come before arguments that are missing, as argparse names these alone.
        """
        names = (word.partition("=")[0] for word in self._given if word.startswith("--"))
        unknown = [name for name in names if name not in self._option_string_actions]
        if unknown and _MISSING.match(message):
            message = f"unrecognized arguments: {' '.join(unknown)}"
        raise UsageError(f"{with_meant(message, self._option_string_actions)} (see {self.prog} --help)")

    def _in_new_words(self, words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
        """The same arguments in the words of now, and what was changed: old -> new."""
        first: list[str] = []
        kept: list[str] = []
        last: list[str] = []
        changed: list[tuple[str, str]] = []
        left = iter(words)
        for word in left:
            if word == "--":
                kept += [word, *left]
                break
            name, sign, value = word.partition("=")
            old = self.old.get(name)
            if old is None:
                kept.append(word)
            elif "{}" in old.new:
                given = value if sign else next(left, "")
                new = old.new.format(given)
                if old.meant is not None and not old.meant(given):
                    kept += [name, given]
                    continue
                changed.append((f"{name} {given}", new))
                # Arguments without an option are read in one piece.
                (kept if new.startswith("--") else last).append(new)
            else:
                changed.append((name, old.new))
                # What a word alone stood for gives way to what others stand for.
                (first if "=" in old.new else kept).append(f"{old.new}{sign}{value}")
        return first + kept + last, changed
