"""What the views of a file write, by place: two of them into one place would write over each other's rows.

The driver of a target refuses that, too, when the second one starts. Here it shows before anything does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from cdcv2.control.materialization_file import target_of
from cdcv2.control.pipeline import Pipeline, ViewFields
from cdcv2.control.pipeline_servers import DatabaseServer, target_server
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.errors import UsageError


class WrittenPlace(NamedTuple):
    """A table, topic or folder, by a key that is the same for the same one; in words; and the part that names it."""

    key: tuple[str, ...]
    what: str
    part: YamlNode


def demand_own_target(pipeline: Pipeline, view: ViewFields) -> None:
    """Raise UsageError, with both lines, where a view before this one in the file writes what this one writes."""
    mine = {one.key: one for one in _written(view)}
    for other in pipeline.views.values():
        if other.name == view.name:
            return
        for theirs in _written(other):
            if theirs.key in mine:
                same = mine[theirs.key]
                schema = same.what.startswith("table ") and any("." not in one.part.text() for one in (same, theirs))
                same.part.fail(
                    f"the views {other.name} (line {theirs.part.line}) and {view.name} write the same {same.what}: "
                    f"give each its own{', with its schema' if schema else ''}"
                )


def demand_own_targets(pipeline: Pipeline) -> None:
    """Raise UsageError, with both lines, where two views of the file write the same: nothing may be started then."""
    for view in pipeline.views.values():
        demand_own_target(pipeline, view)


def _with_schema(name: str, server: DatabaseServer) -> str:
    """A table's name with its schema: without one it is in the first of the search path, which is usually public."""
    if "." in name:
        return name
    from psycopg.conninfo import conninfo_to_dict

    options = conninfo_to_dict(server.conninfo).get("options") or os.environ.get("PGOPTIONS") or ""
    return f"{name} ({options})" if "search_path" in str(options) else f"public.{name}"


def _written(view: ViewFields) -> Iterator[WrittenPlace]:
    """As far as the file shows it; what cannot be read is named by another check."""
    target = dict(view.fields["target"].entries())
    try:
        # A link leads to the same folder. A database may hold the recovery logs of several, by name.
        for part in (target.get("folder"), view.fields.get("recovery_log")):
            if part is not None and part.is_text:
                folder = part.path(view.folder).resolve()
                yield WrittenPlace(("folder", str(folder)), f"folder {folder}", part)
        server = target_server(view)
        if server is None:
            return
        for binding in view.fields["bindings"].items():
            part, prefix = target_of(binding), target["prefix"].text() if "prefix" in target else ""
            if isinstance(server, DatabaseServer):
                name, what = _with_schema(part.text(), server), "table"
            else:
                name, what = f"{prefix}{part.text()}", "topic"
            yield WrittenPlace((server.address, name), f"{what} {name} ({server.address})", part)
    except UsageError:
        return
