"""What a demonstration prints while it runs: numbered steps, short facts, and checks that it must pass."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cdcv2.errors import Cdcv2Error
from cdcv2.servers.jars import user_cache


class FailedCheck(Exception):
    """A check of the demonstration did not hold; the text names it."""


class Demonstration(Protocol):
    """A demonstration: what it prints, and what it does."""

    story: Story

    def run(self) -> None:
        """All of it. Raises Failed, Cdcv2Error."""


def folder_of(name: str) -> Path:
    """Where a demonstration has its files: in ``.work`` of a checkout that one stands in, or in the user's cache."""
    in_checkout = Path("cdcv2", "demo", Path(__file__).name).is_file()
    return Path(".work") / name if in_checkout else user_cache() / name


def run_demo(demo: Demonstration, folder: Path) -> int:
    """Run a demonstration: 0 when every check holds, 1 when not, 130 after Ctrl-C. Its files stay in ``folder``."""
    try:
        demo.run()
    except KeyboardInterrupt:
        demo.story.end("interrupted; every process that was started has been stopped")
        return 130
    except (FailedCheck, Cdcv2Error) as failure:
        demo.story.end(f"{failure}\n(all files, and the logs of all processes, are in {folder})")
        return 1
    demo.story.end(None)
    demo.story.fact(f"what it wrote is in {folder}")
    return 0


class Story:
    """Prints to standard output, with the seconds since the beginning."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._steps = 0
        self.checks = 0

    @property
    def seconds(self) -> float:
        """How long the story has been running."""
        return time.monotonic() - self._begin

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """One numbered step."""
        self._steps += 1
        print(f"\n{self._steps}. {title}   [{self.seconds:.0f} s]", flush=True)
        yield

    def fact(self, text: str) -> None:
        """A fact, below the step."""
        print(f"   {text}", flush=True)

    def check(self, holds: bool, claim: str) -> None:
        """A claim and whether it holds. Raises Failed when it does not."""
        self.checks += 1
        print(f"   {'ok ' if holds else 'NO '} {claim}", flush=True)
        if not holds:
            raise FailedCheck(claim)

    def end(self, failure: str | None) -> None:
        """The last line."""
        sys.stdout.flush()
        if failure is None:
            print(f"\nAll {self.checks} checks hold, after {self.seconds:.0f} s.", flush=True)
        else:
            print(f"\nFAILED after {self.seconds:.0f} s: {failure}", file=sys.stderr, flush=True)
