"""The jars of ``jars.lock``: fetched once, checked always, the same ones everywhere.

A *set* is a list of Maven coordinates, each with the SHA-256 of its jar; nothing is resolved, as every jar is named.
Maven fetches where ``mvn`` is, with the mirrors and proxies that its user has set up; elsewhere the pure Python
``jgo`` does. A set lies in the user's cache, in a folder named by the hash of its list, so that an old one is never
mistaken for a new one; it appears there whole or not at all, and two processes that want it fetch it once.

``python -m cdcv2.servers.jars spark`` prints the paths as ``spark-submit --jars`` takes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from cdcv2.errors import Cdcv2Error, MalformedError, MissingExtraError, UnavailableError, UsageError


@dataclass(frozen=True)
class Jar:
    """One jar of the lock: its coordinate and what its bytes hash to."""

    group: str
    artifact: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """The name that Maven gives to the file."""
        return f"{self.artifact}-{self.version}.jar"

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"


def read_lock(text: str | None = None) -> dict[str, tuple[Jar, ...]]:
    """The sets of a lock, by name; of the committed ``jars.lock`` when no text is given.

    >>> read_lock("[one]\\norg.example:thing:1.0 " + 64 * "a")["one"][0].file_name
    'thing-1.0.jar'

    Raises MalformedError naming the line.
    """
    if text is None:
        text = resources.files("cdcv2.servers").joinpath("jars.lock").read_text("utf-8")
    sets: dict[str, list[Jar]] = {}
    name = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition("#")[0].strip()
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1]
            sets[name] = []
        elif line:
            coordinate, _, sha256 = line.partition(" ")
            parts = coordinate.split(":")
            if name is None or len(parts) != 3 or len(sha256) != 64:
                raise MalformedError(f"jars.lock, line {number}: {line!r} is not 'group:artifact:version sha256'")
            sets[name].append(Jar(parts[0], parts[1], parts[2], sha256))
    return {name: tuple(jars) for name, jars in sets.items()}


def user_cache() -> Path:
    """Where what can be made again is kept: ``cdcv2`` in XDG_CACHE_HOME, or in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cdcv2"


def cache_folder() -> Path:
    """Where the sets are kept: ``jars`` in :func:`user_cache`."""
    return user_cache() / "jars"


def fetch(name: str, *, report: Callable[[str], None] | None = None) -> Path:
    """The folder with the jars of the set ``name``; fetched now if it is not in the cache.

    Every jar's SHA-256 is checked on every call (some 0.1 s), and a damaged set is fetched again. ``report`` gets
    lines about the progress of a fetch; by default they go to standard error.

    Raises UsageError for an unknown name, MalformedError when fetched bytes are not those of the lock, and
    UnavailableError when they cannot be had; the cache is then as before.
    """
    sets = read_lock()
    if name not in sets:
        raise UsageError(f"there is no set of jars {name!r}; there are {', '.join(sorted(sets))}")
    return fetch_jars(name, sets[name], cache_folder(), report or _to_stderr)


def fetch_jars(name: str, jars: Sequence[Jar], cache: Path, report: Callable[[str], None]) -> Path:
    """As :func:`fetch`, for any list of jars and any folder. Raises MalformedError and UnavailableError as it does."""
    listing = "\n".join(f"{jar} {jar.sha256}" for jar in jars)
    folder = cache / f"{name}-{hashlib.sha256(listing.encode()).hexdigest()[:12]}"
    if _damage(folder, jars) is None:
        return folder
    with _locked(cache, folder.name):
        # The holder of the lock before us may have fetched it.
        damage = _damage(folder, jars)
        if damage is None:
            return folder
        fresh = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=cache))
        try:
            _bring(name, jars, fresh, report)
            wrong = _damage(fresh, jars)
            if wrong is not None:
                raise MalformedError(f"the jars of set {name!r} were fetched, but {wrong}: not those of jars.lock")
            if folder.exists():
                report(f"the cached set {name!r} is replaced: {damage}")
                shutil.rmtree(folder)
            fresh.chmod(0o755)
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return folder


def paths(name: str) -> list[Path]:
    """The jars of the set, in the lock's order; fetched when needed. Errors as in :func:`fetch`."""
    folder = fetch(name)
    return [folder / jar.file_name for jar in read_lock()[name]]


