"""The jars are those of the lock, however often they are fetched, and at whatever moment it breaks off."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cdcv2.errors import MalformedError, UnavailableError, UsageError
from cdcv2.servers import jars
from cdcv2.servers.jars import Jar, fetch_jars, read_lock

TWO = [
    Jar("org.example", "one", "1.0", hashlib.sha256(b"one-1.0.jar\n").hexdigest()),
    Jar("org.example", "two", "2.0", hashlib.sha256(b"two-2.0.jar\n").hexdigest()),
]
# A Maven that reads the pom, counts its runs, takes its time, and writes jars whose content is their name.
MAVEN = """#!/bin/sh
echo run >> {runs}
for word in "$@"; do case "$word" in
  -DoutputDirectory=*) target="${{word#*=}}";;
  */pom.xml) pom="$word";;
esac; done
{then}
sed -n 's/.*<artifactId>\\([^<*]*\\)<\\/artifactId><version>\\([^<]*\\)<.version><excl.*/\\1-\\2.jar/p' "$pom" |
  while read name; do echo "$name" > "$target/$name"; done
"""


@pytest.fixture
def maven_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only Maven on the PATH is the one above; its runs are counted in this file."""
    return fake_maven(tmp_path, monkeypatch)


def fake_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: str = "sleep 0.2") -> Path:
    """Put the program there; ``then`` is what it does before it writes."""
    runs, program = tmp_path / "runs", tmp_path / "bin" / "mvn"
    program.parent.mkdir(exist_ok=True)
    program.write_text(MAVEN.format(runs=runs, then=then))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return runs


def get(tmp_path: Path) -> Path:
    """Fetch the two, in silence."""
    return fetch_jars("pair", TWO, tmp_path / "cache", lambda line: None)


def leftovers(tmp_path: Path) -> list[str]:
    """What is in the cache besides the set and its lock."""
    names = [path.name for path in (tmp_path / "cache").iterdir()]
    return [name for name in names if not re.match(r"(pair-|\.pair-\w+\.lock$)", name)]


def test_a_set_is_fetched_once(tmp_path: Path, maven_runs: Path) -> None:
    """The second time, nothing is asked of anybody."""
    first = get(tmp_path)

    assert ["one-1.0.jar", "two-2.0.jar"] == sorted(path.name for path in first.iterdir())
    assert first == get(tmp_path)
    assert "run\n" == maven_runs.read_text()
    assert [] == leftovers(tmp_path)


def test_two_processes_fetch_a_set_once(tmp_path: Path, maven_runs: Path) -> None:
    """Test runs start side by side; both end up with the whole set."""
    code = "from tests.servers.test_jars import *; print(get(Path(sys.argv[1])))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
        )
        for _ in range(3)
    ]  # fmt: skip
    said = {process.communicate(timeout=300)[0].strip() for process in processes}

    assert {str(get(tmp_path))} == said
    assert "run\n" == maven_runs.read_text()


@pytest.mark.parametrize("harm", ["changed", "gone"])
def test_a_damaged_set_is_fetched_again(tmp_path: Path, maven_runs: Path, harm: str) -> None:
    """A cache may be damaged at any time: disks fill up, people tidy."""
    jar = get(tmp_path) / "two-2.0.jar"
    if harm == "gone":
        jar.unlink()
    else:
        jar.write_text("something else")

    assert b"two-2.0.jar\n" == (get(tmp_path) / "two-2.0.jar").read_bytes()
    assert "run\nrun\n" == maven_runs.read_text()


def test_other_bytes_than_those_of_the_lock_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mirror that serves something else must not get its code run; and nothing of it stays."""
    fake_maven(tmp_path, monkeypatch, then='echo evil > "$target/one-1.0.jar"; chmod 444 "$target/one-1.0.jar"; exit 0')

    with pytest.raises(MalformedError, match="one-1.0.jar has another SHA-256: not those of jars.lock"):
        get(tmp_path)

    assert [] == [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_without_a_network_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, with Maven's own first complaint."""
    fake_maven(tmp_path, monkeypatch, then="echo '[ERROR] Could not resolve: host unknown'; echo '[ERROR] x'; exit 1")

    with pytest.raises(UnavailableError) as caught:
        get(tmp_path)

    assert (
        f"the jars of set 'pair' are not in '{tmp_path}/cache' and cannot be fetched: mvn reports "
        "'Could not resolve: host unknown' (exit code 1). Try again with a network; once fetched, they are kept"
    ) == str(caught.value)
    assert [] == [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path, maven_runs: Path) -> None:
    """With the variable that moves it."""
    (tmp_path / "cache").write_text("a file in the way")

    with pytest.raises(UnavailableError, match="the cache of jars .*XDG_CACHE_HOME"):
        get(tmp_path)


def test_another_list_is_another_folder(tmp_path: Path, maven_runs: Path) -> None:
    """So that a new lock never runs with what an old one left."""
    other = fetch_jars("pair", TWO[:1], tmp_path / "cache", lambda line: None)

    assert other != get(tmp_path)


def test_the_lock_holds_five_sets_of_full_hashes() -> None:
    """The committed one."""
    lock = read_lock()

    assert ["connect-login", "debezium", "delta", "kafka", "spark"] == sorted(lock)
    assert 5 == len(lock["spark"])
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) for jars in lock.values() for jar in jars)
    assert all(len({jar.file_name for jar in jars}) == len(jars) for jars in lock.values())


@pytest.mark.parametrize("line", ["group:artifact:1.0", "group:artifact " + 64 * "a", "g:a:1 " + 63 * "a"])
def test_a_wrong_line_in_a_lock_is_named(line: str) -> None:
    """With its number."""
    with pytest.raises(MalformedError, match="jars.lock, line 2"):
        read_lock(f"[set]\n{line}")


def test_an_unknown_set_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """The error names those there are; the command exits with 2."""
    with pytest.raises(UsageError, match="no set of jars 'flink'; there are connect-login, debezium, delta"):
        jars.fetch("flink")

    assert 2 == jars.main(["flink"])
    assert "there are connect-login, debezium, delta, kafka, spark" in capsys.readouterr().err
    assert 2 == jars.main([])


@pytest.mark.integration
@pytest.mark.parametrize("fetcher", ["mvn", "jgo"])
def test_both_fetchers_bring_the_same_jars(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fetcher: str
) -> None:
    """With Maven, and where there is none, with jgo: the smallest set, really fetched, printed as --jars takes it."""
    if fetcher == "mvn" and not shutil.which("mvn"):
        pytest.skip("there is no Maven here")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if fetcher == "jgo":
        monkeypatch.setenv("PATH", "")

    assert 0 == jars.main(["spark"])

    out, err = capsys.readouterr()
    assert [jar.file_name for jar in read_lock()["spark"]] == [Path(path).name for path in out.strip().split(",")]
    assert all(Path(path).is_relative_to(tmp_path / "cdcv2" / "jars") for path in out.strip().split(","))
    assert f"with {'Maven' if fetcher == 'mvn' else 'jgo'} (once)" in err
