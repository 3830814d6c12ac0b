"""What one reading has put into quarantine holds all that name the folder, also one that does not meet it."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.logs import quarantine as looks
from cdcv2.logs.description import LogDescription
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import MARKET, PRICES, Run, write
from tests.cli.test_command_resolve import BEFORE, DECISIONS, LAST, ONE, PLAN, TWO, decided

#: Kind -> the messages, of which the last contradicts what is finished already: only a full reading meets it.
LATE: dict[str, list[Message]] = {
    "diff": [Updates([(ONE, 5, 1), (LAST, 8, 1)]), Progress([2], [9], {5: 1, 8: 1}), Updates([(ONE, 5, 2)])],
    "count": [Updates([(ONE, 5, 1), (LAST, 8, 1)]), Progress([2], [9], {5: 1, 8: 1}), Progress([4], [9], {5: 2, 8: 1})],
    "surplus": [Updates([(ONE, 5, 1), (LAST, 8, 1)]), Progress([2], [9], {5: 1, 8: 1}), Updates([(TWO, 5, 1)])],
}
each_clash = pytest.mark.parametrize("kind", LATE)


@pytest.fixture
def folder(tmp_path: Path, kind: str) -> Path:
    """A log that looks right unless all of it is held; the file of a materialization beside it."""
    write(tmp_path / "prices", *BEFORE, *LATE[kind])
    (tmp_path / "plan.yaml").write_text(PLAN, "utf-8")
    return tmp_path


@pytest.mark.parametrize("there", [True, False], ids=["late", "in another copy"])
@each_clash
def test_every_command_holds_at_what_only_a_full_reading_has_met(
    run: Run, folder: Path, kind: str, there: bool
) -> None:
    """It comes when its time is finished, or stands in a copy that is not read. All go on when it is decided."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    log, quarantine = folder / "prices", ("--quarantine", folder / "q")
    full = log
    if not there:
        full = log.rename(folder / "other")
        write(log, *BEFORE, *LATE[kind][:2])
    assert [0, 0] == [run("verify", log, *quarantine).code, run("replay", log, *quarantine).code]
    assert 3 == run("verify", f"prices={full}", "--full", *quarantine).code
    before = run("resolve", folder / "q", "--json").out
    case = json.loads(before)["case"]

    said, plain = run("verify", log, *quarantine), json.loads(run("verify", log, "--json", *quarantine).out)
    assert (3, "wrong: so far complete through 4") == (said.code, said.out.splitlines()[-1])
    assert f"in quarantine as {case}: " in said.err
    assert ([5], 3) == (plain["frontier"], plain["tables"]["prices"]["exit"])
    # What is held at its time is met there.
    assert there is not (f"wrong: in quarantine as {case}: " in said.out)
    assert ([] if there else [case]) == [*plain["tables"]["prices"]["quarantined"]]
    said = run("replay", log, "--json", *quarantine)
    assert (3, {"frontier": [5]}) == (said.code, json.loads(said.out.splitlines()[-1]))
    assert "prices is incomplete: time 5 is in dispute" in said.err
    assert (3, 1) == (run("as-of", log, *quarantine).code, run("as-of", log, "--at", 8, *quarantine).code)
    said = run("materialize", folder / "plan.yaml", *quarantine)
    assert 3 == said.code and "complete through 4" in said.out, said.err
    assert 0 == run("compare", folder / "plan.yaml", *quarantine).code
    # A reading that meets less does not replace the evidence.
    assert there or before == run("resolve", folder / "q", "--json").out

    decided(run, folder, kind, *(("--diff", "1") if kind == "diff" else ()))
    assert {0} == {
        run(*words, *quarantine).code for words in (
            ("verify", log), ("verify", log, "--full"), ("replay", log), ("as-of", log, "--at", 8),
            ("materialize", folder / "plan.yaml"), ("compare", folder / "plan.yaml"),
        )
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["diff"])
def test_a_target_that_has_the_time_already_goes_on_and_says_so(run: Run, folder: Path, kind: str) -> None:
    """What was given out is not taken back; that it is in dispute is no success."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    assert 0 == run("materialize", folder / "plan.yaml").code
    run("verify", folder / "prices", "--full", "--quarantine", folder / "q")
    write(folder / "prices", Progress([9], [12]))
    said = run("materialize", folder / "plan.yaml", "--quarantine", folder / "q")

    assert 3 == said.code and "complete through 11" in said.out
    assert "what is at that time was given out before" in said.err


@pytest.mark.parametrize("kind", ["diff"])
@pytest.mark.parametrize("other", [LogDescription(timeline="another"), LogDescription(identity="7f" * 16), None])
def test_a_case_of_another_history_or_table_holds_nothing(
    run: Run, folder: Path, kind: str, other: LogDescription | None
) -> None:
    """Also where the logs have one name."""
    run("verify", folder / "prices", "--full", "--quarantine", folder / "q")
    log = MemoryLog("prices", [*BEFORE, *LATE[kind][:2]])
    log.describe(MARKET if other is None else other)
    table = "prices" if other is not None else "costs"
    reading = LogReader(covered([NamedLog(table, log, PRICES)]), quarantine=Quarantine(folder / "q"))

    assert Antichain([9]) == [*reading][-1].upper
    assert {} == reading.disputed()


@each_clash
@pytest.mark.parametrize("full", [False, True])
def test_a_case_that_others_find_and_decide_meanwhile_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, full: bool
) -> None:
    """A reader that follows holds from then on, and goes on with the decision."""
    monkeypatch.setattr(looks, "LOOK", 0.0)
    log = MemoryLog("prices", BEFORE, idle_wait=0)
    log.describe(MARKET)
    quarantine = Quarantine(tmp_path)
    reading = LogReader(covered([NamedLog("prices", log, PRICES)]), follow=True, quarantine=quarantine)
    cuts, reached, found = reading.cuts(), [], []
    while (cut := next(cuts)) is not None:
        reached.append(cut.upper)
    elsewhere = MemoryLog("prices", [*BEFORE, *LATE[kind]])
    elsewhere.describe(MARKET)
    for _ in LogReader(covered([NamedLog("prices", elsewhere, PRICES)]), keep_all=True, quarantine=quarantine):
        continue
    next(cuts)
    for message in LATE[kind] if full else LATE[kind][:2]:
        log.send(message)
    log.flush()
    for cut in islice(cuts, 10):
        reached += [] if cut is None else [cut.upper]
    assert Antichain([5]) == reached[-1] and 1 == len(reading.disputed()["prices"])

    (case,) = quarantine.cases()
    words = {"diff": (None, None, 1), "count": (1, None, None), "surplus": (None, PRICES.to_plain(TWO), 0)}
    quarantine.decide(case.decision(*words[kind]))
    for cut in islice(cuts, 10):
        found += [] if cut is None else cut.updates.get("prices", [])
        reached += [] if cut is None else [cut.upper]
    assert (Antichain([9]), {}) == (reached[-1], reading.disputed())
    assert [(ONE, 5, 1), (LAST, 8, 1)] == found and "one" in DECISIONS[kind][1]
