"""`cdcv2 run` is the captures and the views of a pipeline file in one process, with the same logs and targets."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cdcv2.cli.console import part_of, remark
from cdcv2.cli.run import _at_once, _Part
from cdcv2.cli.stop_signals import stop_signals
from cdcv2.control.job_folder import JobFolder
from cdcv2.control.owner import OwnedFolder
from cdcv2.control.pipeline_file import read_pipeline
from cdcv2.control.pipeline_jobs import folder_of
from cdcv2.errors import UnavailableError
from cdcv2.exits import Exit
from tests.cli.conftest import Run
from tests.logs.polling import until

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

SHOP = """
pipeline: shop
sources: {shop: {prefix: clean_full}}
captures:
  all: {from: topics.jsonl.gz}
views:
  copy:
    bindings:
      - {log: public.orders, target: orders, key: [id]}
    target: {driver: lake, folder: lake}
    recovery_log: recovery
  sums:
    bindings:
      - {log: public.order_items, target: per_order, key: [order_id], reduce: {n: count}}
    target: {driver: lake, folder: sums}
    recovery_log: sums-recovery
"""


@pytest.fixture
def shop(captured: Path, tmp_path: Path) -> Path:
    """The file, beside a dump and row types."""
    for name in ("topics.jsonl.gz", "rows"):
        (tmp_path / name).symlink_to(captured / name)
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP, "utf-8")
    return path


def test_it_does_what_the_commands_do(run: Run, shop: Path) -> None:
    """Lines begin with the name of a part; the commands go on with its logs and targets, and it with theirs."""
    first = run("run", shop)
    again = run("run", shop)
    views = [run("materialize", shop, "--view", name) for name in ("copy", "sums")]
    equal = [run("compare", shop, "--view", name).code for name in ("copy", "sums")]

    assert 0 == first.code, first
    through = [line.partition(": complete through 102462312")[0] for line in first.out.splitlines()]
    assert ["all", "copy", "sums"] == through
    assert (0, True) == (again.code, "copy: complete through 102462312; 0 transactions" in again.out)
    assert ([0, 0], [0, 0]) == ([one.code for one in views], equal)
    assert "cdcv2 run: all: " in first.err and "cdcv2 capture" not in first.err


REFUSED = [
    ("{from: topics.jsonl.gz}", "{from: topics.jsonl.gz, into: 'kafka:x.{table}', remap: r}", 5, "in folders", ""),
    ("log: public.orders", "log: public.order", 9, "no capture writes the log 'public.order'", ""),
    ("key: [id]", "key: [ident]", 9, "there is no column 'ident'", ""),
    ("from: topics.jsonl.gz", "from: topics.jsonl.gz, tables: [public.x]", 5, "the row type of public.x is", ""),
    ("from: topics", "from: topics", 5, "a dump does not grow", "--follow"),
    ("{prefix: clean_full}", "{prefix: clean_full}\nkafka: {bootstrap: 'x:1'", 4, "no YAML", ""),
]


@pytest.mark.parametrize(("old", "new", "line", "text", "word"), REFUSED, ids=[one[3] for one in REFUSED])
def test_what_cannot_be_run_is_refused_with_its_line(
    run: Run, shop: Path, old: str, new: str, line: int, text: str, word: str
) -> None:
    """Before anything is made."""
    assert old in SHOP
    shop.write_text(SHOP.replace(old, new, 1), "utf-8")
    before = sorted(shop.parent.iterdir())
    found = run("run", shop, *word.split())

    assert (2, True, True) == (found.code, f"shop.yaml, line {line}" in found.err, text in found.err), found.err
    assert before == sorted(shop.parent.iterdir())


def test_a_part_that_fails_leaves_the_others_what_is_there(run: Run, shop: Path) -> None:
    """The last line and the exit code are its own; the other view is complete."""
    (shop.parent / "lake").write_text("no folder", "utf-8")
    found = run("run", shop)

    assert 4 == found.code, found
    assert "sums: complete through 102462312" in found.out
    assert "lake" in found.err.splitlines()[-1]
    assert 0 == run("compare", shop, "--view", "sums").code


def test_the_logs_of_a_view_may_be_missing_where_its_capture_failed(run: Run, shop: Path) -> None:
    """The error is the capture's, and not that its logs are missing."""
    (shop.parent / "topics.jsonl.gz").unlink()
    found = run("run", shop)

    assert (2, True, "") == (found.code, "topics.jsonl.gz" in found.err, found.out)
    assert not (shop.parent / "lake").exists()


