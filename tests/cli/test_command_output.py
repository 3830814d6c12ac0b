"""`cdcv2 output` shows what a supervised job printed; its process need not be there."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.test_command_up import FILE, write


def test_the_command_shows_them(run: Run, tmp_path: Path) -> None:
    """Of one job by its name; another name is refused with the names that there are."""
    (tmp_path / "shop.yaml").write_text(FILE.replace("{recovery}", "recovery"), "utf-8")
    write(tmp_path, 1)
    job = tmp_path / "shop.state" / "jobs" / "copy"
    job.mkdir(parents=True)
    (job / "output.log").write_text("a\nb\nc\n", "utf-8")
    file = tmp_path / "shop.yaml"
    shown, refused = run("output", file, "copy", "--lines", 2), run("output", file, "none")

    assert (0, "b\nc\n", "") == shown
    assert (2, True) == (refused.code, "there is no job 'none'; there are copy" in refused.err)
    assert 2 == run("output", file, "copy", "--lines", -1).code