def comma_list(name: str) -> str:
    """The jars of the set as ``spark-submit --jars`` and ``spark.jars`` take them."""
    return ",".join(map(str, paths(name)))


def _damage(folder: Path, jars: Sequence[Jar]) -> str | None:
    """What is wrong with a folder that should hold exactly these jars; None if nothing is."""
    for jar in jars:
        path = folder / jar.file_name
        if not path.is_file():
            return f"{path.name} is missing"
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != jar.sha256:
                return f"{path.name} has another SHA-256"
    return None


@contextmanager
def _locked(cache: Path, name: str) -> Iterator[None]:
    try:
        cache.mkdir(parents=True, exist_ok=True)
        file = (cache / f".{name}.lock").open("w")
    except OSError as cause:
        raise UnavailableError(
            f"the cache of jars {str(cache)!r} cannot be written ({cause.strerror}): make it writable, or set "
            "XDG_CACHE_HOME to a folder that is"
        ) from cause
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)  # freed by close, and by the end of the process
        yield


def _bring(name: str, jars: Sequence[Jar], target: Path, report: Callable[[str], None]) -> None:
    maven = shutil.which("mvn")
    report(f"fetching the {len(jars)} jars of set {name!r} with {'Maven' if maven else 'jgo'} (once)")
    try:
        if maven:
            _with_maven(maven, jars, target, report)
        else:
            _with_jgo(jars, target, report)
    except UnavailableError as cause:
        raise UnavailableError(
            f"the jars of set {name!r} are not in {str(target.parent)!r} and cannot be fetched: {cause}. "
            "Try again with a network; once fetched, they are kept"
        ) from cause
    report(f"fetched set {name!r}")


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>cdcv2</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging><dependencies>
{}
</dependencies></project>
"""
# Every jar is named, so none may bring others: connectors would ask for siblings that were never published.
_DEPENDENCY = (
    "<dependency><groupId>{0.group}</groupId><artifactId>{0.artifact}</artifactId><version>{0.version}</version>"
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
)


def _with_maven(maven: str, jars: Sequence[Jar], target: Path, report: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="cdcv2-jars-") as work:
        pom = Path(work, "pom.xml")
        pom.write_text(_POM.format("\n".join(map(_DEPENDENCY.format, jars))), "utf-8")
        # -U: Maven would remember for a day that it once failed to find a jar.
        command = [maven, "-B", "-U", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
        complaints: list[str] = []
        count = 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=work) as mvn:
            for line in mvn.stdout or ():
                if "Downloaded from" in line and ".jar" in line:
                    count += 1
                    if count % 10 == 0:
                        report(f"  {count} files")
                elif "ERROR" in line:
                    complaints.append(line.partition("]")[2].strip())
        if mvn.returncode:
            raise UnavailableError(f"mvn reports {(complaints or ['nothing'])[0]!r} (exit code {mvn.returncode})")


def _with_jgo(jars: Sequence[Jar], target: Path, report: Callable[[str], None]) -> None:
    try:
        from jgo.maven import MavenContext
    except ImportError as cause:
        raise MissingExtraError("fetching jars needs jgo, or Maven", "spark") from cause
    with tempfile.TemporaryDirectory(prefix="cdcv2-jars-") as work:
        # A repository of its own: in a shared one, a download that was cut short would pass for a jar.
        context = MavenContext(repo_cache=Path(work), timeout=60)

        def bring(jar: Jar) -> None:
            try:
                found = context.project(jar.group, jar.artifact).at_version(jar.version).artifact().resolve()
            except (OSError, RuntimeError) as cause:  # a failed request is an OSError
                raise UnavailableError(f"jgo cannot get {jar} ({type(cause).__name__})") from cause
            shutil.move(found, target / jar.file_name)

        with ThreadPoolExecutor(4) as pool:
            for count, _ in enumerate(pool.map(bring, jars), 1):
                if count % 10 == 0:
                    report(f"  {count} of {len(jars)}")


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Print the jars of the one set that is named, comma-separated; 0, or 2 when that cannot be done."""
    if len(arguments) != 1:
        print(f"usage: python -m cdcv2.servers.jars {'|'.join(read_lock())}", file=sys.stderr)
        return 2
    try:
        print(comma_list(arguments[0]))
    except Cdcv2Error as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
