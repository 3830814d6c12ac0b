"""``cdcv2 up --listen``: the options of the API, and what serves it beside the loop that keeps the jobs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cdcv2.cli.console import remark
from cdcv2.cli.options.parser import OptionParser
from cdcv2.control.api.address import DEFAULT, listen, published, url_of
from cdcv2.control.api.limits import PATIENCE, SILENT
from cdcv2.control.api.loop_requests import LoopRequests
from cdcv2.control.api.pipeline_answers import PipelineAnswers
from cdcv2.control.api.token_file import TOKEN_FILE, token_of
from cdcv2.control.pipeline import Pipeline
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.control.supervisor import Supervisor
from cdcv2.errors import MissingExtraError, UsageError


def configure_api(parser: OptionParser) -> None:
    """Declare the options."""
    parser.add_argument("--listen", nargs="?", const=DEFAULT, metavar="HOST:PORT",
                        help=f"serve the API at this address (default: {DEFAULT}; docs/operations/api.md)")
    parser.add_argument("--token-file", metavar="FILE",
                        help=f"the file with the API's token, made where it is not there (default: {TOKEN_FILE} in "
                             "the state folder)")
    parser.add_argument("--unencrypted", action="store_true",
                        help="let --listen name an address that other machines reach, though the token and all "
                             "answers can be read on the way there")


@contextmanager
def served(args: argparse.Namespace, pipeline: Pipeline) -> Iterator[LoopRequests]:
    """Within the block the API is served, if it is requested; what it asks for is what the loop is to take.

    Raises UsageError for options that do not go together, an address or a token file that cannot be used, and
    UnavailableError for a port in use. The state folder is there, and ours.
    """
    alone = [word for word in ("--token-file", "--unencrypted") if getattr(args, word[2:].replace("-", "_"))]
    if args.listen is None and alone:
        raise UsageError(f"{alone[0]} is about the API: add --listen, or leave it out")
    if args.listen is not None and args.once:
        raise UsageError("--listen and --once: an API ends with the command; leave one out")
    requests = LoopRequests()
    with ExitStack() as opened:
        if args.listen is not None:
            opened.enter_context(_api(args, pipeline, requests))
        yield requests


@contextmanager
def _api(args: argparse.Namespace, pipeline: Pipeline, requests: LoopRequests) -> Iterator[None]:
    try:
        from cdcv2.control.api.application import ApiAnswers, application
        from cdcv2.control.api.server import serving
    except ImportError as cause:
        raise MissingExtraError("--listen needs Starlette, uvicorn and Prometheus's client", "control") from cause
    supervisor = Supervisor(folder_of(pipeline))

    def release(name: str) -> bool:
        return requests.ask(lambda: name in supervisor.names() and supervisor.release(name), PATIENCE)

    view = PipelineAnswers(pipeline)
    answers = ApiAnswers(
        status=view.status,
        external=view.external,
        metrics=view.metrics,
        page=view.page,
        release=release,
        alive=lambda: requests.idle() < SILENT,
    )
    file = Path(args.token_file) if args.token_file else pipeline.state / TOKEN_FILE
    token = token_of(file)
    with listen(args.listen, unencrypted=args.unencrypted) as listening:
        url = url_of(listening)
        with published(pipeline.state, url, file), serving(application(answers, token), listening):
            remark(f"cdcv2 up: the API is at {url}; its token is in {file}; for a browser: cdcv2 page {args.pipeline}")
            try:
                yield
            finally:
                requests.close()
