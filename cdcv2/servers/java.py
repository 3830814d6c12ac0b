"""Where the Java is, and whether it is new enough: asked before anything that would fail strangely without it.

Spark 4 and Kafka 4 need Java 17. A missing or old one is one line with what to do, not a class-version trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cdcv2.errors import UnavailableError

#: the oldest Java that Spark 4 and Kafka 4 run on
OLDEST = 17
#: for a process that lives for minutes: compile fast instead of well, and collect without helpers of one's own, which
#: leaves it most of the processor; with room for what is compiled, of which Java sets apart too little if it is fast,
#: and then looks for what to throw away for as long as it runs
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")

_REMEDY = (
    "install it (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17), or set JAVA_HOME"
)


def find_java() -> Path:
    """The ``java`` to run: that of JAVA_HOME, else the first on PATH; at least version :data:`OLDEST`.

    Raises UnavailableError, with the remedy in its one line, when there is none, or only an older one.
    """
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        place = f" (JAVA_HOME is {home!r}, where there is no bin/java)" if home else ""
        raise UnavailableError(f"Java {OLDEST} or later is missing{place}: {_REMEDY}")
    version = java_version(Path(found))
    if version < OLDEST:
        raise UnavailableError(f"Java {OLDEST} or later is missing; {found!r} is version {version}: {_REMEDY}")
    return Path(found)


def java_version(java: Path) -> int:
    """The major version of this ``java``: 17, or 8 for what calls itself 1.8.

    Raises UnavailableError when it does not run or does not report its version.
    """
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as cause:
        raise UnavailableError(f"{str(java)!r} does not run ({cause}): {_REMEDY}") from cause
    match = re.search(r'version "(?:1\.)?(\d+)', output.stderr + output.stdout)
    if match is None:
        raise UnavailableError(f"{str(java)!r} does not report its version: {_REMEDY}")
    return int(match.group(1))
