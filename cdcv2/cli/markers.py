"""``--marker``: an instance may commit markers at an idle source, for who waits until a commit is finished."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import UsageError
from cdcv2.instances.run.marker import MarkerWriter, commit_marker
from cdcv2.store.postgres_session import demand_readable
from cdcv2.store.source_address import SourceAddress, source_address

#: How the source of a pipeline's file is named, by the jobs of its instances: pipeline:NAME:FILE.
_OF_PIPELINE = "pipeline:"


def add_marker_arguments(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "--marker", more=" at --source, while a peek waits and no other commit comes: at most one a second")
    declare(parser, "--source", more="; for --marker")


def check_marker(args: argparse.Namespace) -> None:
    """Raise UsageError if one of the two options is given alone."""
    if bool(args.marker) != (args.source is not None):
        raise UsageError("--marker and --source go together: --source names the database that markers are committed in")


def marker_of(args: argparse.Namespace, report: Callable[[str], object]) -> MarkerWriter | None:
    """What commits markers; None: nothing may. Raises UsageError for a source that cannot be read."""
    if not args.marker:
        return None
    address = _of_pipeline(args.source) if args.source.startswith(_OF_PIPELINE) else source_address(args.source)
    return MarkerWriter(commit_marker(demand_readable(address.conninfo), address.origin), report)


def _of_pipeline(where: str) -> SourceAddress:
    name, _, file = where.removeprefix(_OF_PIPELINE).partition(":")
    source = read_pipeline(file).sources.get(name)
    conninfo = None if source is None else source.conninfo()
    if conninfo is None:
        raise UsageError(f"{file} has no connection string of a source {name!r}: write its postgres: {{conninfo: ...}}")
    return SourceAddress(conninfo, f"the source {name} of {file}")
