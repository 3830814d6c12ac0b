"""A client of Kafka Connect's REST interface: connectors, their configuration and their state.

No error shows a configuration, as a password may be in it: of an answer of Connect only the names of settings are kept.
"""

from __future__ import annotations

import http.client
import json
import netrc
import re
import shlex
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from cdcv2.core.json_text import parse_json
from cdcv2.errors import MissingLogError, RefusedError, UnavailableError, UsageError
from cdcv2.store.file_system import text_of

#: Names of settings whose values are not shown, unless they only refer to a place outside.
SECRET = re.compile(
    r"password|passwd|pwd|secret|token|credential|passphrase|jaas|user[._]?info|(private|api|access|keystore)[._]?key",
    re.IGNORECASE,
)
#: An address with a user and a password in it.
_LOGIN = re.compile(r"//[^/\s:@]*:[^/\s@]+@")
_REFERENCE = re.compile(r"\$\{[^${}:]+:[^${}]+\}")
#: The longest answer that is read, in bytes.
_LONGEST = 10_000_000


def demand_connect_url(url: str) -> str:
    """The address of Kafka Connect's REST interface. Raises UsageError for what is none; a password is not shown.

    >>> demand_connect_url("http://connect:8083")
    'http://connect:8083'
    >>> demand_connect_url("http://cdc:secret@connect:8083")
    Traceback (most recent call last):
        ...
    cdcv2.errors.UsageError: the address of Kafka Connect holds a user or password, which is shown: leave it out
    """
    # A login may be anywhere in what cannot be read.
    if "@" in url:
        raise UsageError("the address of Kafka Connect holds a user or password, which is shown: leave it out")
    if "?" in url or "#" in url:
        raise UsageError("the address of Kafka Connect has a '?' or '#', which may be a secret: leave it out")
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise UsageError(f"{url!r} is no address of Kafka Connect: write http://HOST:PORT")
    return url


def curl(request: str, login: Path | None) -> str:
    """The command of curl that makes a request of Connect, logged in as :class:`ConnectClient` is.

    >>> curl("-X PUT http://connect:8083/connectors/shop/resume", Path("connect.netrc"))
    'curl --netrc-file connect.netrc -X PUT http://connect:8083/connectors/shop/resume'
    """
    return f"curl {'' if login is None else f'--netrc-file {shlex.quote(str(login))} '}{request}"


