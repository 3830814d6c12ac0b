"""Instances, replicas and controllers that work in a thread of the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.place import InstancePlace


class Serving(Protocol):
    """What serves at a place until it is to stop."""

    def serve(self, place: InstancePlace, stopping: Callable[[], bool]) -> None: ...


@contextmanager
def serving(served: Serving, path: Path) -> Iterator[Path]:
    """It serves at a place as long as the block runs; what it raises there, the block raises in the end."""
    ended, raised = threading.Event(), list[BaseException]()

    def serve(place: InstancePlace) -> None:
        try:
            served.serve(place, ended.is_set)
        except BaseException as error:
            raised.append(error)

    with InstancePlace(path) as place:
        place.listen()
        thread = threading.Thread(target=serve, args=(place,))
        thread.start()
        try:
            yield path
        finally:
            ended.set()
            thread.join()
    for error in raised:
        raise error


@contextmanager
def served(instance: LoneInstance, path: Path) -> Iterator[Path]:
    """An instance alone, which has read its logs before it answers."""
    instance.read(lambda: False)
    try:
        with serving(instance, path):
            yield path
    finally:
        instance.close()
