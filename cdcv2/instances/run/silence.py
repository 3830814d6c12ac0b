"""Replicas that are connected and answer nothing, in words: a stopped process keeps its connection."""

from __future__ import annotations

from collections.abc import Mapping


def silence_text(silent: Mapping[str, float]) -> str:
    """Replica -> for how many seconds, in words.

    >>> silence_text({"one.sock": 12.34, "two.sock": 7.0})
    'one.sock has not answered for 12 seconds, two.sock has not answered for 7 seconds'
    """
    return ", ".join(f"{name} has not answered for {seconds:.0f} seconds" for name, seconds in silent.items())
