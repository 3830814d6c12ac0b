"""What contradicts itself is kept with its evidence, holds back what is not proven, and is decided by a person."""

from __future__ import annotations

import hashlib
import json
import shutil
from itertools import islice, permutations
from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.errors import ForeignStateError
from cdcv2.logs import quarantine as looks
from cdcv2.logs.memory import MemoryLog
from cdcv2.logs.named_logs import NamedLog, covered
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.read import LogReader
from cdcv2.protocol.messages import Message, Progress, Updates
from tests.cli.conftest import MARKET, PRICES, Run, append_raw, encoded, price, write

FIRST, ONE, TWO, LAST = price(1, 10, "first"), price(2, 20, "one"), price(3, 30, "two"), price(4, 40, "last")
BEFORE: list[Message] = [Updates([(FIRST, 1, 1)]), Progress([0], [2], {1: 1})]
#: Kind -> the messages, of which two contradict each other at time 5.
CLASHES: dict[str, list[Message]] = {
    "diff": [Updates([(ONE, 5, 1)]), Updates([(ONE, 5, 2)]), Progress([2], [9], {5: 1, 8: 1}), Updates([(LAST, 8, 1)])],
    "count": [Progress([2], [7], {5: 1}), Progress([4], [9], {5: 2, 8: 1}), Updates([(ONE, 5, 1), (LAST, 8, 1)])],
    "surplus": [Progress([2], [9], {5: 1, 8: 1}), Updates([(ONE, 5, 1), (TWO, 5, 1)]), Updates([(LAST, 8, 1)])],
}
#: Kind -> what decides it, and the rows at time 5 with their diffs.
DECISIONS: dict[str, tuple[list[str], dict[str, int]]] = {
    "diff": (["--diff", "2"], {"one": 2}),
    "count": (["--count", "1"], {"one": 1}),
    "surplus": (["--data", json.dumps({"id": 3, "price": 30, "name": "two"}), "--diff", "0"], {"one": 1}),
}
GOLDEN = Path(__file__).parent.parent / "golden" / "quarantine"
each_clash = pytest.mark.parametrize("kind", CLASHES)
PLAN = """
materialization: prices
logs: {prices: prices}
bindings:
  - {log: prices, target: now, key: id}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""


@pytest.fixture
def folder(tmp_path: Path, kind: str) -> Path:
    """The log of a clash, the file of a materialization, and what the quarantine will be."""
    write(tmp_path / "prices", *BEFORE, *CLASHES[kind])
    (tmp_path / "plan.yaml").write_text(PLAN.replace("[id]", "id"), "utf-8")
    return tmp_path


def decided(run: Run, folder: Path, kind: str, *words: str) -> None:
    """Decide the one case that there is, as is right for the kind, or with these words."""
    ((name, _),) = [line.split(maxsplit=1) for line in run("resolve", folder / "q").out.splitlines() if line[0] != " "]
    assert 0 == run("resolve", folder / "q", name, *(words or DECISIONS[kind][0])).code


@each_clash
def test_a_contradiction_names_the_commands_that_help(run: Run, folder: Path, kind: str) -> None:
    """And nothing goes on without them."""
    said = run("replay", folder / "prices")

    assert 3 == said.code
    assert "cdcv2 verify --quarantine DIR" in said.err and "cdcv2 resolve DIR" in said.err


@each_clash
def test_replay_gives_out_what_lies_before_it_and_goes_on_when_it_is_decided(
    run: Run, folder: Path, kind: str
) -> None:
    """Nothing of the time in dispute, and nothing behind it."""
    held = run("replay", folder / "prices", "--json", "--quarantine", folder / "q")
    listed, shown = run("resolve", folder / "q"), run("resolve", folder / "q", "--json")

    assert 3 == held.code and "only what lies before the times in dispute" in held.err
    assert ["first"] == [one["data"]["name"] for one in map(json.loads, held.out.splitlines()) if "data" in one]
    assert {"frontier": [5]} == json.loads(held.out.splitlines()[-1])
    assert 3 == listed.code and "not decided" in listed.out and "time 5" in listed.out
    case = json.loads(shown.out)
    assert (kind, "prices", "market", 5) == tuple(case[key] for key in ("what", "table", "timeline", "time"))
    evidence = run("resolve", folder / "q", case["case"][:5])
    messages = len([one for one in case["positions"] if one is not None])
    assert messages == evidence.out.count("read at ") >= 1
    assert '"lost"' not in evidence.out

    decided(run, folder, kind)
    said = run("replay", folder / "prices", "--json", "--quarantine", folder / "q")

    assert 0 == said.code, said.err
    updates = [one for one in map(json.loads, said.out.splitlines()) if "data" in one]
    assert DECISIONS[kind][1] == {one["data"]["name"]: one["diff"] for one in updates if one["time"] == 5}
    assert ["last"] == [one["data"]["name"] for one in updates if one["time"] == 8]
    assert 3 == run("replay", folder / "prices").code


@each_clash
def test_as_of_and_verify_hold_and_go_on(run: Run, folder: Path, kind: str) -> None:
    """A time behind the dispute is not finished before it is decided."""
    log, quarantine = folder / "prices", ("--quarantine", folder / "q")
    assert (3, 1) == (run("as-of", log, *quarantine).code, run("as-of", log, "--at", 8, *quarantine).code)
    assert 3 == run("verify", log, *quarantine).code
    assert "\n2," not in run("as-of", log, *quarantine).out

    decided(run, folder, kind)

    said = run("as-of", log, "--at", 8, *quarantine)
    assert 0 == said.code, said.err
    assert DECISIONS[kind][1]["one"] == said.out.count("\n2,20,one")
    for full in ((), ("--full",)):
        assert 0 == run("verify", log, *full, *quarantine).code
        assert 3 == run("verify", log, *full).code


@each_clash
def test_a_materialization_holds_and_goes_on_and_is_compared(run: Run, folder: Path, kind: str) -> None:
    """The target never has a row that is in dispute; afterwards it has what was decided, and compare agrees."""
    pytest.importorskip("yaml")
    pytest.importorskip("pyarrow")
    plan, quarantine = folder / "plan.yaml", ("--quarantine", folder / "q")
    held = run("materialize", plan, *quarantine)
    assert 3 == held.code and "complete through 4" in held.out
    assert 0 == run("compare", plan, *quarantine).code

    # A key has one row, once.
    decided(run, folder, kind, *(("--diff", "1") if kind == "diff" else ()))
    said = run("materialize", plan, *quarantine)

    assert 0 == said.code, said.err
    assert "complete through 8" in said.out
    assert (0, 3) == (run("compare", plan, *quarantine).code, run("compare", plan).code)


@each_clash
def test_a_decision_holds_in_every_order_of_the_facts(run: Run, folder: Path, kind: str) -> None:
    """Where a time would be finished before the other fact comes, too."""
    run("verify", folder / "prices", "--quarantine", folder / "q")
    decided(run, folder, kind)
    quarantine = Quarantine(folder / "q")
    for messages in islice(permutations([*BEFORE, *CLASHES[kind]]), 0, None, 7):
        log = MemoryLog("prices", messages)
        log.describe(MARKET)
        reading = LogReader(covered([NamedLog("prices", log, PRICES)]), quarantine=quarantine)
        updates = [update for cut in reading for update in cut.updates.get("prices", [])]

        assert Antichain([9]) == reading.frontier
        assert {} == reading.disputed()
        assert DECISIONS[kind][1] == {row.name: diff for row, time, diff in updates if time == 5}
        assert 3 == len(updates)


@pytest.mark.parametrize("kind", ["diff"])
def test_a_decision_is_of_one_history_and_taken_once(run: Run, folder: Path, kind: str) -> None:
    """Another log of the same name is not judged by it."""
    run("verify", folder / "prices", "--quarantine", folder / "q")
    decided(run, folder, kind)
    case = json.loads(run("resolve", folder / "q", "--json").out)["case"]
    otherwise = run("resolve", folder / "q", case, "--diff", 1)
    assert 4 == otherwise.code and "it was decided before" in otherwise.err
    assert 0 == run("resolve", folder / "q", case, "--diff", 2).code

    other = MemoryLog("prices", [*BEFORE, *CLASHES[kind]])
    reading = LogReader(covered([NamedLog("prices", other, PRICES)]), quarantine=Quarantine(folder / "q"))
    assert Antichain([5]) == list(reading)[-1].upper
    assert 2 == len(Quarantine(folder / "q").cases())


#: What is in dispute twice at time 5: by its count, and by what is there; and by the diff of a row.
TWICE: dict[str, list[Message]] = {
    "count": [Updates([(ONE, 5, 1), (TWO, 5, 1)]), Progress([2], [7], {5: 1}), Progress([2], [7], {5: 2})],
    "diff": [Updates([(ONE, 5, 1)]), Updates([(ONE, 5, 2), (TWO, 5, 1)]), Progress([2], [7], {5: 1})],
}
ROW_ONE = json.dumps({"id": 2, "price": 20, "name": "one"})
#: Kind -> what is decided at its case, and at the case of a surplus to the contrary.
CONTRARY = {
    "count": (["--count", "1"], ["--count", "2"]),
    "diff": (["--data", ROW_ONE, "--diff", "2"], ["--data", ROW_ONE, "--diff", "0"]),
}


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("kind", TWICE)
def test_one_thing_is_decided_once_for_all_cases_that_it_is_of(
    run: Run, tmp_path: Path, kind: str, first: int
) -> None:
    """Two cases of one time cannot be decided otherwise than each other, and each shows what was decided."""
    log, quarantine = write(tmp_path / "prices", *BEFORE, *TWICE[kind]), tmp_path / "q"
    assert 3 == run("replay", log, "--quarantine", quarantine).code
    cases = {one["what"]: one["case"] for one in map(json.loads, run("resolve", quarantine, "--json").out.splitlines())}
    assert {kind, "surplus"} == set(cases)
    turns = [(cases[kind], CONTRARY[kind][0]), (cases["surplus"], CONTRARY[kind][1])]
    (case, words), (other, contrary) = turns[first], turns[1 - first]

    run("resolve", quarantine, case, *words)
    said = run("resolve", quarantine, other, *contrary)

    assert 4 == said.code and "it was decided before" in said.err
    assert run("resolve", quarantine, other, *words).code in (0, 3)
    assert 1 == len(Quarantine(quarantine).decisions())
    assert all("decided: " in run("resolve", quarantine, one).out for one in cases.values())


@pytest.mark.parametrize("kind", ["surplus"])
def test_a_row_is_that_of_the_evidence_however_its_numbers_are_spelled(run: Run, folder: Path, kind: str) -> None:
    """Two decisions about one row cannot pass for two rows; a truth value is no number."""
    run("replay", folder / "prices", "--quarantine", folder / "q")
    case = json.loads(run("resolve", folder / "q", "--json").out)["case"]
    spelled = '{"name": "two", "price": 30.0, "id": 3.0}'

    assert 0 == run("resolve", folder / "q", case, "--data", spelled, "--diff", "0").code
    plainly = json.dumps({"id": 3, "price": 30, "name": "two"})
    said = run("resolve", folder / "q", case, "--data", plainly, "--diff", "1")
    assert 4 == said.code and "it was decided before" in said.err
    (decision,) = Quarantine(folder / "q").decisions()
    assert plainly == json.dumps(decision.row)
    other = run("resolve", folder / "q", case, "--data", '{"id": true, "price": 10, "name": "first"}', "--diff", "0")
    assert 2 == other.code and "is in its evidence" in other.err
    assert 0 == run("replay", folder / "prices", "--quarantine", folder / "q").code


@pytest.mark.parametrize("kind", ["surplus"])
def test_a_case_is_decided_when_nothing_of_it_is_in_dispute(run: Run, folder: Path, kind: str) -> None:
    """Its exit code is that of the readers."""
    log, quarantine = folder / "prices", folder / "q"
    run("replay", log, "--quarantine", quarantine)
    case = json.loads(run("resolve", quarantine, "--json").out)["case"]

    said = run("resolve", quarantine, case, "--count", 1)
    assert 3 == said.code and "still in dispute" in said.out
    assert 3 == run("resolve", quarantine).code == run("replay", log, "--quarantine", quarantine).code

    assert 0 == run("resolve", quarantine, case, "--data", ROW_ONE, "--diff", "0").code
    assert 0 == run("resolve", quarantine).code == run("replay", log, "--quarantine", quarantine).code


@pytest.mark.parametrize("kind", ["diff", "surplus"])
def test_an_update_that_never_happened_leaves_its_time_with_one_less(run: Run, folder: Path, kind: str) -> None:
    """The log counts it, and readers wait: so that is to be decided, too."""
    log, quarantine = folder / "prices", folder / "q"
    run("replay", log, "--quarantine", quarantine)
    case = json.loads(run("resolve", quarantine, "--json").out)["case"]
    said = run("resolve", quarantine, case, "--data", ROW_ONE, "--diff", "0")
    if kind == "surplus":
        assert 0 == said.code
        said = run("resolve", quarantine, case, *DECISIONS[kind][0])

    assert 3 == said.code == run("resolve", quarantine).code and "decide how many with --count, too" in said.out
    assert 1 == run("replay", log, "--quarantine", quarantine).code
    assert 0 == run("resolve", quarantine, case, "--count", 0).code
    assert 0 == run("resolve", quarantine).code == run("replay", log, "--quarantine", quarantine).code


@pytest.mark.parametrize("kind", ["diff"])
def test_an_update_that_no_count_has_is_decided_alone(run: Run, folder: Path, kind: str) -> None:
    """What the log states fits then."""
    write(folder / "more", Progress([0], [9], {5: 1}), Updates([(TWO, 5, 1), (ONE, 5, 1)]), Updates([(ONE, 5, 2)]))
    run("replay", folder / "more", "--quarantine", folder / "q")
    cases = [json.loads(line) for line in run("resolve", folder / "q", "--json").out.splitlines()]
    case = next(one["case"] for one in cases if one["what"] == "diff")
    said = run("resolve", folder / "q", case, "--diff", "0")

    assert 0 == said.code == run("resolve", folder / "q").code, said.out
    assert 0 == run("replay", folder / "more", "--quarantine", folder / "q").code


@pytest.mark.parametrize("kind", ["count"])
def test_two_decisions_that_contradict_each_other_are_refused(run: Run, folder: Path, kind: str) -> None:
    """As an earlier release let them be taken."""
    run("replay", folder / "prices", "--quarantine", folder / "q")
    quarantine = Quarantine(folder / "q")
    (case,) = quarantine.cases()
    for count in (1, 2):
        quarantine.decide(case.decision(count, None, None))
        (path,) = (folder / "q").glob("[0-9a-f]*[0-9a-f].decided")
        path.rename(folder / "q" / f"old-{count}.was")
    for count in (1, 2):
        (folder / "q" / f"old-{count}.was").rename(folder / "q" / f"{case.name}-{count}.decided")

    said = run("replay", folder / "prices", "--quarantine", folder / "q")
    assert 4 == said.code and "two decisions contradict each other" in said.err
    assert 4 == run("resolve", folder / "q").code


@pytest.mark.parametrize("kind", ["surplus"])
def test_what_does_not_decide_a_case_is_refused(run: Run, folder: Path, kind: str) -> None:
    """A row that is not in the evidence would be one that no log has."""
    run("replay", folder / "prices", "--quarantine", folder / "q")
    quarantine = folder / "q"
    case = json.loads(run("resolve", quarantine, "--json").out)["case"]
    stranger = json.dumps({"id": 99, "price": 1, "name": ""})
    for words, reason in {
        ("--count", "-1"): "a number from 0 on",
        ("--diff", "0"): "name the row that has the diff",
        ("--data", stranger, "--diff", "0"): "no update of the row",
        ("--data", "[", "--diff", "0"): "no JSON",
        ("--count", "1", "--diff", "1"): "either the count",
        ("--pass-over",): "with --count or --diff",
    }.items():
        said = run("resolve", quarantine, case, *words)
        assert (2, True) == (said.code, reason in said.err), said
    assert 2 == run("resolve", quarantine, "--count", 1).code
    assert 2 == run("replay", folder / "prices", "--quarantine", folder / "prices").code
    assert 2 == run("resolve", quarantine, "none-of-them").code
    assert 2 == run("resolve", folder / "nowhere").code


def test_bytes_that_are_no_message_are_kept_and_hold_nothing_back(run: Run, tmp_path: Path) -> None:
    """Until it is decided to pass them over they are a reason to look."""
    log, quarantine = write(tmp_path / "prices", *BEFORE), ("--quarantine", tmp_path / "q")
    append_raw(log, b"\xff\x00", encoded(Progress([2], [4])))
    assert 3 == run("replay", log).code
    said = run("replay", log, *quarantine)
    assert 3 == said.code and "complete through 3" in said.err
    assert 3 == run("verify", log, *quarantine).code
    case = json.loads(run("resolve", tmp_path / "q", "--json").out)
    assert ("bytes", "ff00") == (case["what"], case["raw"])
    assert "ff00" in run("resolve", tmp_path / "q", case["case"]).out

    assert 2 == run("resolve", tmp_path / "q", case["case"], "--count", 1).code
    assert 0 == run("resolve", tmp_path / "q", case["case"], "--pass-over").code
    assert (0, 0) == (run("replay", log, *quarantine).code, run("verify", log, *quarantine).code)


def test_bytes_beyond_what_one_run_keeps_are_not_passed_over(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undecided bytes are a reason to look, however much was decided; the next run keeps more of them."""
    monkeypatch.setattr(looks, "MOST", 2)
    log, quarantine = write(tmp_path / "prices", *BEFORE), ("--quarantine", tmp_path / "q")
    append_raw(log, b"\xff\x00", b"\xff\x01", b"\xff\x02", encoded(Progress([2], [4])))
    codes = []
    for _ in range(3):
        codes.append(run("replay", log, *quarantine).code)
        for case in Quarantine(tmp_path / "q").cases():
            run("resolve", tmp_path / "q", case.name, "--pass-over")

    assert [3, 3, 0] == codes
    assert 3 == len(Quarantine(tmp_path / "q").cases())


