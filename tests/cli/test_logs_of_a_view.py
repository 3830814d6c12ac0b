"""A view goes on with the logs that it was made of, by timeline and identities; compare refuses others, too."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError
from cdcv2.logs.description import LogDescription
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.log_json import LOG_FILE
from cdcv2.materialize import Checkpoint, FileRecoveryLog, Range, RecoveryLog, SqliteRecoveryLog
from cdcv2.protocol.messages import Progress, Updates
from cdcv2.views.identity import Provenance, demand_provenance
from tests.cli.conftest import PRICES, Run, price, write
from tests.cli.test_capture_left_out import Site

pytest.importorskip("yaml")
pytest.importorskip("pyarrow")

FILE = """
materialization: shop
logs: {{a: {a}, b: {b}}}
bindings: [{{log: a, target: a, key: [id]}}, {{log: b, target: b, key: [id]}}]
target: {{driver: lake, folder: lake}}
recovery_log: {recovery}
"""


def file(folder: Path, a: str = "t", b: str = "u", recovery: str = "recovery") -> Path:
    """The file, in which logs are called a and b."""
    path = folder / "shop.yaml"
    path.write_text(FILE.format(a=a, b=b, recovery=recovery), "utf-8")
    return path


@pytest.fixture(params=["recovery", "{sqlite: recovery.sqlite}"], ids=["folder", "sqlite"])
def kept(run: Run, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two tables of one row type, in which nothing differs, in a lake."""
    for name in ("t", "u"):
        write(tmp_path / name, Updates([(price(1, 10, "apple"), 3, 1)]), Progress([0], [5], {3: 1}))
    path = file(tmp_path, recovery=request.param)
    assert 0 == run("materialize", path).code
    return path


def more(folder: Path, *names: str) -> None:
    """One more transaction in each log."""
    for number, name in enumerate(names):
        write(folder / name, Updates([(price(7, number, "nut"), 6, 1)]), Progress([5], [8], {6: 1}))


def identity(path: Path) -> str:
    """What a log in a directory is known by."""
    return str(json.loads((path / LOG_FILE).read_text("utf-8"))["identity"])


def recovery(path: Path) -> RecoveryLog:
    """The recovery log that the file names."""
    if "sqlite" in path.read_text("utf-8"):
        return SqliteRecoveryLog("shop", path.parent / "recovery.sqlite")
    return FileRecoveryLog("shop", path.parent / "recovery")


def state(path: Path) -> Any:
    """What the reader has left in the checkpoint."""
    log = recovery(path)
    (checkpoint,) = log.checkpoints()
    log.close()
    return checkpoint.state


def test_logs_whose_names_were_exchanged_are_refused(run: Run, kept: Path) -> None:
    """Rows of one table would go into the other; that their contents are equal so far proves nothing."""
    recovery = kept.read_text("utf-8").split("recovery_log: ")[1].strip()
    folder = kept.parent
    file(folder, "u", "t", recovery)
    for grown in (False, True):
        for command in ("materialize", "compare"):
            said = run(command, kept)
            assert 4 == said.code, (command, grown, said.out)
            assert f"of another log 'a': of {identity(folder / 't')} (now called 'b')" in said.err, said.err
            assert f"and it is {identity(folder / 'u')} now. Give it the logs that it was made of" in said.err
        if not grown:
            more(folder, "t", "u")
    file(folder, recovery=recovery)
    assert (0, 0) == (run("materialize", kept).code, run("compare", kept).code)
    assert {"a": [identity(folder / "t")], "b": [identity(folder / "u")]} == state(kept)["logs"]


