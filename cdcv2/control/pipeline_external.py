"""The external state of a pipeline: what is needed, made of its file and the files that it names, and the servers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from cdcv2.capture.connector import DatabaseConnector
from cdcv2.control.materialization_file import check_view
from cdcv2.control.owned_folders import demand_alone
from cdcv2.control.pipeline import CaptureFields, Pipeline, ViewFields
from cdcv2.control.pipeline_check import recipes_of, row_types
from cdcv2.control.pipeline_needs import PipelineNeeds, needs_of
from cdcv2.control.pipeline_servers import PipelineServers, servers_of
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.errors import UsageError
from cdcv2.materialize.protocol.messages import Table

T = TypeVar("T")


class PipelineExternal(NamedTuple):
    """What the jobs of a pipeline need in other systems, and the servers in which it is."""

    needs: PipelineNeeds
    servers: PipelineServers


def external_needs(pipeline: Pipeline) -> PipelineExternal:
    """What a pipeline needs. Raises UsageError with the line of what is wrong in a part that states an owner.

    Mistakes in other parts are left to their jobs, which report them.
    """
    demand_alone(pipeline)
    recipes = {
        one.name: _judged(_states_owner(one), partial(recipes_of, one), list[DatabaseConnector]())
        for one in pipeline.captures.values()
    }
    tables = {
        view.name: _tables(pipeline, view) for view in pipeline.views.values() if view.owned is not None
    }
    servers = servers_of(pipeline)
    known = {name: found for name, found in tables.items() if found is not None}
    return PipelineExternal(needs_of(pipeline, servers, recipes, known), servers)


def new_nonce() -> str:
    """A name for an entry that no other has: eight letters and digits, as names of topics and slots may have."""
    return secrets.token_hex(4)


def _tables(pipeline: Pipeline, view: ViewFields) -> list[Table] | None:
    return None if view.capture is None else check_view(view, row_types(pipeline.captures[view.capture]))


def _states_owner(capture: CaptureFields) -> bool:
    source = capture.source
    ours = source is not None and (
        source.slot.owned or source.publication.owned or (source.connector is not None and source.connector.owned)
    )
    return ours or capture.owned is not None


def _judged(demanded: bool, judge: Callable[[], T], otherwise: T) -> T:
    try:
        return judge()
    except UsageError:
        if demanded:
            raise
        return otherwise


def owned_parts(pipeline: Pipeline) -> Iterator[YamlNode]:
    """The parts of the file that state something as ``owned: yes``."""
    for source in pipeline.sources.values():
        parts = (source.connector, source.slot, source.publication)
        yield from (one.node for one in parts if one is not None and one.owned)
    yield from (capture.node for capture in pipeline.captures.values() if capture.owned)
    yield from (view.node for view in pipeline.views.values() if view.owned)
