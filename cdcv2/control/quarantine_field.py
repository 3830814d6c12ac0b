"""``quarantine:`` of a view, a replay or a materialization: the folder of decisions about contradictions in its logs.

It is what ``--quarantine`` is for a command. All that read the logs for this part apply it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from cdcv2.control.yaml_lines import YamlNode
from cdcv2.logs.quarantine import Quarantine

#: The key, in a part and in its ``spark``.
QUARANTINE = "quarantine"


def quarantine_part(fields: Mapping[str, YamlNode], spark: YamlNode | None) -> YamlNode | None:
    """What a part names, by itself or for its job on ``spark``; None: nothing. Raises UsageError, with the line, where
    both do.
    """
    of_job = None if spark is None else dict(spark.entries()).get(QUARANTINE)
    if of_job is not None and QUARANTINE in fields:
        of_job.fail("'quarantine' is there twice, here and beside 'spark': leave this one out")
    return fields.get(QUARANTINE, of_job)


def quarantine_folder(part: YamlNode, under: Callable[[YamlNode], Path]) -> Path:
    """The folder that a part names. Raises UsageError, with the line, for a file, and for a folder of logs.

    ``under`` reads a path of the file.
    """
    path = under(part)
    if os.path.isfile(path):
        part.fail(f"{path} is a file: name a folder for the quarantine")
    return part.made_by(lambda: Quarantine(path)).folder
