"""A real Chromium, over its own protocol: a pipe of JSON texts. No library and no port is between.

Only what the tests of the page need. A browser is looked for in the path; without one, the tests are left out.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
#: Seconds that an answer, or what a page is waited for, may take.
PATIENCE = 30.0


def browser() -> str | None:
    """The program; None: there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one page. ``events`` has what it reported and no test has taken yet."""

    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        read, their_write = os.pipe()
        their_read, write = os.pipe()

        def hand_over() -> None:
            os.dup2(their_read, 3)
            os.dup2(their_write, 4)

        # The ends are moved first, so that none of them is one of the numbers that the browser expects.
        ends = [os.dup(one) for one in (their_read, their_write)]
        while min(ends) < 5:
            ends = [os.dup(one) for one in ends]
        os.close(their_read)
        os.close(their_write)
        their_read, their_write = ends
        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={self._folder.name}", "--no-first-run", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False,
            preexec_fn=hand_over,
        )  # fmt: skip
        for one in ends:
            os.close(one)
        self._read, self._write = os.fdopen(read, "rb", 0), os.fdopen(write, "wb", 0)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: deque[dict[str, Any]] = deque()
        target = next(one for one in self.ask("Target.getTargets")["targetInfos"] if one["type"] == "page")
        self._session = self.ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._write.close()
        self._read.close()
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """The answer to one command. Raises RuntimeError for an error, or where the browser has ended."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": given}
        if self._session:
            message["sessionId"] = self._session
        self._write.write(json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            more = self._read.read(1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(text))

    def evaluate(self, script: str) -> Any:
        """What a script gives in the page, as JSON."""
        found = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, script: str) -> Any:
        """What a script gives as soon as that is true."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.evaluate(script)):
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body.innerText")
                raise TimeoutError(f"{script} was not true in {PATIENCE:g} s: {shown}")
            time.sleep(0.05)
        return found

    def size(self, width: int, height: int = 900) -> None:
        """A screen so large, as that of a phone where it is narrow."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 600)

    def scheme(self, name: str) -> None:
        """``light`` or ``dark``; smooth scrolling takes time, and is left out."""
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": "reduce"}])

    def open(self, url: str) -> None:
        """Open an address, until all of its document is there."""
        self.ask("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def press(self, key: str, code: int, *, shift: bool = False, text: str = "") -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code,
                     modifiers=8 if shift else 0, **({"text": text} if text and kind == "keyDown" else {}))

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        found = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(found["data"]))

    def taken(self, choose: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """The reports that are chosen, of all so far."""
        self.evaluate("1")
        return [one for one in self.events if choose(one)]


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A browser until the block is left."""
    program = browser()
    assert program is not None
    with Chromium(program) as opened:
        yield opened
