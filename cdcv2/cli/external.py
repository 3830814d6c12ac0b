"""List what a pipeline has in other systems, and what is still to be done.

It lists the entries of the catalogue of external state, in the state folder:
the connectors, slots and publications that the file names, and the logs,
remaps, tables and topics that it states as owned: yes or owned: no. For each:
its state and for how long, the jobs that use it, its identity, and what could
not be done yet and why. It asks no server and changes nothing, and may run
beside cdcv2 up.

States: wanted (it should exist), made, in use, unwanted (no job needs it; it is
removed if it is owned), lost (changes or rows may be missing). What was removed
is shown with --all alone. What to do: docs/operations/external-state.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import time

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.options.words import declare
from cdcv2.control.age import age
from cdcv2.control.catalogue import DATABASE, read_catalogue
from cdcv2.control.entries import CatalogueEntry, EntryState
from cdcv2.control.external_view import awaited, external_of
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import UsageError
from cdcv2.exits import Exit
from cdcv2.store.file_system import is_there
from cdcv2.store.numbered import path_to_read

EXAMPLES = (
    ("cdcv2 external shop.state", "what there is, and what is still to be done"),
    ("cdcv2 external shop.state --all --json", "with what was removed, as JSON"),
)
#: What exit codes mean here, beside those that mean the same everywhere.
EXITS = {
    Exit.DONE: "nothing is to be done",
    Exit.MISSING: "something is not done yet, or lost",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("place", metavar="PIPELINE.yaml|FOLDER", help="a pipeline's file, or its state folder")
    parser.add_argument("--all", action="store_true", help="also what was removed")
    declare(parser, "--json", more="one object")


def run(args: argparse.Namespace) -> Exit:
    """List the entries."""
    path = path_to_read(args.place)
    folder = path if path.is_dir() else _state_of(args.place)
    with read_catalogue(Path(folder)) as catalogue:
        entries = catalogue.entries()
    shown = [entry for entry in entries if args.all or entry.state is not EntryState.GONE]
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json_line(external_of(Path(folder), removed=args.all)))
        else:
            for entry in shown:
                for line in lines_of(entry, entries, time()):
                    output.line(line)
    return Exit.MISSING if any(entry.debt or entry.state is EntryState.LOST for entry in shown) else Exit.DONE


def _state_of(file: str) -> Path:
    """The state folder of a pipeline file. Raises UsageError where no cdcv2 up has made one yet."""
    state = read_pipeline(file).state
    if not is_there(state / DATABASE):
        raise UsageError(f"{state} holds no catalogue: no cdcv2 up was started with {file} yet")
    return state


def lines_of(entry: CatalogueEntry, entries: list[CatalogueEntry], now: float) -> list[str]:
    """What a person is shown about an entry; what is owed is on lines of its own."""
    whose = f"used by {', '.join(entry.users)}" if entry.users else "used by no job"
    if not entry.is_live and entry.users:
        whose = f"no longer used by {', '.join(entry.users)}"
    owned = "" if entry.owned else ", not owned"
    known = f", identity {entry.identity}" if entry.identity else ""
    lines = [
        f"{entry.kind} {entry.name} ({entry.address}): {entry.state} for {age(now - entry.since)}, {whose}{owned}, "
        f"entry {entry.nonce}{known}"
    ]
    waits = awaited(entry, entries)
    if waits:
        lines.append(f"  waits for {', '.join(waits)}")
    if entry.debt is not None:
        tried = f", tried {entry.debt.tries} times" if entry.debt.tries > 1 else ""
        lines.append(f"  {entry.debt.reason} for {age(now - entry.debt.since)}{tried}: {entry.debt.text}")
    return lines
