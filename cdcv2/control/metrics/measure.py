"""Looks at topics, remaps and disks, for the metrics. Each server has some seconds; nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from cdcv2.capture.run.memory_file import MEMORY_FILE, MemoryFile
from cdcv2.capture.topics import TopicExtents
from cdcv2.cli.options.capture_arguments import from_kafka, recipe_of
from cdcv2.cli.options.remap_arguments import capture_request
from cdcv2.cli.options.stream_arguments import stream_topics
from cdcv2.connectors.kafka_moments import written_at
from cdcv2.connectors.kafka_ranges import KafkaRanges
from cdcv2.control.disks import disks_of
from cdcv2.control.metrics.model import FolderSpace, HoldAge, Measurements, TopicBacklog
from cdcv2.control.pipeline import CaptureFields, Pipeline
from cdcv2.errors import Cdcv2Error, MissingLogError, UnavailableError
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.logs.remap_kafka import KafkaRemap
from cdcv2.protocol.log import Place, places_from_plain
from cdcv2.protocol.log_address import LogAddress
from cdcv2.store.kafka_client import Client
from cdcv2.timeline.minting import RemapLog, follow, run
from cdcv2.timeline.positions import of_topics, places
from cdcv2.timeline.shared_remap import SharedRemap

#: Seconds that Kafka has for an answer.
PATIENCE = 5.0


def measure(pipeline: Pipeline) -> Measurements:
    """Look once. What cannot be looked at is left out; whether its server answered is in ``reachable``."""
    reachable: dict[tuple[str, str], bool] = {}
    topics: list[TopicBacklog] = []
    holds: dict[str, list[HoldAge]] = {}
    for capture in pipeline.captures.values():
        with_remap = capture.arguments.remap
        shared = None if with_remap is None else _remap(pipeline, with_remap, reachable)
        if shared is not None:
            holds.setdefault(str(with_remap), list(holds_of(str(with_remap), shared)))
        if from_kafka(capture.arguments):
            found = _answer(
                reachable, ("topics", capture.name), lambda: _topics(pipeline, capture, shared)  # noqa: B023
            )
            topics += found or []
    ages = tuple(age for found in holds.values() for age in found)
    spaces = (FolderSpace(str(folder), content, *space) for folder, content, space in disks_of(pipeline))
    return Measurements(time.time(), tuple(topics), ages, tuple(spaces), reachable)


def needs_of(
    capture: str, extents: TopicExtents, captured: Mapping[Place, int], moments: Mapping[Place, float]
) -> list[TopicBacklog]:
    """What each topic has that is not captured. ``captured``: the offsets behind the last that is; else none is."""
    found = []
    for topic in sorted(extents.topics):
        spans = {place: span for place, span in extents.spans.items() if place[0] == topic}
        lost = sum(max(0, low - captured.get(place, 0)) for place, (low, _) in spans.items() if place in captured)
        unread = {place: high - max(low, captured.get(place, 0)) for place, (low, high) in spans.items()}
        oldest = [moments[place] for place, number in unread.items() if number > 0 and place in moments]
        age = extents.retention.get(topic, {}).get("retention.ms", "-1")
        found.append(TopicBacklog(
            capture, topic, sum(number for number in unread.values() if number > 0), lost,
            min(oldest, default=None), None if int(age) < 0 else int(age) / 1000,
        ))  # fmt: skip
    return found


def forgotten(pipeline: Pipeline, capture: CaptureFields) -> dict[str, int]:
    """Topic -> how many of its records were removed before they were captured: of those that have lost some. Of a
    capture on a remap nothing is known. Raises UnavailableError, UsageError, MissingLogError.
    """
    if not from_kafka(capture.arguments) or capture.arguments.remap is not None:
        return {}
    topics = _topics_of(capture)
    captured = of_topics(_captured(capture, None), topics)
    if not captured:
        return {}
    found = needs_of(capture.name, KafkaRanges(_client(pipeline), topics).look(), captured, {})
    return {one.topic: one.lost for one in found if one.lost}


def holds_of(remap: str, shared: SharedRemap) -> Iterator[HoldAge]:
    """What holds a remap; its times are milliseconds since 1970."""
    for of, since in sorted(shared.holds.items()):
        yield HoldAge(remap, shared.called(of), of, since / 1000)


def _answer(
    reachable: dict[tuple[str, str], bool], server: tuple[str, str], question: Callable[[], list[TopicBacklog]]
) -> list[TopicBacklog] | None:
    """What the server answers; None: it does not, or what it has cannot be judged."""
    try:
        answer = question()
    except Cdcv2Error as error:
        reachable[server] = not isinstance(error, UnavailableError)
        return None
    reachable[server] = True
    return answer


def _topics(pipeline: Pipeline, capture: CaptureFields, shared: SharedRemap | None) -> list[TopicBacklog]:
    client, topics = _client(pipeline), _topics_of(capture)
    extents = KafkaRanges(client, topics).look()
    captured = of_topics(_captured(capture, shared), topics)
    first = {
        place: max(low, captured.get(place, 0)) for place, (low, high) in extents.spans.items()
        if high > max(low, captured.get(place, 0)) and "retention.ms" in extents.retention.get(place[0], {})
    }
    return needs_of(capture.name, extents, captured, written_at(client, first))


def _topics_of(capture: CaptureFields) -> frozenset[str]:
    """The topics that a capture reads. Raises UsageError."""
    if capture.arguments.stream:
        return frozenset(one.topic for one in stream_topics(capture.arguments).values())
    if capture.arguments.remap is None:
        return frozenset(recipe_of(capture.arguments).topics())
    return capture_request(capture.arguments).topics


def _captured(capture: CaptureFields, shared: SharedRemap | None) -> dict[Place, int]:
    """From where a capture must read its topics: on a remap what the furthest behind of all that hold it needs."""
    if capture.arguments.remap is None:
        into = capture.arguments.into
        plain = None if into.is_topic else MemoryFile(Path(into.name) / MEMORY_FILE).load()
        return {} if plain is None else places_from_plain(plain["positions"])
    if shared is None or not shared.has_started or not shared.holds:
        return {}
    return places(shared.remap.at(max(shared.remap.since, min(shared.holds.values()))))


def _remap(
    pipeline: Pipeline, address: LogAddress, reachable: dict[tuple[str, str], bool]
) -> SharedRemap | None:
    """What the remap states now; None: it cannot be read, or has not started."""
    shared = SharedRemap()
    try:
        run(_remap_log(pipeline, address), follow(shared))
    except MissingLogError:
        return None
    except Cdcv2Error as error:
        reachable["remap", str(address)] = not isinstance(error, UnavailableError)
        return None
    reachable["remap", str(address)] = True
    return shared if shared.has_started else None


def _remap_log(pipeline: Pipeline, address: LogAddress) -> RemapLog:
    if not address.is_topic:
        return DirectoryRemap(Path(address.name))
    bootstrap, config = pipeline.kafka
    return KafkaRemap(address.name, bootstrap, config_file=config, patience=PATIENCE)


def _client(pipeline: Pipeline) -> Client:
    bootstrap, config = pipeline.kafka
    return Client(bootstrap, config, patience=PATIENCE)
