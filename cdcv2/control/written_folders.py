"""The folders that a view of the file writes, as far as the file names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from cdcv2.control.yaml_lines import YamlNode
from cdcv2.errors import UsageError


def written_folders(fields: Mapping[str, YamlNode], folder: Path) -> Iterator[Path]:
    """A view's target, its recovery log and its quarantine; none where they are not read: its job reports that.

    ``fields``: those of the view; ``folder``: from which its paths are.
    """
    try:
        named = [dict(fields["target"].entries()).get("folder"), fields.get("recovery_log"), fields.get("quarantine")]
        for part in named:
            if part is not None:
                yield (part if part.is_text else part.fields("sqlite")["sqlite"]).path(folder).resolve()
    except UsageError:
        return
