"""What of a pipeline can be judged before anything starts: its captures and views, by the row types in their folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.capture.run.manifest import first_manifest, stream_manifest, demand_same_capture
from cdcv2.cli.options.capture_arguments import recipe_of
from cdcv2.cli.options.remap_arguments import capture_request
from cdcv2.cli.options.stream_arguments import stream_topics
from cdcv2.control.instance_fields import InstanceFields, place_mistake
from cdcv2.control.materialization_file import check_view
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields
from cdcv2.control.replay_fields import known_tables
from cdcv2.control.view_targets import demand_own_target
from cdcv2.errors import ForeignStateError, UsageError
from cdcv2.materialize.targets.postgres.tables import check_names
from cdcv2.rows.row_type import RowType


def check_pipeline(pipeline: Pipeline) -> dict[str, Mapping[str, RowType]]:
    """Capture -> the logs that it writes, with the types of their rows. Nothing is made.

    Raises UsageError with the line of what is wrong in a capture or a view. A view of logs that no capture of the
    pipeline writes is judged when these are opened.
    """
    types = {name: row_types(capture) for name, capture in pipeline.captures.items()}
    demand_captured(pipeline)
    for view in pipeline.views.values():
        check_view_of(pipeline, view)
    return types


def demand_captured(pipeline: Pipeline) -> None:
    """Raise UsageError with the line of a capture whose logs another one has begun: its job would refuse them.

    Where cdcv2 owns what it reads or writes, that has to be known before anything is removed that the file does not
    need any more: a topic with its records cannot be made again.
    """
    for capture in pipeline.captures.values():
        source = capture.source
        parts = () if source is None else (source.connector, source.slot, source.publication)
        if capture.owned or any(one is not None and one.owned for one in parts):
            demand_own_logs(capture)


def demand_own_logs(capture: CaptureFields) -> None:
    """Raise UsageError with the line of the capture if the directory of its logs is another's, as by other tables.

    On a remap several may write there; logs in topics are judged by the job. One whose arguments are wrong has no logs.
    """
    arguments = capture.arguments
    if arguments.remap is not None or arguments.into.is_topic:
        return
    try:
        if arguments.stream:
            begun = stream_manifest(stream_topics(arguments))
        else:
            begun = first_manifest(recipe_of(arguments))
    except UsageError:
        return
    try:
        demand_same_capture(Path(arguments.into.name), begun)
    except ForeignStateError as error:
        named = capture.options.get("tables", capture.node)
        named.fail(f"{error}; other tables need another 'into' (docs/operations/tables.md). Nothing was changed")


def mistakes(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The captures, views, replays and instances that cannot run as the file has them: what is wrong, with its line.

    A reader of such a capture is not judged.
    """
    wrong = set[str]()
    for capture in pipeline.captures.values():
        try:
            row_types(capture)
            demand_own_logs(capture)
        except UsageError as error:
            wrong.add(capture.name)
            yield capture.name, str(error)
    for view in pipeline.views.values():
        try:
            if view.capture not in wrong:
                check_view_of(pipeline, view)
        except UsageError as error:
            yield view.name, str(error)
    for replay in pipeline.replays.values():
        try:
            if replay.capture is not None and replay.capture not in wrong:
                known_tables(replay, row_types(pipeline.captures[replay.capture]))
        except UsageError as error:
            yield replay.name, str(error)
    for instance in pipeline.instances.values():
        try:
            check_instance(instance)
        except UsageError as error:
            yield instance.name, str(error)


def check_instance(part: InstanceFields) -> None:
    """Raise UsageError with the line where clients cannot be answered at the place of an instance."""
    fault = place_mistake(part)
    if fault is not None:
        dict(part.node.entries()).get("place", part.node).fail(fault)


def check_view_of(pipeline: Pipeline, view: ViewFields) -> None:
    """Raise UsageError with the line of what is wrong in a view, as far as this shows before it starts.

    The bindings of a view are judged where a capture of the pipeline writes its logs.
    """
    demand_own_target(pipeline, view)
    if view.capture is None:
        return
    tables, target = check_view(view, row_types(pipeline.captures[view.capture])), view.fields["target"]
    if dict(target.entries())["driver"].text() == "postgres":
        for table in tables:
            target.made_by(lambda table=table: check_names(table))  # type: ignore[misc]


def recipes_of(capture: CaptureFields) -> list[DatabaseConnector]:
    """How the databases of a capture are read. Raises UsageError with the line of the capture, or of its option."""
    try:
        if capture.arguments.stream:
            return []
        if capture.arguments.remap is None:
            return [recipe_of(capture.arguments)]
        return [recipe for recipe, _ in capture_request(capture.arguments).databases.values()]
    except UsageError as error:
        capture.fail(error)


def row_types(capture: CaptureFields) -> Mapping[str, RowType]:
    """The logs that a capture writes for its tables, with the types of their rows.

    Raises UsageError with the line of the capture, or of its option.
    """
    try:
        if capture.arguments.stream:
            return {table: one.records.row_type for table, one in stream_topics(capture.arguments).items()}
        if capture.arguments.remap is None:
            return recipe_of(capture.arguments).tables
        asked = capture_request(capture.arguments)
        types = {table: kind for table, (_, kind) in asked.plain.items()}
        for recipe, names in asked.databases.values():
            types |= {names[table]: kind for table, kind in recipe.tables.items()}
        return types
    except UsageError as error:
        capture.fail(error)
