"""An instance that answers from a thread of the test's own process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cdcv2.instances.run.alone import LoneInstance
from cdcv2.instances.run.place import InstancePlace


@contextmanager
def served(instance: LoneInstance, path: Path) -> Iterator[Path]:
    """It has read its logs, and answers at a place, as long as the block runs."""
    ended = threading.Event()
    with InstancePlace(path) as place:
        instance.read(ended.is_set)
        place.listen()
        thread = threading.Thread(target=instance.serve, args=(place, ended.is_set))
        thread.start()
        try:
            yield path
        finally:
            ended.set()
            thread.join()
            instance.close()
