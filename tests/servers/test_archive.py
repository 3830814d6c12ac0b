"""Archives of loaded classes save time where they fit, and do nothing where they do not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError, UsageError
from cdcv2.servers import archive, jars, rehearse
from cdcv2.servers.java import find_java

pytestmark = pytest.mark.integration


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation without archives."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / "var" / "cdcv2"


def small(work: Path, options: object) -> str:
    """A rehearsal in a moment: Kafka's tool that makes a random number."""
    return ran(*options)  # type: ignore[misc]


def pretended(work: Path, options: Sequence[str]) -> str:
    """A rehearsal without a JVM: the archive is a file that has its name."""
    (made,) = (option for option in options if option.startswith("-XX:ArchiveClassesAtExit="))
    Path(made.partition("=")[2]).write_text("an archive")
    return ""


def ran(*options: str) -> str:
    """What a JVM with Kafka's jars prints."""
    command = [find_java(), *options, "-cp", f"{jars.fetch('kafka')}/*", "kafka.tools.StorageTool", "random-uuid"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    return done.stdout


def test_an_archive_is_made_once_and_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes come out of it instead of out of their jar, and the second call finds it there."""
    monkeypatch.setitem(rehearse._REHEARSALS, "kafka", small)
    assert () == archive.flags("kafka")

    made = rehearse.make("kafka")

    assert made == rehearse.make("kafka")
    assert [made.name] == [path.name for path in place.iterdir() if path.suffix == ".jsa"]
    seen = ran(*archive.flags("kafka"), "-Xlog:class+load")
    assert "kafka.tools.StorageTool source: shared objects file (top)" in seen


def test_another_java_or_other_jars_have_another_archive(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that of the old ones is removed, since no program would ever use it again."""
    monkeypatch.setitem(rehearse._REHEARSALS, "kafka", pretended)
    first = rehearse.make("kafka")
    newer = place / "jars"
    newer.mkdir()
    (newer / "kafka-of-tomorrow.jar").touch()
    monkeypatch.setattr(archive, "_jars", lambda program: newer)
    assert () == archive.flags("kafka")

    second = rehearse.make("kafka")

    assert second != first
    assert second.exists() and not first.exists()


def test_what_does_not_fit_is_passed_over_in_silence(place: Path) -> None:
    """A damaged file, or one of another Java, is no reason not to run."""
    made = archive.archive("kafka")
    made.parent.mkdir(parents=True)
    made.write_bytes(b"no archive" * 1000)

    said = ran(*archive.flags("kafka"))

    assert 1 == len(said.splitlines()), said


def test_a_rehearsal_that_fails_is_told_and_leaves_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it printed."""
    monkeypatch.setitem(rehearse._REHEARSALS, "kafka", lambda work, options: "it rained")

    with pytest.raises(UnavailableError, match="the rehearsal of kafka left no archive; it printed:\nit rained"):
        rehearse.make("kafka")

    assert () == archive.flags("kafka")
    assert [".kafka.lock"] == [path.name for path in place.iterdir()]


def test_an_unknown_program_and_a_folder_that_cannot_be_written_are_named(place: Path) -> None:
    """As everything that is asked for wrongly."""
    with pytest.raises(UsageError, match="there is no archive of 'kafak'; there are spark, kafka"):
        archive.flags("kafak")
    place.parent.write_text("a file where the folder would be")
    with pytest.raises(UnavailableError, match="cannot be written"):
        rehearse.make("kafka")
