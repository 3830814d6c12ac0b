"""The option ``--quarantine DIR``: how a command decides contradictions by it, and reports them."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.options.words import declare
from cdcv2.logs.quarantine import Quarantine
from cdcv2.store.numbered import path_to_read

#: So many cases of a table are named.
MOST_SHOWN = 10


#: What ends the help of --quarantine where a file may have it, too.
OF_FILE = " (default: that of the file)"


def add_quarantine_argument(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Declare where the evidence of contradictions goes; ``more`` ends the help."""
    declare(
        parser, "--quarantine",
        more=". A contradiction without a decision does not end the command: its evidence is kept there, and only "
             f"what lies before it is given out{more}",
    )


def quarantine_of(args: argparse.Namespace, of_file: Path | None = None) -> Quarantine | None:
    """The folder that the arguments name, or else the file. Raises UsageError for the address of something else."""
    folder = of_file if args.quarantine is None else path_to_read(args.quarantine)
    return None if folder is None else Quarantine(folder)


def remark_disputes(command: str, disputed: Mapping[str, Mapping[str, str]], quarantine: Quarantine | None) -> bool:
    """Name what is in dispute, and how to decide it; whether anything is."""
    for table, cases in disputed.items():
        for name, text in list(cases.items())[:MOST_SHOWN]:
            remark(f"{command}: {table}: in quarantine as {name}: {text}")
        if len(cases) > MOST_SHOWN:
            remark(f"{command}: {table}: and {len(cases) - MOST_SHOWN} more in quarantine")
    if disputed and quarantine is not None:
        remark(
            f"{command}: only what lies before the times in dispute counts as complete. See the evidence with "
            f"cdcv2 resolve {quarantine.folder}, decide it there, and start this again"
        )
    return bool(disputed)
