"""The ``cdcv2`` command: finds the sub-command, and turns each way that it may end into an exit code.

An error of this package is one line on standard error, without a traceback; any other exception is a mistake in
cdcv2 and shows its traceback. Ctrl-C is one line; a reader of the output that went away is none.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO, Any

from cdcv2 import __version__, early_interrupt
from cdcv2.cli.console import forget, open_closed_streams, remark
from cdcv2.cli.options.events import has_events, started_events
from cdcv2.cli.options.parser import OptionParser
from cdcv2.errors import Cdcv2Error, UsageError
from cdcv2.event_stream import place_in
from cdcv2.events import JobEvents, ending_on_sigterm
from cdcv2.exits import Exit, exit_of
from cdcv2.process_end import end_with

#: Sub-command -> what it does; each is imported from ``cdcv2.cli`` when it is asked for.
COMMANDS = {
    "capture": "turn Debezium's topics into logs, without Spark",
    "inspect": "print the messages of a log, or the bindings of a remap",
    "replay": "print the history that logs hold, or keep it as files",
    "as-of": "print a table as it was at a time",
    "verify": "state how far logs are complete, or what is wrong",
    "resolve": "show and decide what is in quarantine",
    "when": "print the time to which a position of a source is bound",
    "where": "print how far the sources of a timeline were at a time",
    "compact-remap": "shorten a remap by what no logs need",
    "open-transactions": "print the open transactions of a capture",
    "mangle": "copy logs, duplicated and reordered on purpose",
    "rewrite": "write the history of logs, up to a time, into new logs",
    "materialize": "keep views of logs in another system, without Spark",
    "draw": "draw logs, a timeline or a pipeline as SVG",
    "doctor": "look whether all that a pipeline needs is right",
    "run": "run a pipeline file: captures and views in one process",
    "plan": "show what up would change, and why",
    "up": "keep the jobs of a pipeline running",
    "down": "end the jobs of a pipeline",
    "pause": "end one job of a pipeline, while the others keep running",
    "resume": "resume a job of a pipeline that was paused",
    "status": "show how far tables are behind, and how the jobs stand",
    "page": "print the address of the page of a pipeline",
    "explain": "name what stands still on the way to a table",
    "output": "show what a job of a pipeline printed",
    "compare": "prove that source, logs and target have the same rows",
    "repair": "bring a damaged target back to its logs",
    "orphans": "remove files that dead transactions have left",
    "job-path": "print where a job for spark-submit is",
    "external": "list what a pipeline has in other systems",
    "metrics": "print the metrics of a pipeline, for Prometheus",
    "rows": "make the row type of a table",
    "init": "make the files of a pipeline from a database",
    "instance": "hold tables of logs by key, and answer peeks",
    "replicas": "have several instances answer as one",
    "peek": "ask an instance what is at some keys, at one time",
    "tail": "follow the changes of a table of an instance",
    "demo": "see it work on real change data",
}
#: How the help lists them: what a part is for, and its commands. One that is in no part is in the last.
PARTS = {
    "from a database to a copy that is right": "init doctor up status explain compare down",
    "more about a pipeline": "run plan pause resume output page external metrics",
    "logs": "capture verify as-of replay inspect draw rewrite resolve mangle",
    "copies in other systems": "materialize repair orphans",
    "single rows, and changes of a table": "instance replicas peek tail",
    "a remap": "when where compact-remap open-transactions",
    "others": "demo rows job-path",
}

#: What a newcomer tries first.
BEGIN = """  # see it work, without servers
  cdcv2 demo --small
  # how far the logs of a capture are complete
  cdcv2 verify logs"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = f"cdcv2 {arguments[0]}" if arguments and arguments[0] in COMMANDS else "cdcv2"
    open_closed_streams()
    code = _run(arguments, name)
    _flush_or_forget(sys.stderr)
    return code


def command() -> int:
    """What the process of the command does; returns the code with which it ends."""
    return end_with(main())


