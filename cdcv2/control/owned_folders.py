"""Folders of ours are removed with all that is in them, so nothing of another part of the file may be there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cdcv2.control.pipeline import CaptureFields, Pipeline
from cdcv2.control.written_folders import written_folders


def demand_alone(pipeline: Pipeline) -> None:
    """Raise UsageError, with the line, for a folder of a capture's own (``owned: yes``) that holds what others keep."""
    kept = list(_kept(pipeline))
    for capture in pipeline.captures.values():
        for folder in _folders(capture) if capture.owned else ():
            for what, of, path in kept:
                if of is not capture and path.is_relative_to(folder):
                    capture.into.fail(
                        f"{folder} is removed with all that is in it, as the capture {capture.name} owns it (owned: "
                        f"yes), and {what} is in it, {path}: give each a folder of its own"
                    )


def _kept(pipeline: Pipeline) -> Iterator[tuple[str, object, Path]]:
    """What the file keeps in folders: in words, which part keeps it, and where."""
    yield "the pipeline's file", None, pipeline.path.resolve()
    yield "the state folder", None, pipeline.state.resolve()
    yield "the folder of row types", None, pipeline.rows.resolve()
    for capture in pipeline.captures.values():
        yield from ((f"a folder of the capture {capture.name}", capture, one) for one in _folders(capture))
    for view in pipeline.views.values():
        yield from ((f"a folder of the view {view.name}", view, one)
                    for one in written_folders(view.fields, view.folder))
    for replay in pipeline.replays.values():
        yield f"the output of the replay {replay.name}", replay, replay.output.resolve()
        if replay.quarantine is not None:
            yield f"the quarantine of the replay {replay.name}", replay, replay.quarantine.resolve()


def _folders(capture: CaptureFields) -> list[Path]:
    """Those of its logs, and of its remap."""
    places = (capture.arguments.into, capture.arguments.remap)
    return [Path(one.name).resolve() for one in places if one is not None and not one.is_topic]
