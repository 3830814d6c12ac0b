"""A worker of Kafka Connect in memory, behind real HTTP: as much of its REST interface as is used."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class FakeConnect:
    """Connectors by name. ``refusal``: a status, and a text, with which the next requests are answered."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.cluster = "cluster-1"
        self.refusal: tuple[int, str] | None = None
        #: the user and the password without which it refuses all
        self.login: tuple[str, str] | None = None
        #: with what every request is answered, whatever it asks for; None: as Connect does
        self.always: tuple[object] | None = None
        #: the ends of paths for which it answers as a worker that starts or ends: 404, and a page
        self.pages: tuple[str, ...] = ()
        #: the positions of every connector
        self.positions: list[dict[str, object]] = []
        #: connectors whose positions were removed
        self.forgotten: list[str] = []
        #: whether a connector that was stopped still has tasks; those that were stopped
        self.running, self.stopped = False, set[str]()
        self.url = ""
        #: methods and paths, in order; the login of each request
        self.asked: list[tuple[str, str]] = []
        self.authorizations: list[str | None] = []

    def answer(self, method: str, path: str, body: Any) -> tuple[int, object]:
        """The status and the body."""
        self.asked.append((method, path))
        if self.refusal is not None:
            return self.refusal[0], {"error_code": self.refusal[0], "message": self.refusal[1]}
        if self.pages and path.endswith(self.pages):
            return 404, "<html>Not Found</html>"
        if self.always is not None:
            return 200, self.always[0]
        if path == "/":
            return 200, {"version": "4.3.1", "kafka_cluster_id": self.cluster}
        if path == "/connectors":
            if body["name"] in self.configs:
                return 409, {"error_code": 409, "message": f"Connector {body['name']} already exists"}
            self.configs[body["name"]] = body["config"]
            return 201, body
        if path == "/connector-plugins":
            return 200, [{"class": "io.debezium.connector.postgresql.PostgresConnector", "version": "3.7.0.Final"}]
        _, _, name, *rest = path.split("/")
        if method == "PUT" and rest == ["config"]:
            self.configs[name] = body
            return 200, {"name": name}
        if method == "PUT" and rest == ["stop"]:
            missing = {"error_code": 404, "message": f"Connector {name} not found"}
            self.stopped.add(name)
            return (202, None) if name in self.configs else (404, missing)
        if method == "PUT" and rest == ["resume"]:
            self.stopped.discard(name)
            return 202, None
        if method == "DELETE" and rest == ["offsets"]:
            if self.running:
                return 400, {"message": "Connectors must be in the STOPPED state before their offsets can be modified."}
            self.forgotten.append(name)
            return 200, {"message": "reset"}
        if name not in self.configs:
            return 404, {"error_code": 404, "message": f"Connector {name} not found"}
        if method == "DELETE":
            del self.configs[name]
            return 204, None
        if rest == ["offsets"]:
            return 200, {"offsets": [{"partition": {"server": name}, "offset": one} for one in self.positions]}
        if rest == ["status"]:
            state = "STOPPED" if name in self.stopped else "RUNNING"
            tasks = [{"id": 0, "state": "RUNNING"}] if self.running else []
            return 200, {"name": name, "connector": {"state": state}, "tasks": tasks}
        return 200, self.configs[name]


@contextmanager
def fake_connect() -> Iterator[FakeConnect]:
    """One that listens on a free port of 127.0.0.1."""
    fake = FakeConnect()

    class Handler(BaseHTTPRequestHandler):
        """Hands each request over."""

        def do_GET(self) -> None:
            """As all others."""
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            fake.authorizations.append(self.headers.get("Authorization"))
            wanted = "" if fake.login is None else f"Basic {b64encode(':'.join(fake.login).encode()).decode()}"
            if wanted and self.headers.get("Authorization") != wanted:
                status, answer = 401, "User cannot access the resource."
            else:
                status, answer = fake.answer(self.command, self.path, body)
            text = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_PUT = do_DELETE = do_GET

        def log_message(self, *_: object) -> None:
            """Not to the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
