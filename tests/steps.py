"""The steps at which tests of captures by commit times place crashes."""

from __future__ import annotations

from cdcv2 import failpoints
from cdcv2.capture.updates_then_statements import TEMP_STATED
from cdcv2.logs.directory import AFTER_LINK, BEFORE_LINK

#: Those of a release; by commit times there is no TEMP.
RELEASE = sorted(name for name in failpoints.KNOWN if name.startswith("release.") and name != TEMP_STATED)
#: Those of a release into directory logs, down to each file.
IN_FILES = sorted([
    *RELEASE, BEFORE_LINK, AFTER_LINK, *(name for name in failpoints.KNOWN if name.startswith("writer.")),
])
