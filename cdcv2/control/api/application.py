"""What the API answers: paths, methods, and errors as JSON with a reason and a remedy.

::

    GET  /v1/health               whether the loop that keeps the jobs makes its turns; without a token
    GET  /v1/status               as cdcv2 status --json
    GET  /v1/jobs/NAME            one job of it
    POST /v1/jobs/NAME/release    let a held job start again, as cdcv2 up --start-held
    GET  /v1/external             as cdcv2 external --json
    GET  /v1/metrics              for Prometheus
    GET  /                        the page, which has no data; without a token
    GET  /v1/page                 what the page asks for, drawn for a screen of ?width= pixels
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from traceback import extract_tb
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from cdcv2.control.api.limits import ALLOWED, BODY, BURST, HEADERS, RATE, RateLimit
from cdcv2.control.metrics.text import CONTENT_TYPE
from cdcv2.control.page.content import picture_width
from cdcv2.control.page.document import page_document
from cdcv2.errors import Cdcv2Error, UnavailableError
from cdcv2.events import shown
from cdcv2.suggestions import meant

HEALTH, PAGE = "/v1/health", "/"
_LOG = logging.getLogger("cdcv2.api")
_REPORT = "the output of cdcv2 up has the traceback: report it; the jobs keep running"
_PATHS = "GET /v1/status, /v1/jobs/NAME, /v1/external, /v1/metrics, /v1/health, /; POST /v1/jobs/NAME/release"


class ApiAnswers(NamedTuple):
    """Where the answers come from; each may raise a Cdcv2Error, and is called in a thread that may wait.

    - ``status``: of the pipeline, plain; ``external``: of its external state, plain; ``metrics``: as text.
    - ``page``: what the page asks for, plain, for a screen of so many pixels.
    - ``release``: let a held job start; whether it was held.
    - ``alive``: whether the loop makes its turns; it never waits.
    """

    status: Callable[[], Mapping[str, Any]]
    external: Callable[[], Mapping[str, Any]]
    metrics: Callable[[], str]
    page: Callable[[int], Mapping[str, Any]]
    release: Callable[[str], bool]
    alive: Callable[[], bool]


def application(
    answers: ApiAnswers, token: str, *, limit: RateLimit | None = None, refusals: RateLimit | None = None
) -> Starlette:
    """The application; ``limit``: how many requests with the token it answers (default: :data:`RATE` a second).

    ``refusals``: the same of requests without it, so that clients that have none take nothing from those that do.
    """

    async def health(request: Request) -> Response:
        alive = answers.alive()
        if alive:
            return JSONResponse({"alive": True})
        remedy = "look what holds it; the jobs keep running"
        return failure(503, "the loop of cdcv2 up makes no turns", remedy, alive=False)

    async def status(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(answers.status))

    async def job(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(_job, answers, request.path_params["name"]))

    async def release(request: Request) -> Response:
        name = (await run_in_threadpool(_job, answers, request.path_params["name"]))["name"]
        return JSONResponse({"name": name, "released": await run_in_threadpool(answers.release, name)})

    async def external(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(answers.external))

    async def metrics(request: Request) -> Response:
        return Response(await run_in_threadpool(answers.metrics), headers={"Content-Type": CONTENT_TYPE})

    async def page(request: Request) -> Response:
        document = page_document()
        return HTMLResponse(document.html, headers=document.headers)

    async def page_data(request: Request) -> Response:
        width = picture_width(request.query_params.get("width"))
        return JSONResponse(await run_in_threadpool(answers.page, width))

    return Starlette(
        routes=[
            Route(HEALTH, health), Route("/v1/status", status), Route("/v1/jobs/{name}", job),
            Route("/v1/jobs/{name}/release", release, methods=["POST"]), Route("/v1/external", external),
            Route("/v1/metrics", metrics), Route(PAGE, page), Route("/v1/page", page_data),
        ],
        middleware=[Middleware(
            RequestGuard, token=token, limit=limit or RateLimit(RATE, BURST),
            refusals=refusals or RateLimit(RATE, BURST),
        )],
        exception_handlers={HTTPException: _refused, Cdcv2Error: _failed},
    )  # fmt: skip


def failure(code: int, reason: str, remedy: str, *, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """An error, as every path answers it."""
    return JSONResponse({"reason": reason, "remedy": remedy, **more}, code, headers=headers)


class RequestGuard:
    """Refuses requests that are too many, too large, or without the token, before any other code looks at them.

    What fails behind it by a mistake of ours is answered as any error, and logged: a client sees no code.
    """

    def __init__(self, app: Any, token: str, limit: RateLimit, refusals: RateLimit) -> None:
        self._app, self._token, self._limit, self._refusals = app, token.encode(), limit, refusals

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer it, or have it answered."""
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        answering = list[str]()

        async def watched(message: Any) -> None:
            answering.append(message["type"])
            await send(message)

        try:
            await (self._app if refusal is None else refusal)(scope, receive, watched)
        except Exception as error:
            _LOG.error("cdcv2 up: %s %s: %s", scope.get("method"), scope.get("path"), _traced(error))
            if answering:  # the client has a part of the answer already: it sees that the rest is missing
                raise
            name = type(error).__name__
            await failure(500, f"a mistake in cdcv2 itself ({name})", _REPORT, error=name)(scope, receive, send)

    def _refusal(self, scope: Any) -> Response | None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        if sum(len(name) + len(value) for name, value in headers) > HEADERS:
            return failure(431, f"the headers are longer than {HEADERS} bytes", "send fewer")
        named = dict(headers)
        if b"transfer-encoding" in named:
            return failure(411, "the body has no stated length", "send Content-Length, or no body: no path needs one")
        length = named.get(b"content-length", b"0")
        if len(length) > 9 or int(length) > BODY:
            return failure(413, f"the body is longer than {BODY} bytes", "send no body: no path needs one")
        if scope["path"] == HEALTH or (scope["path"] == PAGE and scope["method"] in ("GET", "HEAD")):
            return None
        allowed = self._allowed(named.get(b"authorization"))
        if not (self._limit if allowed else self._refusals).allows():
            return failure(
                429, f"more than {RATE:g} requests a second", "ask less often", headers={"Retry-After": "1"}
            )
        # The connection is one of a client that has the token, from here on.
        scope[ALLOWED] = allowed
        return None if allowed else failure(
            401, "the request has no token, or a wrong one",
            "send the header Authorization: Bearer TOKEN, with the line that is in the token file of cdcv2 up",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def _allowed(self, given: bytes | None) -> bool:
        kind, _, token = (given or b"").partition(b" ")
        # In the same time, however many letters are right.
        return hmac.compare_digest(token.strip(), self._token) and kind.lower() == b"bearer"


def _traced(error: Exception) -> str:
    """Class, text and places of an error. What looks like a secret in the text is replaced; places have no values."""
    places = (f"  {one.filename}, line {one.lineno}, in {one.name}" for one in extract_tb(error.__traceback__))
    return "\n".join([f"{type(error).__name__}: {shown(str(error))}", *places])


def _job(answers: ApiAnswers, name: str) -> Any:
    """A job of the status."""
    jobs = {one["name"]: one for one in answers.status()["jobs"]}
    if name not in jobs:
        raise HTTPException(404, f"there is no job {name!r}; there are {', '.join(jobs) or 'none'}{meant(name, jobs)}")
    return jobs[name]


async def _refused(request: Request, error: Exception) -> Response:
    code = error.status_code if isinstance(error, HTTPException) else 500
    headers = error.headers if isinstance(error, HTTPException) else None
    default = {404: "there is nothing at this path", 405: "this path has another method"}
    detail = getattr(error, "detail", "")
    reason = default.get(code, detail) if detail in ("", HTTPStatus(code).phrase) else detail
    return failure(code, reason, f"ask {_PATHS}", headers=headers)


async def _failed(request: Request, error: Exception) -> Response:
    code = 503 if isinstance(error, UnavailableError) else 500
    return failure(code, shown(str(error)), "the reason names what to do; then ask again", error=type(error).__name__)
