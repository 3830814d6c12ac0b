"""All options of ``cdcv2 capture``, for the command and for a file that names them."""

from __future__ import annotations

from cdcv2.capture.release import RELEASE_EVERY
from cdcv2.capture.run.remap_loop import AT_MOST
from cdcv2.cli.options.capture import add_capture_options
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.remap_capture import add_remap_options
from cdcv2.cli.options.stream_capture import add_stream_options
from cdcv2.cli.options.words import declare, declare_follow


def add_command_options(parser: OptionParser) -> None:
    """Declare them, and the words of before."""
    add_capture_options(parser)
    declare(parser, "--max-records", more=f" (default: {RELEASE_EVERY}; with --remap {AT_MOST})")
    declare_follow(parser, default=False, more="; from Kafka")
    declare(parser, "--json", more="the result, one object")
    declare(parser, "--events")
    add_sole_option(parser)
    add_remap_options(parser)
    add_stream_options(parser.add_argument_group("records with times of their own"))
    declare(parser, "--bootstrap", "--kafka-config", "--patience")
    for old, new in (("--release-every", "--max-records"), ("--name", "--bind-as")):
        parser.formerly(old, new)


def add_sole_option(parser: OptionParser) -> None:
    """Declare ``--sole``, which the job on Spark has, too."""
    parser.add_argument("--sole", action="store_true",
                        help="run beside no other capture of these logs: one of the two is refused, and names the "
                             "other; so cdcv2 up starts it")
