"""Print the address of the page that cdcv2 up serves, with its token.

The page shows what cdcv2 status shows, what each table waits for, and a
picture of the pipeline; it renews itself. cdcv2 up serves it with --listen.

The address has the token after #, which a browser does not send: so it comes
into no log of a server. Who has the address has the token. On a machine with
other users, paste it into the browser: a command that opens it has it among
its arguments, which the others can read.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from urllib.parse import quote

from cdcv2.cli.console import ResultOutput
from cdcv2.cli.options.parser import OptionParser
from cdcv2.cli.options.words import declare
from cdcv2.control.api.address import api_of
from cdcv2.control.api.token_file import token_in
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.errors import UnavailableError
from cdcv2.exits import Exit

EXAMPLES = (("cdcv2 page pipeline.yaml", "the address, to paste into a browser"),)


def configure(parser: OptionParser) -> None:
    """Declare the arguments."""
    declare(parser, "pipeline")


def run(args: argparse.Namespace) -> Exit:
    """Print it. Raises UnavailableError where no page is served."""
    pipeline = read_pipeline(args.pipeline)
    found = api_of(pipeline.state)
    if found is None:
        raise UnavailableError(f"no page of {args.pipeline} is served: start cdcv2 up {args.pipeline} --listen")
    with ResultOutput.standard() as output:
        output.line(f"{found.url}/#token={quote(token_in(Path(found.token_file)), safe='')}")
    return Exit.DONE
