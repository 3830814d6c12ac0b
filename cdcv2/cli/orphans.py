"""Remove files that dead transactions left in a lake or beside Delta tables.

Also files of tasks that Spark gave up. It takes the YAML file of cdcv2
materialize, or that of a pipeline. Without --remove it only shows the files
that no manifest names, and disturbs no other process. Among them are files
that a running materialization has just staged, and files that are committed
and not applied yet.

With --remove it takes the materialization over, as a run does: it applies
what was committed, and then removes what no process can name any more. It
reads and commits nothing. Of a pipeline, it pauses the job of the view
meanwhile (cdcv2 pause), and resumes it at the end, also at SIGTERM and
Ctrl-C. If it was killed in between, cdcv2 resume does that. Another process
that keeps this target is fenced off: it ends, and loses nothing. Start it
again. If one starts meanwhile, this command ends with an error and has removed
nothing.

Files that Delta itself has replaced are left to VACUUM.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.display import json_line
from cdcv2.cli.options.words import declare
from cdcv2.cli.view_alone import view_alone
from cdcv2.control.materialization_file import read_plan
from cdcv2.control.plan import MaterializationPlan
from cdcv2.control.timer_fields import NO_FILES
from cdcv2.errors import MissingLogError
from cdcv2.exits import Exit
from cdcv2.materialize import Runtime
from cdcv2.materialize.targets.manifests import Manifests

EXAMPLES = (
    ("cdcv2 orphans shop-lake.yaml", "what is there"),
    ("cdcv2 orphans shop-lake.yaml --remove", "and remove it; a process that keeps this target is fenced off"),
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    declare(parser, "file", "--view")
    parser.add_argument("--remove", action="store_true", help="remove the files, and take the materialization over")
    declare(parser, "--json", more="the result, one object")
    declare(parser, "--events")


def run(args: argparse.Namespace) -> Exit:
    """Show them, or remove them. Raises MissingLogError if nothing was materialized into the folder yet."""
    plan = read_plan(args.file, args.view)
    if plan.staging is None:
        plan.lines[None].fail(NO_FILES)
    folder = plan.staging()
    if folder.last()[1] is None:
        raise MissingLogError(f"nothing was materialized into {folder.path} yet: run cdcv2 materialize first")
    if args.remove:
        # Before anything is taken over: one who is refused leaves the one who runs alone.
        plan.demand_continued()
        with view_alone(args.file, args.view, "cdcv2 orphans"):
            found = _removed(plan, folder)
    else:
        found = list(_sized(folder.orphans()))
    size = sum(one for _, one in found)
    with ResultOutput.standard() as output:
        if args.json:
            output.line(json_line({
                "removed": args.remove, "bytes": size,
                "files": [{"path": str(path), "bytes": one} for path, one in found],
            }))
            return Exit.DONE
        for path, one in found:
            output.line(f"{path}: {one} bytes")
        what = "removed" if args.remove else "named by no manifest; with --remove those go that no transaction needs"
        output.line(f"{len(found)} files, {size} bytes: {what}")
    return Exit.DONE


def _removed(plan: MaterializationPlan, folder: Manifests[Any]) -> list[tuple[Path, int]]:
    """Take over, apply what was committed, and remove the rest. Raises FencedError when another has taken over."""
    log = plan.recovery()
    runtime = Runtime(plan.name, plan.bindings, plan.driver(), lambda _: (), log=log, start=[plan.start])
    try:
        with plan.errors_at_line():
            runtime.run()
        found = list(_sized(folder.orphans()))
        # A process that comes later names files that are not among them.
        runtime.demand()
        gone = set(folder.remove(path for path, _ in found))
        return [one for one in found if one[0] in gone]
    finally:
        if log is not None:
            log.close()


def _sized(paths: list[Path]) -> Iterator[tuple[Path, int]]:
    """The files, and how large they are; without those that are removed meanwhile."""
    for path in paths:
        try:
            yield path, path.stat().st_size
        except FileNotFoundError:
            continue
