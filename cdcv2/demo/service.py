"""A process that dies and is started again, as an operator would do it; and what each life brought about."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from typing import NamedTuple, Self

from cdcv2.demo.story import FailedCheck
from cdcv2.servers.processes import Child, poll_until

#: seconds without any move after which something is broken, and not only slow
PATIENCE = 240.0


def arrives(condition: Callable[[], bool], moves: Callable[[], object], *, pause: float = 0.05) -> bool:
    """Whether ``condition`` comes to hold while, again and again, something moves; ``pause``: as of ``poll_until``."""
    at = moves()
    while poll_until(lambda: condition() or moves() != at, PATIENCE, pause=pause):
        if condition():
            return True
        at = moves()
    return False


class Life(NamedTuple):
    """How far the work was when the process was started, and when it had died."""

    start: int
    end: int


class Service:
    """One process at a time; left, it is stopped.

    Args:
        name: what to call it.
        launch: starts it, with what is added to its environment.
        moves: how far it has come, in steps that only grow, as the frontiers that were seen.
        crash: the step (:mod:`cdcv2.failpoints`) at which its first life ends, by SIGKILL; ``name:3``: at the third
        time.
    """

    def __init__(
        self,
        name: str,
        launch: Callable[[Mapping[str, str]], Child],
        moves: Callable[[], int],
        *,
        crash: str | None = None,
    ) -> None:
        self.name, self._launch, self._moves, self._crash = name, launch, moves, crash
        self._child: Child | None = None
        self._start = 0
        #: the lives that ended before their time
        self.lives: list[Life] = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *how: object) -> None:
        self.child.stop()

    @property
    def child(self) -> Child:
        """The process of this life. Raises Failed before the first one."""
        if self._child is None:
            raise FailedCheck(f"{self.name} was never started")
        return self._child

    @property
    def moves(self) -> int:
        """How far it has come."""
        return self._moves()

    def start(self) -> Self:
        """Begin a life."""
        self._start = self._moves()
        placed = {"CDCV2_CRASH": self._crash, "CDCV2_CRASH_HOW": "kill"} if self._crash is not None else {}
        self._child, self._crash = self._launch(placed), None
        return self

    def wait_moved(self, steps: int = 3) -> None:
        """Wait until this life has brought the work so many steps further. Raises UnavailableError."""
        while (at := self._moves()) < self._start + steps:
            what = f"it has brought the work another step further than {at - self._start}"
            self.child.wait_until(lambda: self._moves() > at, what, PATIENCE)

    def kill9(self) -> None:
        """SIGKILL for all of its processes, in mid-run: when this life has brought the work further."""
        self.wait_moved()
        self.child.kill9()
        self._keep()

    def wait_dead(self) -> int:
        """Wait until it has ended by itself; its exit code. Raises UnavailableError."""
        code = self.child.wait(PATIENCE)
        self._keep()
        return code

    def _keep(self) -> None:
        self.lives.append(Life(self._start, self._moves()))

    def stop(self) -> int:
        """Have it end (SIGTERM), and let it finish what it is at; its exit code. Raises UnavailableError."""
        self.child.signal(signal.SIGTERM)
        return self.child.wait(PATIENCE)