class ConnectClient:
    """A Connect cluster, or one worker of it.

    Args:
        url: where it listens.
        login: a file with user and password in the form of netrc, as curl reads it; None: it asks for none.
        patience: how long an answer is waited for, in seconds.

    Methods raise UnavailableError without an answer, with ``forbidden`` set where Connect answered and refused us.
    They and the constructor raise UsageError for a ``login`` that cannot be read, or that has nothing of the host.
    """

    def __init__(self, url: str, login: Path | None = None, *, patience: float = 30.0) -> None:
        self.url, self._login, self._patience = demand_connect_url(url).rstrip("/"), login, patience
        self._authorization()

    def cluster_id(self) -> str:
        """The identity of the Kafka cluster that it works for."""
        found = self._object("/")
        named = None if found is None else found.get("kafka_cluster_id")
        if not isinstance(named, str):
            raise self._unlike("/", "it names no Kafka cluster")
        return named

    def config(self, name: str) -> dict[str, str] | None:
        """The configuration of a connector; None: there is no connector of that name."""
        found = self._object(f"/connectors/{quote(name, safe='')}/config", missing=None)
        return None if found is None else {str(key): str(value) for key, value in found.items()}

    def status(self, name: str) -> dict[str, Any] | None:
        """The state of a connector and of its tasks, as Connect has it; None: there is none of that name."""
        path = f"/connectors/{quote(name, safe='')}/status"
        found = self._object(path, missing=None)
        if found is None:
            return None
        tasks = found.get("tasks", [])
        parts = [found.get("connector", {}), *(tasks if isinstance(tasks, list) else [tasks])]
        if not isinstance(tasks, list) or not all(isinstance(one, dict) for one in parts):
            raise self._unlike(path, "it is no state of a connector and its tasks")
        return found

    def positions(self, name: str) -> list[dict[str, Any]]:
        """The positions in its source that Connect has recorded for a connector; none: there are none, or no connector,
        or this Connect, older than 3.5, does not give them.
        """
        path = f"/connectors/{quote(name, safe='')}/offsets"
        found = self._object(path, missing=None)
        offsets = [] if found is None else found.get("offsets")
        if not isinstance(offsets, list) or not all(isinstance(one, dict) for one in offsets):
            raise self._unlike(path, "it is no list of positions")
        return [one["offset"] for one in offsets if isinstance(one.get("offset"), dict)]

    def plugins(self) -> list[dict[str, Any]]:
        """The connectors that it can run, each with ``class`` and ``version``."""
        found = self._ask("GET", "/connector-plugins")
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self._unlike("/connector-plugins", "it is no list of plugins")
        return found

    def create(self, name: str, config: Mapping[str, str]) -> bool:
        """Make a connector; False: there is one of that name, and nothing was changed. Raises as :meth:`alter`."""
        body = {"name": name, "config": {**config, "name": name}}
        try:
            self._ask("POST", "/connectors", body)
        except RefusedError:
            if self.config(name) is None:
                raise
            return False
        return True

    def alter(self, name: str, config: Mapping[str, str]) -> None:
        """Give it this configuration. Raises RefusedError while workers rebalance, UsageError for a wrong one."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/config", {**config, "name": name})

    def stop(self, name: str) -> None:
        """End its tasks; it stays, without any. Raises RefusedError while its tasks still end."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/stop", missing=None)
        found = self.status(name)
        if found is not None and (found.get("tasks") or found.get("connector", {}).get("state") != "STOPPED"):
            raise RefusedError(f"Kafka Connect at {self.url} has not stopped {name!r} yet: its tasks still end")

    def resume(self, name: str) -> None:
        """Start its tasks again. Raises RefusedError while workers rebalance."""
        self._ask("PUT", f"/connectors/{quote(name, safe='')}/resume", missing=None)

    def forget(self, name: str) -> None:
        """Stop it, and have Connect forget its positions. Raises RefusedError while its tasks still end.

        Without its positions a connector of the same name begins as a new one.
        """
        path = f"/connectors/{quote(name, safe='')}"
        self._ask("PUT", f"{path}/stop", missing=None)
        try:
            self._ask("DELETE", f"{path}/offsets", missing=None)
        except UsageError:
            raise RefusedError(
                f"Kafka Connect at {self.url} does not forget the positions of {name!r} yet: its tasks still end"
            ) from None

    def delete(self, name: str) -> None:
        """Remove it, if it is there; Connect keeps its positions. Raises RefusedError while workers rebalance."""
        self._ask("DELETE", f"/connectors/{quote(name, safe='')}", missing=None)

    def _object(self, path: str, *, missing: object = ...) -> dict[str, Any] | None:
        """The JSON object at a path; None only where nothing is there and ``missing`` is None."""
        found = self._ask("GET", path, missing=missing)
        if found is None and missing is None:
            return None
        if not isinstance(found, dict):
            raise self._unlike(path, f"it is no JSON object but {type(found).__name__}")
        return found

    def _unlike(self, path: str, why: str) -> UnavailableError:
        """The error for an answer of something else; the answer is not shown, as a password may be in it."""
        return UnavailableError(
            f"{self.url} does not answer GET {path} as Kafka Connect does ({why}): correct its address, or see its log"
        )

    def _ask(self, method: str, path: str, body: object = None, *, missing: object = ...) -> Any:
        """The answer; ``missing`` where there is nothing at the path."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method, headers={
            "Content-Type": "application/json", "Accept": "application/json",
        })  # fmt: skip
        authorization = self._authorization()
        if authorization is not None:
            # Not to where an answer leads on: that may be another server.
            request.add_unredirected_header("Authorization", authorization)
        try:
            with urllib.request.urlopen(request, timeout=self._patience) as answer:
                text = answer.read(_LONGEST)
        except urllib.error.HTTPError as cause:
            with cause:
                refusal = cause.read(_LONGEST)
            if cause.code == 404 and not _is_of_connect(refusal):
                # A worker that starts or ends answers so, whatever is asked for.
                raise self._unlike(path, "its answer 404 is not Connect's, as while it starts or ends") from None
            if cause.code == 404 and missing is not ...:
                return missing
            raise self._refusal(method, path, cause.code, refusal.decode("utf-8", "replace")) from None
        except (OSError, http.client.HTTPException) as cause:
            why = getattr(cause, "reason", cause)
            raise UnavailableError(
                f"Kafka Connect at {self.url} does not answer ({why}): start it, or correct its address"
            ) from None
        try:
            return parse_json(text) if text else {}
        except ValueError:
            raise UnavailableError(f"{self.url} does not answer as Kafka Connect does: correct its address") from None

    def _authorization(self) -> str | None:
        """The header that logs in, read again each time, as passwords change."""
        if self._login is None:
            return None
        host = urlsplit(self.url).hostname or ""
        # Its errors for a file that is not there, or no text, are those of all files that a user names.
        text_of(self._login, f"the login for Kafka Connect in {self._login}")
        try:
            found = netrc.netrc(self._login).authenticators(host)
        except netrc.NetrcParseError:
            # Its message has words of the file, which may be a password, and often the next line's number.
            raise UsageError(
                f"{self._login} has not the form of netrc: write the line machine {host} login NAME password PASSWORD"
            ) from None
        if found is None:
            raise UsageError(
                f"{self._login} has no login for {host}: add the line machine {host} login NAME password PASSWORD"
            )
        return f"Basic {b64encode(f'{found[0]}:{found[2]}'.encode()).decode()}"

    def _refusal(self, method: str, path: str, code: int, refusal: str) -> Exception:
        what = f"Kafka Connect at {self.url} refuses {method} {path}"
        if code in (401, 403):
            how = "get the right" if code == 403 else (
                "it asks for a login: name a file with one, as login: of the connector" if self._login is None
                else f"correct the login in {self._login}"
            )
            error = UnavailableError(f"{what} (status {code}): {how}")
            error.forbidden = True
            return error
        if code == 409:
            return RefusedError(f"{what}: it is there already, or the workers rebalance. Try it again later")
        if code in (400, 422):
            names = sorted(set(re.findall(r"'([a-z][a-z0-9_.]*)'", refusal)))
            return UsageError(
                f"{what}: a setting is wrong, of these that it names: {', '.join(names) or 'none'}. Its log has its "
                "words, which are not shown, as a password may be in them"
            )
        if code == 404:
            return MissingLogError(f"{what}: there is nothing of that name")
        return UnavailableError(f"{what} (status {code}): see to its log")


def _is_of_connect(answer: bytes) -> bool:
    """Whether an answer with an error is Connect's own: its JSON object has the code."""
    try:
        found = parse_json(answer)
    except ValueError:
        return False
    return isinstance(found, dict) and "error_code" in found


def without_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """A configuration without the values that may be secrets. What only refers to a place outside is kept.

    >>> without_secrets({"database.user": "cdc", "database.password": "x", "ssl.password": "${file:/etc/s:ssl}"})
    {'database.user': 'cdc', 'ssl.password': '${file:/etc/s:ssl}'}
    """
    return {name: value for name, value in config.items() if not _is_secret(name, str(value))}


def _is_secret(name: str, value: str) -> bool:
    named = SECRET.search(name) is not None and not _REFERENCE.fullmatch(value)
    return named or _LOGIN.search(_REFERENCE.sub("", value)) is not None
