"""How far a command or a job is that keeps running, for the person at the terminal: a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Seconds between two looks at how far it is; between two lines, when it has changed; and when it has not.
LOOK, CHANGED, UNCHANGED = 1.0, 5.0, 60.0


class Lines:
    """Lines for one that follows: when something has changed, but seldom, and now and then that it lives.

    ``say`` takes a line; ``clock`` gives seconds. :meth:`turn` is called as often as there is a turn.
    """

    def __init__(self, say: Callable[[str], object], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._say, self._clock = say, clock
        self._looked = self._shown = float("-inf")
        self._last: str | None = None

    def turn(self, text: Callable[[], str], age: Callable[[], str] = lambda: "") -> None:
        """Print the text that ``text`` makes, if it is time to; it is made only then.

        ``age`` makes what follows it and changes by itself, as how long ago something was.
        """
        now = self._clock()
        if now < self._looked + LOOK or now < self._shown + CHANGED:
            return
        self._looked = now
        line = text()
        if line != self._last or now >= self._shown + UNCHANGED:
            self._say(line + age())
            self._last, self._shown = line, now
