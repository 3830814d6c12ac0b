"""``instances:`` of a pipeline's file: tables that are held by key, each in several processes that answer as one.

::

    instances:
      shop:
        capture: shop                                   the only capture, if it is left out; or logs: {TABLE: FOLDER}
        index: {public.orders: [id], public.customers: [id]}
        replicas: 2                                     1, if it is left out
        history: 1h                                     for how long a finished time can be asked for
        place: shop.sock                                where clients ask; in the state folder, if it is left out
        marker: yes                                     markers may be committed at the source of its capture
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cdcv2.control.part_logs import logs_of_tables
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.instances.run.place import LONGEST_PLACE, place_fault

#: More processes of one thing than a machine has use for are a mistake.
_MOST_REPLICAS = 9
_HISTORY = 3600.0


@dataclass(frozen=True)
class InstanceFields:
    """Tables that are held by key. ``capture``: whose logs; None: ``logs``, as the words of a command line.

    ``index``: table -> the columns of its key. ``place``: where clients ask; ``replicas``: where each replica answers.
    ``history`` is in seconds. ``marker``: whether markers may be committed at the source of the capture.
    """

    name: str
    capture: str | None
    logs: tuple[str, ...]
    index: Mapping[str, tuple[str, ...]]
    place: Path
    replicas: tuple[Path, ...]
    history: float
    marker: bool
    node: YamlNode = field(repr=False)

    @property
    def jobs(self) -> tuple[str, ...]:
        """The names of its jobs: that of its controller, and those of its replicas."""
        return (self.name, *(place.stem for place in self.replicas))

    @property
    def state(self) -> Path:
        """The folder of what their controller keeps."""
        return self.replicas[0].parent / self.name


def instance_fields(
    name: str, part: YamlNode, capture_of: Callable[[YamlNode | None], str], folder: Path,
    under: Callable[[YamlNode], Path],
) -> InstanceFields:
    """The tables that a part of the file has held. Raises UsageError with the line.

    ``capture_of`` gives the name of the capture that a part names, or of the only one; ``folder`` is where sockets go;
    ``under`` reads a path of the file.
    """
    fields = part.fields("index", "capture logs replicas history place marker")
    if "capture" in fields and "logs" in fields:
        fields["capture"].fail("'capture' and 'logs' both name logs: leave one out")
    capture = None if "logs" in fields else capture_of(fields.get("capture"))
    place = under(fields["place"]) if "place" in fields else folder / f"{name}.sock"
    count = _replicas(fields["replicas"]) if "replicas" in fields else 1
    places = tuple(folder / f"{name}-{number}.sock" for number in range(1, count + 1))
    longest = max((place, *places), key=lambda one: len(bytes(one.absolute())))
    if len(bytes(longest.absolute())) > LONGEST_PLACE:
        fields.get("place", part).fail(
            f"{longest} is longer than {LONGEST_PLACE} bytes, which no socket may be: name a shorter state folder"
        )
    index = _index(fields["index"])
    logs = tuple(logs_of_tables(fields["logs"], index, under, "index")) if "logs" in fields else ()
    history = fields["history"].seconds() if "history" in fields else _HISTORY
    marker = "marker" in fields and fields["marker"].one_of("yes", "no", "true", "false") in ("yes", "true")
    if marker and capture is None:
        fields["marker"].fail("a marker is committed at the source of a capture: name the capture, and no logs")
    return InstanceFields(name, capture, logs, index, place, places, history, marker, part)


def demand_own_places(instances: Iterable[InstanceFields]) -> None:
    """Raise UsageError with the line where two processes would answer at one place; a link leads to the same one."""
    taken: dict[Path, InstanceFields] = {}
    for part in instances:
        for place in (part.place, *part.replicas):
            first = taken.setdefault(place.parent.resolve() / place.name, part)
            if first is not part or part.place in part.replicas:
                dict(part.node.entries()).get("place", part.node).fail(
                    f"{place} is a place of the instance {first.name} (line {first.node.line}) already: each process "
                    "answers at its own"
                )


def place_mistake(part: InstanceFields) -> str | None:
    """Why clients cannot be answered at the place of an instance, however it is started; None: they can."""
    if part.place.parent == part.replicas[0].parent and not part.place.parent.exists():
        # That folder is made before they are started.
        return None
    return place_fault(part.place)


def _index(part: YamlNode) -> dict[str, tuple[str, ...]]:
    index = {}
    for table, columns in part.entries():
        names = tuple(columns.texts())
        if not all(names) or not names or len(set(names)) < len(names):
            columns.fail(f"the key of {table} is a list of its columns, each once: write [id]")
        index[table] = names
    if not index:
        part.fail("no table is named: write TABLE: [COLUMN] for each that is asked for by key")
    return index


def _replicas(part: YamlNode) -> int:
    count = part.number(1)
    if count > _MOST_REPLICAS:
        part.fail(f"{count} replicas: 1 to {_MOST_REPLICAS} can be")
    return count
