"""A missing or an old Java is one line that states what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.errors import UnavailableError
from cdcv2.servers.java import find_java, java_version


def fake_java(home: Path, says: str) -> Path:
    """A program that claims to be Java, in a JAVA_HOME."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "25-ea" 2025-09-16', 25),
        ('java version "1.8.0_402"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "17.0.1"', 17),
    ],
)
def test_the_version_is_read_from_what_java_says(tmp_path: Path, says: str, version: int) -> None:
    """In all the forms that it has had."""
    assert version == java_version(fake_java(tmp_path, says))


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere else where Java is looked for."""
    java = fake_java(tmp_path / "home", 'openjdk version "17"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "other", 'openjdk version "21"').parent))

    assert java == find_java()


def test_an_old_java_is_named_with_its_version_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instead of an UnsupportedClassVersionError in the log of some server."""
    java = fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(UnavailableError) as caught:
        find_java()

    text = str(caught.value)
    assert text.startswith(f"Java 17 or later is missing; '{java}' is version 11: install it (Debian: apt-get install")
    assert "\n" not in text


@pytest.mark.parametrize("home", [None, "/nowhere"])
def test_a_missing_java_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str | None) -> None:
    """Also when JAVA_HOME points to nothing; the line then names it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if home:
        monkeypatch.setenv("JAVA_HOME", home)

    with pytest.raises(UnavailableError, match="^Java 17 or later is missing.*: install it") as caught:
        find_java()

    assert ("/nowhere" in str(caught.value)) == (home is not None)


def test_what_is_no_java_is_said(tmp_path: Path) -> None:
    """Some systems have a placeholder that only advertises."""
    with pytest.raises(UnavailableError, match="does not report its version"):
        java_version(fake_java(tmp_path, "The operation could not be completed. Unable to locate a Java Runtime."))