def test_a_third_log_of_the_timeline_under_a_name_is_refused(run: Run, kept: Path) -> None:
    """Also where its rows are the same; a copy of the directory is the same log."""
    folder = kept.parent
    write(folder / "v", Updates([(price(1, 10, "apple"), 3, 1)]), Progress([0], [5], {3: 1}))
    text = kept.read_text("utf-8")
    kept.write_text(text.replace("a: t,", "a: v,"), "utf-8")
    for command in ("materialize", "compare"):
        said = run(command, kept)
        assert (4, True) == (said.code, f"and it is {identity(folder / 'v')} now" in said.err), said.err
    shutil.copytree(folder / "t", folder / "moved")
    kept.write_text(text.replace("a: t,", "a: moved,"), "utf-8")
    assert (0, 0) == (run("materialize", kept).code, run("compare", kept).code)


def test_compare_refuses_logs_of_another_timeline(run: Run, kept: Path) -> None:
    """Equal rows at a time of another timeline are no proof."""
    folder = kept.parent
    for name in ("t", "u"):
        shutil.rmtree(folder / name)
        log = DirectoryLog(folder / name, PRICES, create=True, description=LogDescription(timeline="other"))
        log.send(Updates([(price(1, 10, "apple"), 3, 1)]))
        log.send(Progress([0], [5], {3: 1}))
        log.flush()
    for command in ("materialize", "compare"):
        said = run(command, kept)
        assert (4, True) == (said.code, "of the timeline market, and its logs are of other" in said.err), said.err


