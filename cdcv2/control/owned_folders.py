"""Folders of ours are removed with all that is in them, so nothing of another part of the file may be there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cdcv2.control.pipeline_file import CaptureFields, Pipeline, ViewFields
from cdcv2.errors import UsageError
from cdcv2.store.numbered import path_to_read


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
        yield from ((f"a folder of the view {view.name}", view, one) for one in _written(view))
    for replay in pipeline.replays.values():
        yield f"the output of the replay {replay.name}", replay, replay.output.resolve()


def _folders(capture: CaptureFields) -> list[Path]:
    """Those of its logs, and of its remap."""
    places = (capture.arguments.into, capture.arguments.remap)
    return [Path(one.name).resolve() for one in places if one is not None and not one.is_topic]


def _written(view: ViewFields) -> Iterator[Path]:
    """Its target, and its recovery log; none where they are not read: its job reports that."""
    try:
        named = [dict(view.fields["target"].entries()).get("folder"), view.fields.get("recovery_log")]
        for part in named:
            if part is not None:
                text = part.text() if part.is_text else part.fields("sqlite")["sqlite"].text()
                yield (view.folder / path_to_read(text)).resolve()
    except UsageError:
        return