def test_bytes_are_passed_over_and_not_what_stands_in_their_place(run: Run, tmp_path: Path) -> None:
    """A decision is about these bytes, where they are; as an earlier release named a case, it is found, too."""
    quarantine = ("--quarantine", tmp_path / "q")
    for number, raw in enumerate((b"\xff\x00", b"\xff\x01")):
        folder = tmp_path / "prices"
        shutil.rmtree(folder, ignore_errors=True)
        log = write(folder, *BEFORE)
        append_raw(log, raw)
        assert 3 == run("replay", log, *quarantine).code
        assert 1 + number == len(Quarantine(tmp_path / "q").cases())
        for case in Quarantine(tmp_path / "q").cases():
            run("resolve", tmp_path / "q", case.name, "--pass-over")
        assert 0 == run("replay", log, *quarantine).code

    (path,) = [path for path in (tmp_path / "q").glob("*.json") if "ff01" in path.read_text("utf-8")]
    plain = json.loads(path.read_text("utf-8"))
    of = [plain[key] for key in ("table", "timeline", "what", "time", "row", "positions")]
    old = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:12]
    path.rename(path.with_name(f"{old}.json"))
    assert old == Quarantine(tmp_path / "q").name_of(plain)


@pytest.mark.parametrize("kind", ["diff"])
def test_a_file_of_the_quarantine_that_was_changed_is_refused(run: Run, folder: Path, kind: str) -> None:
    """A decision that somebody has edited is none."""
    run("verify", folder / "prices", "--quarantine", folder / "q")
    decided(run, folder, kind)
    (path,) = (folder / "q").glob("*.decided")
    path.write_text(path.read_text("utf-8").replace('"diff": 2', '"diff": 3'), "utf-8")
    with pytest.raises(ForeignStateError, match="damaged"):
        Quarantine(folder / "q").cases()
    assert 4 == run("replay", folder / "prices", "--quarantine", folder / "q").code


