"""The harness asks in pairs, keeps what was measured, and keeps nothing that was not."""

from __future__ import annotations

import csv
import gc
from collections.abc import Iterable
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import harness
from benchmarks.harness import (
    CPU_SECONDS, CPU_WITH_SERVERS, SECONDS, Answer, Case, Plan, Question, Spread, ask, keep, row, surroundings,
)


class Clock:
    """A clock that a case moves by the time that it gives for its work, of which some is work of this process."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 7.0

    def work(self, seconds: float, cpu: float = 0.0) -> None:
        self.now += seconds
        self.cpu += cpu


@pytest.fixture(autouse=True)
def no_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each run garbage is collected: a tenth of a second in a process that holds ten thousand tests."""
    monkeypatch.setattr(gc, "collect", lambda: 0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The harness's own clock, wound by hand."""
    clock = Clock()
    monkeypatch.setattr(harness, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(harness, "process_time", lambda: clock.cpu)
    return clock


def seconds(answers: Iterable[Answer]) -> list[Answer]:
    """The answers in wall time, one for each case."""
    return [answer for answer in answers if answer.measure == SECONDS]


def moody_question(clock: Clock, journal: list[str]) -> Question[list[float]]:
    """A machine that gets slower by the round: the input holds what a unit of work takes in each of them."""

    def run(name: str, units: float) -> Case[list[float]]:
        def work(moods: list[float]) -> None:
            journal.append(name)
            clock.work(units * moods[(len(journal) - 1) // 2])

        return Case(name, work)

    return Question(
        lambda seed, size: [1.0, 2.0, 3.0, 10.0], run("plain", 1), [run("ours", 4)], 12, "rows", rounds=3, warm_up=1
    )


def test_the_ratio_is_taken_pair_by_pair(clock: Clock) -> None:
    """Though the machine is ten times slower in the last round, each pair agrees that ours takes four times as long."""
    plain, ours = seconds(ask("moody", moody_question(clock, [])))

    assert Spread(12.0, 8.0, 40.0) == ours.spread
    assert Spread(4.0, 4.0, 4.0) == ours.ratio
    assert Spread(3.0, 2.0, 10.0) == plain.spread
    assert 1.0 == ours.per_second


def test_the_order_turns_and_the_warm_up_is_not_kept(clock: Clock) -> None:
    """Who goes first is not always the same one; the first round ran, and its 1.0 is in no figure."""
    journal: list[str] = []
    plain, _ = seconds(ask("moody", moody_question(clock, journal)))

    assert ["plain", "ours", "ours", "plain", "plain", "ours", "ours", "plain"] == journal
    assert 2.0 == plain.spread.least


def test_making_ready_and_checking_are_not_timed(clock: Clock) -> None:
    """The question is what the work costs, not what it costs to ask."""
    journal: list[str] = []

    def slow(word: str, seconds: float) -> None:
        journal.append(word)
        clock.work(seconds)

    case = Case[str](
        "only",
        run=lambda given: slow("run", 1),
        reset=lambda given: slow("reset", 50),
        check=lambda given: slow("check", 70),
    )
    question = Question(lambda seed, size: "", case, [], 1, "rows", close=lambda given: journal.append("close"))
    (answer,) = seconds(ask("only", question, Plan(rounds=2, warm_up=0)))

    assert Spread(1.0, 1.0, 1.0) == answer.spread
    assert ["reset", "run", "check"] * 2 + ["close"] == journal


def test_each_case_has_its_cpu_time_too(clock: Clock) -> None:
    """A machine that is busy with other work bends wall time more; the figure has a ratio and a speed as that has."""
    plain, ours = Case[int]("plain", lambda given: clock.work(9, 2)), Case[int]("ours", lambda given: clock.work(9, 3))
    answers = {(a.case, a.measure): a for a in ask("cpu", Question(lambda seed, size: 0, plain, [ours], 6, "rows"))}

    assert Spread(3.0, 3.0, 3.0) == answers["ours", CPU_SECONDS].spread
    assert Spread(1.5, 1.5, 1.5) == answers["ours", CPU_SECONDS].ratio
    assert (3.0, 2.0) == (answers["plain", CPU_SECONDS].per_second, answers["ours", CPU_SECONDS].per_second)


def test_the_cpu_of_servers_is_that_of_the_run_alone(clock: Clock) -> None:
    """What a server does for a reset or a check is not counted; what it does for the run is, beside this process's."""
    spent = [5.0]

    def work(units: float) -> None:
        spent[0] += 2 * units
        clock.work(units, cpu=units)

    def besides(units: float) -> None:
        spent[0] += 100

    cases = [Case(name, work, besides, besides) for name in ("plain", "ours")]
    question = Question(lambda seed, size: 1.5, cases[0], cases[1:], 9, "rows", servers=lambda units: spent[0])
    measured = [answer for answer in ask("served", question) if answer.measure == CPU_WITH_SERVERS]

    assert [(Spread(4.5, 4.5, 4.5), 2.0)] * 2 == [(answer.spread, answer.per_second) for answer in measured]


def test_two_rounds_warm_up_and_five_are_measured() -> None:
    """Unless a question, or who asks, wants it otherwise."""
    journal: list[str] = []
    (answer, _) = ask("rounds", Question(lambda seed, size: 0, Case[int]("only", lambda given: journal.append("")), [],
                                         1, "rows"))

    assert (7, 2, 5) == (len(journal), answer.warm_up, answer.rounds)


def test_a_wrong_result_is_no_answer(clock: Clock) -> None:
    """What was started is ended, and the error goes to the caller."""
    closed: list[str] = []

    def wrong(given: str) -> None:
        raise ValueError("2 rows of 3 arrived")

    case = Case[str]("wrong", lambda given: clock.work(1), check=wrong)
    question = Question(lambda seed, size: "server", case, [], 1, "rows", close=closed.append)

    with pytest.raises(ValueError, match="2 rows of 3"):
        list(ask("wrong", question))

    assert ["server"] == closed


def test_figures_of_a_case_are_kept_beside_the_seconds(clock: Clock) -> None:
    """Bytes per row is an answer too; it has a ratio when the baseline reports it."""
    plain = Case[int]("plain", lambda given: {"bytes": 10.0})
    ours = Case[int]("ours", lambda given: {"bytes": 5.0, "messages": 2.0})
    answers = {(a.case, a.measure): a for a in ask("size", Question(lambda seed, size: 0, plain, [ours], 1, "rows"))}

    assert Spread(0.5, 0.5, 0.5) == answers["ours", "bytes"].ratio
    assert answers["ours", "messages"].ratio is None
    assert answers["ours", "seconds"].ratio is None, "a baseline of no seconds has no ratio"
    assert answers["ours", "bytes"].per_second is None


def test_each_seed_has_its_own_input_and_answer() -> None:
    """The input is a function of seed and size, and made once for all rounds."""
    made: list[tuple[int, int]] = []
    question = Question(lambda seed, size: made.append((seed, size)), Case("only", lambda given: None), [], 100, "rows")
    answers = seconds(ask("seeds", question, Plan(seeds=(7, 8), rounds=2, scale=0.1)))

    assert [(7, 10), (8, 10)] == made
    assert [(7, 10), (8, 10)] == [(answer.seed, answer.size) for answer in answers]


def test_answers_are_appended_with_their_surroundings(tmp_path: Path, clock: Clock) -> None:
    """A figure without date, versions and cores cannot be compared with next year's."""
    answers = seconds(ask("moody", moody_question(clock, [])))
    for _ in range(2):
        keep([row(answer, surroundings(["pytest"])) for answer in answers], tmp_path / "new" / "moody.csv")
    with (tmp_path / "new" / "moody.csv").open(encoding="utf-8") as file:
        kept = list(csv.DictReader(file))

    assert ["plain", "ours", "plain", "ours"] == [cells["case"] for cells in kept]
    assert ("12", "8", "40", "4") == tuple(kept[1][name] for name in ("median", "min", "max", "ratio_median"))
    assert f"pytest {pytest.__version__}" in kept[0]["versions"]
    assert all(kept[0][name] for name in ("date", "python", "cores", "machine"))


def test_other_columns_are_refused(tmp_path: Path) -> None:
    """Appending to a file of another layout would put figures under wrong headings."""
    (tmp_path / "old.csv").write_text("date,seconds\n2026-01-01,3\n", "utf-8")

    with pytest.raises(ValueError, match="move it away"):
        keep([{"date": "2026-01-02", "rows": 3}], tmp_path / "old.csv")

    assert "date,seconds\n2026-01-01,3\n" == (tmp_path / "old.csv").read_text("utf-8")


@pytest.mark.parametrize("name", command.names())
def test_every_question_says_what_it_asks_expects_and_where_the_answer_is(name: str) -> None:
    """A question that cannot be answered wrongly is none, and a figure that cannot be found was measured in vain."""
    sentence, question = command.load(name)
    told = (harness.RESULTS.parent / f"{name}.py").read_text("utf-8")
    table = (harness.RESULTS.parent / "README.md").read_text("utf-8")

    assert sentence.endswith("?")
    assert "Expected:" in told and f"results/{name}.csv" in told
    assert f"`{name}.py`" in table
    assert isinstance(question, Question)


def test_the_command_asks_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One word asks a question at any size; an unknown name is reported, with the known ones."""
    exit_code = command.main(["iter_throughput", "--scale", "0.002", "--rounds", "1", "--results", str(tmp_path)])

    assert 0 == exit_code
    assert "Iter: seconds" in capsys.readouterr().out
    assert 7 == len((tmp_path / "iter_throughput.csv").read_text("utf-8").splitlines())
    with pytest.raises(SystemExit, match="2"):
        command.main(["nothing_like_it"])
    assert "there is no question nothing_like_it; there are: " in capsys.readouterr().err
