"""Makes the options of a capture those of a program's parser: of the command, of the job, of a file that names them."""

from __future__ import annotations

from cdcv2.cli.options.capture_options import COMMAND, JOB, OLD, OPTIONS, CaptureOption
from cdcv2.cli.options.capture_ways import check_together
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import WORDS, Arguments, declare, declare_follow
from cdcv2.connectors.kinds import DATABASES


def add_command_options(parser: OptionParser) -> None:
    """Declare those of ``cdcv2 capture``, and the words of before."""
    _add(parser, COMMAND)


def add_capture_job_options(parser: OptionParser) -> None:
    """Declare those of the job on Spark, and the words of before."""
    _add(parser, JOB)


def _add(parser: OptionParser, program: str) -> None:
    parser.checks.append(check_together)
    # The caller, which parses the arguments, knows how the process was started.
    parser.set_defaults(command_line=None, connector=None)
    groups: dict[str | None, Arguments] = {None: parser}
    for option in OPTIONS:
        if program in option.programs and (len(DATABASES) > 1 or not option.several):
            if option.group not in groups:
                groups[option.group] = parser.add_argument_group(option.group)
            _declare(groups[option.group], option, program)
    for old, new in OLD[program].items():
        parser.formerly(old, new)


def _declare(group: Arguments, option: CaptureOption, program: str) -> None:
    settings = {**option.settings, **option.programs[program]}
    if option.name == "--follow":
        declare_follow(group, **settings)
    elif option.name in WORDS:
        declare(group, option.name, **settings)
    else:
        group.add_argument(option.name, **settings)