def waiting(name: str, ended: list[str], begun: threading.Event) -> _Part:
    """A part that works until it is to stop."""
    def start() -> Exit:
        begun.set()
        with stop_signals() as stopping:
            until(stopping, f"{name} is to stop")
        ended.append(name)
        return Exit.DONE

    return _Part(name, [], start)


def test_a_failure_ends_the_others_between_two_transactions() -> None:
    """They are asked, and not left in the middle; the error is what the command raises."""
    ended: list[str] = []
    begun = threading.Event()

    def fail() -> Exit:
        until(begun.is_set, "the other has started")
        raise UnavailableError("no server")

    outcomes = _at_once([waiting("a", ended, begun), _Part("b", [], fail)], lambda: False)

    assert (["a"], ["b", "a"]) == (ended, [one.name for one in outcomes])
    assert ["no server", "None"] == [str(one.error) for one in outcomes]


def test_a_part_that_ends_with_a_code_ends_the_others() -> None:
    """As a view whose log is in dispute; a part that is done does not."""
    ended: list[str] = []
    begun = threading.Event()

    def wrong() -> Exit:
        until(begun.is_set, "the other has started")
        return Exit.WRONG

    parts = [waiting("a", ended, begun), _Part("done", [], lambda: Exit.DONE), _Part("b", [], wrong)]
    outcomes = _at_once(parts, lambda: False)

    assert (["a"], {"a": 0, "b": 3, "done": 0}) == (ended, {one.name: one.exit for one in outcomes})


def test_a_signal_ends_all_and_a_view_that_waits_for_its_logs(tmp_path: Path) -> None:
    """It has not started, so it has nothing to end."""
    ended: list[str] = []
    begun = threading.Event()
    late = _Part("late", [tmp_path / "none"], lambda: Exit.WRONG)

    assert ["a"] == [one.name for one in _at_once([waiting("a", ended, begun), late], begun.is_set)]


def test_what_a_part_prints_begins_with_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    """In place of the command that it is elsewhere; its own name stands there once."""
    with part_of("copy"):
        remark("cdcv2 materialize: copy: complete through 4")
        remark("cdcv2 capture: waits: for cdcv2 x: y")
    remark("cdcv2 capture: as ever")

    assert [
        "cdcv2 run: copy: complete through 4", "cdcv2 run: copy: waits: for cdcv2 x: y", "cdcv2 capture: as ever",
    ] == capsys.readouterr().err.splitlines()  # fmt: skip


@pytest.mark.parametrize(("before", "after", "line"), [
    ("{prefix: clean_full}", "{prefix: clean_full, slot: {name: mine, owned: yes}}", 3),
    ("{from: topics.jsonl.gz}", "{from: topics.jsonl.gz, owned: yes}", 5),
    ("{driver: lake, folder: lake}", "{driver: lake, folder: lake}\n    owned: yes", 8),
])  # fmt: skip
def test_what_up_makes_is_refused_with_its_line(
    run: Run, tmp_path: Path, before: str, after: str, line: int
) -> None:
    """It would be made without an entry, and refused by cdcv2 up from then on as that of others."""
    path = tmp_path / "shop.yaml"
    path.write_text(SHOP.replace(before, after), "utf-8")
    said = run("run", path)

    assert said.code == 2 and f"line {line}" in said.err and "start the pipeline with cdcv2 up" in said.err, said.err


@pytest.mark.parametrize("kept", [True, False])
def test_beside_up_or_its_jobs_it_is_refused(run: Run, shop: Path, kept: bool) -> None:
    """A view would be taken over, and the job of the other be held for good."""
    pipeline = read_pipeline(str(shop))
    job = JobFolder(folder_of(pipeline) / "copy")
    with OwnedFolder(pipeline.state, 5.0):
        if not kept:
            job.start(["sleep", "600"], 1, "0")
        owned = run("run", shop) if kept else None
    refused = owned or run("run", shop)
    job.kill()
    named = "process " if kept else "its jobs run: copy"

    assert (Exit.UNABLE, True, True) == (refused.code, named in refused.err, f"cdcv2 down {shop}" in refused.err)
    until(lambda: not job.alive(), "the job ends")
    assert Exit.DONE == run("run", shop).code
