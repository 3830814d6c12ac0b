"""A file that a log, a recovery log or a lake cannot do without is lost or damaged: exit code 4, its path, a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.errors import RefusedError
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from tests.cli.conftest import MARKET, PRICES, Run, write
from tests.cli.test_command_compare import GOOD
from tests.cli.test_command_materialize import LAKE, written

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")
DAMAGE = ["[]", "null", "5", "{", ""]


@pytest.fixture
def kept(run: Run, tmp_path: Path) -> Path:
    """A lake, by its file; beside the log is another one."""
    write(tmp_path / "logs" / "other", *GOOD)
    write(tmp_path / "logs" / "prices", *GOOD)
    path = written(tmp_path, LAKE.replace("prices: prices\n", "prices: logs/prices\n"))
    assert 0 == run("materialize", path).code
    return path


def test_a_log_without_its_description_is_not_passed_over(run: Run, kept: Path) -> None:
    """Its files show that it was one: no command takes it for no log, or for a place for a new one."""
    logs = kept.parent / "logs"
    (logs / "prices" / LOG_FILE).unlink()
    said = [
        run("as-of", logs, "--table", "other"), run("as-of", logs / "prices"), run("verify", logs),
        run("replay", logs), run("materialize", kept), run("compare", kept),
    ]  # fmt: skip
    for one in said:
        assert 4 == one.code and f"{logs / 'prices'} has files of a log (" in one.err, one.err
        assert f"and its {LOG_FILE} is lost: restore that" in one.err
    with pytest.raises(RefusedError, match="is lost: restore that. If it cannot be had again: move the directory away"):
        DirectoryLog(logs / "prices", PRICES, create=True, description=MARKET)


@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_file_is_4_with_its_path(run: Run, kept: Path, text: str) -> None:
    """Of the log, of the recovery log, of the lake; none is taken for an empty one."""
    folder = kept.parent
    found = [max((folder / "recovery").glob("*.json")), max((folder / "lake" / "_manifests").glob("*.json")),
             folder / "logs" / "prices" / LOG_FILE]  # fmt: skip
    for path in found:
        whole = path.read_bytes()
        path.write_text(text, "utf-8")
        said = run("materialize", kept), run("compare", kept)
        for one in said:
            assert 4 == one.code, one.err
            assert str(path) in one.err and "restore it" in one.err, one.err
        path.write_bytes(whole)
    assert (0, 0) == (run("materialize", kept).code, run("compare", kept).code)