def _run(arguments: list[str], name: str) -> int:
    """Run it, and state its end: this is the one place for it, whatever the end is."""
    events, code = JobEvents(name), int(Exit.BUG)
    error: BaseException | None = None
    try:
        with _warnings_shown(name):
            with ExitStack() as ending:
                with _sigterm_held():
                    if arguments and arguments[0] in COMMANDS:
                        _module(arguments[0])
                    # Before a start is stated, of which the end is to be stated, too.
                    early_interrupt.leave()
                    events = _events(arguments, name)
                    ending.enter_context(ending_on_sigterm(events, f"{name}: ended by SIGTERM"))
                code = _dispatch(arguments, events)
            if sys.stdout is not None:
                sys.stdout.flush()
    except Cdcv2Error as caught:
        _print_line(f"{name}: {caught}")
        _flush_or_forget(sys.stdout)
        code, error = exit_of(caught), caught
    except KeyboardInterrupt as caught:
        _print_line(f"{name}: interrupted")
        code, error = Exit.INTERRUPTED, caught
    except BrokenPipeError as caught:
        forget(sys.stdout)
        code, error = Exit.NOBODY_READS, caught
    except Exception as caught:
        code, error = _unexpected(caught, name), caught
    events.end(code, error)
    return code


@contextmanager
def _sigterm_held() -> Iterator[None]:
    """Within the block SIGTERM waits, so that a command that has stated its start states its end, and prints a line."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _unexpected(error: Exception, name: str) -> Exit:
    """Print what is none of our errors, and its exit code."""
    if isinstance(error, OSError) and error.filename is not None:
        # Of the file system, as of a file that vanishes while it is read.
        _print_line(f"{name}: {error.filename}: {error.strerror}; mend that, and start it again")
        return Exit.UNABLE
    remark(traceback.format_exc().rstrip())
    _print_line(f"{name}: this is a mistake in cdcv2 {__version__}, not in what it was given")
    return Exit.BUG


def _events(arguments: list[str], name: str) -> JobEvents:
    """The events of this run, started; of a command that has none, or is to write none, they go nowhere."""
    place = place_in(arguments[1:])
    if place is None or arguments[0] not in COMMANDS or not has_events(parser_of(arguments[0])):
        return JobEvents(name)
    return started_events(name, place)


def parser_of(command: str) -> OptionParser:
    """The parser of one sub-command, its help included."""
    module = _module(command)
    parser = OptionParser(f"cdcv2 {command}", module.__doc__, module.EXAMPLES, getattr(module, "EXITS", {}))
    module.configure(parser)
    return parser


def _dispatch(arguments: list[str], events: JobEvents) -> int:
    if arguments and arguments[0] in COMMANDS:
        parser = parser_of(arguments[0])
        run, rest = _module(arguments[0]).run, arguments[1:]
    else:
        parser = _front()
        run, rest = _no_command, arguments
    try:
        args = parser.parse_args(rest)
    except SystemExit as left:
        # Only --help and --version leave: an error raises UsageError.
        return int(left.code or 0)
    args.command_line = shlex.join(["cdcv2", *arguments])
    args.events = events
    return int(run(args))


def _front() -> OptionParser:
    parser = OptionParser(
        "cdcv2", "Copy the tables of a PostgreSQL database to other places, and prove that the\ncopies are right."
    )
    parser.epilog = (
        f"{_listed()}\n\nexamples:\n{BEGIN}\n\n"
        "'cdcv2 COMMAND --help' shows its arguments, examples and exit codes. README.md\n"
        "has the first steps, docs/operations.md the page for a question."
    )
    parser.add_argument("--version", action="version", version=f"cdcv2 {__version__}")
    parser.add_argument(
        "command", metavar="COMMAND", nargs="?", choices=list(COMMANDS), help="one of those below; none: this help"
    )
    return parser


def _listed() -> str:
    """All commands, part by part."""
    parts = {title: names.split() for title, names in PARTS.items()}
    parts["others"] += sorted(set(COMMANDS).difference(*parts.values()))
    return "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name:<17}  {COMMANDS[name]}" for name in names) for title, names in parts.items()
    )


def _no_command(args: argparse.Namespace) -> int:
    if args.command is None:
        _front().print_help()
        return Exit.USAGE
    raise UsageError(f"{args.command!r} comes first: cdcv2 {args.command} ...")


def _module(command: str) -> Any:
    return importlib.import_module(f"cdcv2.cli.{command.replace('-', '_')}")


def _print_line(text: str) -> None:
    # One line, whatever an error quotes.
    remark(" ".join(text.split()))


@contextmanager
def _warnings_shown(name: str) -> Iterator[None]:
    """Within the block, what the package logs as a warning is a line on standard error."""
    logger, handler = logging.getLogger("cdcv2"), logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"{name}: %(message)s"))
    handler.setLevel(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _flush_or_forget(stream: IO[str] | None) -> None:
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        # Reported already, or there is no reader to report it to.
        forget(stream)
