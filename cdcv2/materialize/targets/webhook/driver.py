"""A webhook as a target: deltas and statements are posted as JSON, some at a time, until the receiver answers 2xx.

A request's body is ``{"version": 1, "messages": [...]}`` (:mod:`cdcv2.materialize.protocol.deltas`). What is posted
again, after a time-out or a crash, is the same request, and carries the same ``Idempotency-Key``. A receiver must have
kept what it answers 2xx to; :class:`~cdcv2.materialize.subscriber.Subscriber` is what it needs, or a table keyed by
``(table, lower, upper, key)``. A driver cannot look into a receiver: only the receiver can recognize, by their extents,
deltas of another recovery log, or of an old one; it answers them with 409.

A request ends before it gets too many messages, or too many bytes. A delta is never split: one that is larger than a
request may be is posted alone, and the receiver takes or refuses it.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from cdcv2.errors import OutputError, UnavailableError, UsageError
from cdcv2.materialize.protocol.messages import Table
from cdcv2.materialize.targets.push import PushDriver
from cdcv2.materialize.targets.webhook.whole_request import send

# Answers after which the same request may be taken: too early, too many, a server or proxy in trouble.
_PASSING = {408, 425, 429, 500, 502, 503, 504}

_ADDRESS = re.compile(r"[!-~]+", re.ASCII)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile("[\t -~\xa0-\xff]*")


class WebhookDriver(PushDriver):
    """Posts to one URL.

    Args:
        url: ``http://`` or ``https://``. What follows the path may be a secret and is not shown.
        headers: more headers, as ``Authorization``; never shown.
        batch: how many messages a request has at most.
        batch_bytes: how many bytes the body of a request has at most, unless it is that of a single message.
        attempts: how often a request is made before giving up; in between it waits 0.5 seconds, then twice as long, up
            to 30, or what the receiver asks for with ``Retry-After``.
        timeout: how many seconds a request may take, from connecting to the end of its answer.
        pause: waits so many seconds, in place of ``time.sleep``.

    Raises UsageError for an address, a header or a number that cannot be; it shows no secret.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        batch: int = 500,
        batch_bytes: int = 1_000_000,
        attempts: int = 8,
        timeout: float = 30.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__()
        self._shown = _address(url)
        for name, value in (headers or {}).items():
            _demand_header(name, value)
        if batch < 1 or batch_bytes < 1 or attempts < 1 or not timeout > 0:
            raise UsageError(
                f"batch={batch}, batch_bytes={batch_bytes}, attempts={attempts}, timeout={timeout}: each must be above "
                "0"
            )
        self._url, self._headers = url, dict(headers or {})
        self._batch, self._most, self._attempts, self._timeout = batch, batch_bytes, attempts, timeout
        self._pause = pause
        # Messages as they will be posted; how large the request is with them.
        self._waiting: list[bytes] = []
        self._size = len(_body([]))

    def connect(self, tables: tuple[Table, ...]) -> None:
        """Nothing to do: the first request shows whether a receiver answers."""

    def push(self, table: Table, message: dict[str, Any]) -> None:
        """With others in one request, as long as there is room."""
        text = json.dumps(message, separators=(",", ":")).encode()
        more = len(text) + bool(self._waiting)
        if self._waiting and self._size + more > self._most:
            self.settle()
            more = len(text)
        self._waiting.append(text)
        self._size += more
        if len(self._waiting) >= self._batch or self._size >= self._most:
            self.settle()

    def settle(self) -> None:
        """Post what waits. Raises UnavailableError if no receiver takes it, OutputError if it is refused."""
        if self._waiting:
            self._post(_body(self._waiting))
            self._waiting, self._size = [], len(_body([]))

    def _post(self, body: bytes) -> None:
        headers = {
            "Content-Type": "application/json", "Idempotency-Key": hashlib.sha256(body).hexdigest(), **self._headers,
        }  # fmt: skip
        wait, failure = 0.5, ""
        for attempt in range(self._attempts):
            if attempt:
                self._pause(wait)
                wait = min(30.0, 2 * wait)
            try:
                request = urllib.request.Request(self._url, body, headers, method="POST")
                return send(request, self._timeout)
            except urllib.error.HTTPError as cause:
                with cause:
                    failure = f"{cause.code} {cause.reason}"
                if cause.code not in _PASSING:
                    raise self._refused(cause.code, failure) from None
                wait = _retry_after(cause.headers.get("Retry-After"), wait)
            except (OSError, HTTPException) as cause:
                # URLError is an OSError; its reason has the details.
                failure = str(getattr(cause, "reason", "") or cause or type(cause).__name__)
        raise UnavailableError(
            f"the webhook {self._shown} does not take what is posted, {self._attempts} times: {failure}; see to it and "
            "start again, the same will be posted"
        )

    def _refused(self, code: int, failure: str) -> OutputError:
        what = "name its final address" if 300 <= code < 400 else "correct the address, the headers or the receiver"
        if code == 409:
            what = (
                "what it has continues where this recovery log does not: it is another log, or an old one (as of a "
                "backup). Name the one that was pushed with, or restore it; or start over, with a receiver and a "
                "recovery log that are empty"
            )
        elif code == 413 and len(self._waiting) > 1:
            what = f"it has {len(self._waiting)} messages and {self._size} bytes: make batch or batch_bytes smaller"
        elif code == 413:
            one = json.loads(self._waiting[0])
            what = (
                f"it is one delta of {one['table']!r} alone, with {self._size} bytes, at the key "
                f"{json.dumps(one.get('key'), ensure_ascii=False)[:200]}: let the receiver take requests that large"
            )
        return OutputError(f"the webhook {self._shown} refuses what is posted: {failure}; {what}, and start again")


def _address(url: str) -> str:
    """The address as errors show it: without what may be a secret. Raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        # The reason cannot be shown without showing the address.
        raise UsageError(
            "the address of the webhook cannot be read (it is not shown, as a secret may be in it): write http:// or "
            "https://, a host, perhaps a port from 0 to 65535, and a path"
        ) from None
    shown = f"{parts.scheme}://{parts.hostname or ''}{'' if port is None else f':{port}'}{parts.path}"
    if parts.scheme not in ("http", "https") or not parts.hostname:
        given = shown if parts.netloc else f"{parts.scheme}{':' if parts.scheme else ''}{parts.path}"
        raise UsageError(f"{given!r} is no address of a webhook: write http:// or https://, a host and a path")
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"{shown}: a user or a password in the address is not sent; set the header Authorization")
    if not _ADDRESS.fullmatch(url):
        raise UsageError(
            f"{shown!r}: the address has blanks, control characters or others beyond ASCII, there or in what is not "
            "shown; write them with %-escapes"
        )
    return shown


def _demand_header(name: str, value: str) -> None:
    """Raise UsageError, without showing the value, unless the header can be sent."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name of a header: letters, digits and hyphens make one")
    if not _VALUE.fullmatch(value):
        raise UsageError(
            f"the value of the header {name!r} has a line break, a control character or one beyond Latin-1 (it is not "
            "shown): leave that out; a secret that was read from a file may end with a line break"
        )


def _body(messages: list[bytes]) -> bytes:
    return b'{"version":1,"messages":[' + b",".join(messages) + b"]}"


def _retry_after(header: str | None, wait: float) -> float:
    """How long to wait, if the receiver states it in seconds; never for more than a minute."""
    return min(60.0, float(header)) if header is not None and header.isdecimal() else wait