def test_what_an_earlier_release_kept_is_read() -> None:
    """The evidence of each kind, and its decisions."""
    cases = {case.what: case for case in Quarantine(GOLDEN).cases()}

    assert {*CLASHES, "bytes"} == set(cases)
    assert {kind: [str(one) for one in case.decisions] for kind, case in cases.items()} == {
        "diff": ['{"id": 2, "price": 20, "name": "one"} has the diff 2 at time 5'],
        "count": ["there are 1 updates at time 5"],
        "surplus": ['{"id": 3, "price": 30, "name": "two"} never happened'],
        "bytes": ["the bytes are passed over"],
    }
    assert all(case.plain["timeline"] == "market" and case.text for case in cases.values())


def test_a_decision_that_is_taken_while_logs_are_followed_leads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader looks again when nothing comes."""
    monkeypatch.setattr(looks, "LOOK", 0.0)
    log = MemoryLog("prices", [*BEFORE, *CLASHES["diff"]], idle_wait=0)
    quarantine = Quarantine(tmp_path)
    reading = LogReader(covered([NamedLog("prices", log, PRICES)]), follow=True, quarantine=quarantine)
    cuts, reached = reading.cuts(), Antichain([0])
    while (cut := next(cuts)) is not None:
        reached = cut.upper
    assert Antichain([5]) == reached
    (case,) = quarantine.cases()
    quarantine.decide(case.decision(None, None, 1))
    for cut in islice(cuts, 10):
        reached = reached if cut is None else cut.upper
    assert (Antichain([9]), {}) == (reached, reading.disputed())


def test_a_folder_that_is_no_quarantine_is_refused(run: Run, tmp_path: Path) -> None:
    """All of it would be called decided; one in which nothing is yet is named as that."""
    (tmp_path / ".hidden").write_text("")
    empty, plain = run("resolve", tmp_path), run("resolve", tmp_path, "--json")
    (tmp_path / "package.json").write_text('{"version": "1.0.0"}')
    (tmp_path / "readme.txt").write_text("")
    foreign = run("resolve", tmp_path)

    assert (0, f"nothing is in quarantine in {tmp_path}\n", "") == empty and (0, "", "") == plain
    assert (2, "", True) == (foreign.code, foreign.out, f"{tmp_path} is no quarantine: it holds other" in foreign.err)
    assert "(package.json), and no case. Name the folder that a command was given with --quarantine" in foreign.err
    one = run("resolve", tmp_path, "4f1c", "--count", "2")
    assert (2, True) == (one.code, "is no quarantine" in one.err)
