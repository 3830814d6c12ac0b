"""How ``--help`` looks: the same width on every terminal, examples that can be copied, and what exit codes mean."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from cdcv2.exits import Exit, meanings_of

#: What fits into a terminal of 80 columns.
WIDTH = 79


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """The formatter of every parser. It keeps the lines of a description, and wraps what the options state."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=WIDTH)


def epilog(examples: Sequence[tuple[str, str]], exits: Mapping[Exit, str]) -> str:
    """The end of a help: the examples, each a command and its meaning, and the exit codes.

    ``exits`` has what exit codes mean of this program, beside those that mean the same everywhere.
    """
    shown = "\n".join(line for command, meaning in examples for line in _example(command, meaning))
    codes = "\n".join(line for code, text in meanings_of(exits).items() for line in _exit_code(code, text))
    return f"examples:\n{shown}\n\nexit codes:\n{codes}"


def continued(command: str) -> list[str]:
    """A command as lines that a shell takes for one; it is cut before options, or between words where one is long.

    >>> continued("cdcv2 verify logs --full")
    ['cdcv2 verify logs --full']
    >>> print("\\n".join(continued(f"cdcv2 capture kafka --bootstrap {'x' * 40} --follow --json")))
    cdcv2 capture kafka --bootstrap xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx \\
        --follow --json
    """
    # Two columns before each line, and two behind it for the backslash.
    room = WIDTH - 4
    lines = [""]
    for part in re.split(r" (?=--)", command):
        for piece in [part] if len(part) <= room - 4 else part.split(" "):
            longer = f"{lines[-1]} {piece}" if lines[-1] else piece
            if len(longer) <= room:
                lines[-1] = longer
            else:
                lines.append(f"    {piece}")
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _example(command: str, meaning: str) -> Iterator[str]:
    yield from wrap(meaning, WIDTH, initial_indent="  # ", subsequent_indent="  # ")
    for line in continued(command):
        yield f"  {line}"


def _exit_code(code: int, text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=f"  {code:<4d} ", subsequent_indent=" " * 7)