REFUSED: dict[str, tuple[str, str, str]] = {
    "another log": ("a: t,", "a: u,", "was made of another log 'a'"),
    "a new view": (", key: [id]}]", ", key: [id]}, {log: b, target: c}]",
                   "its view 'c' is new: what came before would be missing or wrong there. Leave it out; or"),
    "another view": ("{log: a, target: a, key: [id]}", "{log: a, target: a}", "its view 'a' was another"),
    "another folder": ("folder: lake", "folder: elsewhere", "has lost commits"),
    "a folder of another": ("materialization: shop", "materialization: other", "RECOVERY"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_one_that_is_refused_leaves_the_one_that_runs_alone(run: Run, kept: Path, what: str) -> None:
    """Whatever can be seen by looking on is refused before anything is taken over."""
    text = kept.read_text("utf-8")
    log = recovery(kept)
    running = log.open(Range(), Antichain([0]))
    old, new, says = REFUSED[what]
    assert old in text
    if says == "RECOVERY":
        # Of a name and a recovery log of its own, so that all there is to see is the lake's manifest.
        says = "holds the lake of 'shop', not of 'other'"
        text = text.replace(text.split("recovery_log: ")[1], "theirs\n")
    kept.write_text(text.replace(old, new), "utf-8")
    said = run("materialize", kept)
    assert (4, True) == (said.code, says in said.err), said.err
    running.demand()
    log.close()
    assert not (kept.parent / "theirs").exists()


def test_a_log_is_moved_by_way_of_a_copy(run: Run, kept: Path) -> None:
    """Named beside the log until something was committed, the copy then stands alone."""
    folder, text = kept.parent, kept.read_text("utf-8")
    write(folder / "copy", Updates([(price(1, 10, "apple"), 3, 1)]), Progress([0], [5], {3: 1}))
    kept.write_text(text.replace("a: t,", "a: [t, copy],"), "utf-8")
    assert 0 == run("materialize", kept).code
    kept.write_text(text.replace("a: t,", "a: copy,"), "utf-8")
    assert 4 == run("materialize", kept).code

    more(folder, "t", "u")
    kept.write_text(text.replace("a: t,", "a: [t, copy],"), "utf-8")
    assert 0 == run("materialize", kept).code
    assert sorted([identity(folder / "t"), identity(folder / "copy")]) == state(kept)["logs"]["a"]
    shutil.rmtree(folder / "t")
    more(folder, "copy")
    kept.write_text(text.replace("a: t,", "a: copy,"), "utf-8")
    assert (0, 0) == (run("materialize", kept).code, run("compare", kept).code)


def test_a_checkpoint_of_before_is_of_any_logs_until_the_next_commit(run: Run, kept: Path) -> None:
    """It states no identities; the commit that follows does."""
    folder = kept.parent
    log = recovery(kept)
    claimed = log.open(Range(), Antichain([0]))
    found = claimed.recovered.checkpoint
    earlier = {name: value for name, value in found.state.items() if name != "logs"}
    claimed.commit(Checkpoint(found.frontier, earlier, found.views), None)
    log.close()
    assert "logs" not in state(kept)
    assert (0, 0) == (run("materialize", kept).code, run("compare", kept).code)
    more(folder, "t", "u")
    assert 0 == run("materialize", kept).code
    assert {"a": [identity(folder / "t")], "b": [identity(folder / "u")]} == state(kept)["logs"]


def test_a_log_that_its_capture_has_written_again_is_the_same(run: Run, tmp_path: Path) -> None:
    """It has its place in the log set; in another place it is another log."""
    site = Site(tmp_path, run)
    site.grow("clicks", "views")
    assert 0 == site.capture(["clicks", "views"]).code
    path = tmp_path / "shop.yaml"
    path.write_text(
        "materialization: shop\nlogs: {a: logs/clicks, b: logs/views}\nbindings: [{log: a, target: a}, "
        "{log: b, target: b}]\ntarget: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8",
    )  # fmt: skip
    assert 0 == run("materialize", path).code
    before = identity(tmp_path / "logs" / "views")
    shutil.rmtree(tmp_path / "logs" / "views")
    site.grow("clicks", "views")
    assert 0 == site.capture(["clicks", "views"]).code
    assert before != identity(tmp_path / "logs" / "views")
    assert (0, 0) == (run("materialize", path).code, run("compare", path).code)
    text = path.read_text("utf-8").replace("clicks", "x").replace("views", "clicks").replace("x", "views")
    path.write_text(text, "utf-8")
    assert (4, 4) == (run("materialize", path).code, run("compare", path).code)


@pytest.mark.parametrize("state", [None, 5, {}, {"logs": 5}, {"timeline": None}])
def test_what_a_checkpoint_does_not_state_is_not_compared(state: Any) -> None:
    """As one by an earlier release, or a program of its own."""
    demand_provenance("shop", Provenance("x", {"a": ["1"]}), Checkpoint(Antichain([7]), state))


def test_a_log_that_states_no_identity_any_more_is_another() -> None:
    """And one that is not read now may be what it likes."""
    checkpoint = Checkpoint(Antichain([7]), Provenance("x", {"a": ["1"], "b": ["2"]}).to_plain())
    demand_provenance("shop", Provenance("x", {"b": ["3", "2"]}), checkpoint)
    with pytest.raises(ForeignStateError, match="another log 'a': of 1, and it is one that states no identity now"):
        demand_provenance("shop", Provenance("x", {"a": []}), checkpoint)


def test_a_second_capture_of_the_same_database_is_not_what_the_view_was_made_of(
    run: Run, captured: Path, tmp_path: Path
) -> None:
    """Its times are positions of the same WAL, and its logs may be of another length: refused, whatever is asked."""
    shutil.copytree(captured / "logs", tmp_path / "logs")
    words = ["capture", captured / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", captured / "rows"]
    run(*words, "--into", tmp_path / "second", "--tables", "public.order_items")
    path = tmp_path / "shop.yaml"
    path.write_text(
        "materialization: shop\nlogs: logs\nbindings: [{log: public.order_items, target: items}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8",
    )  # fmt: skip
    assert (0, 0) == (run("materialize", path).code, run("compare", path).code)
    path.write_text(path.read_text("utf-8").replace("logs: logs", "logs: second"), "utf-8")
    for words in (["materialize", path], ["compare", path], ["compare", path, "--at", str(2**62)]):
        said = run(*words)
        assert (4, True) == (said.code, "Give it the logs that it was made of" in said.err), said.err
