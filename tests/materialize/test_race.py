"""Two instances of one materialization race, in every order that chance finds: the one that came later wins."""

from __future__ import annotations

import random

import pytest

from cdcv2.materialize import Driver
from cdcv2.materialize.protocol.fence import LAST, Range
from cdcv2.materialize.protocol.messages import StartCommit, StartedCommit
from cdcv2.testing import Stage, Subject, Workload
from tests import counting, toys


class Traced(toys.Authoritative):
    """Notes when its commit happens; the runtime receives the answer only later."""

    def __init__(self, database: toys.Database, number: int, commits: list[int]) -> None:
        super().__init__(database)
        self.number, self.commits = number, commits

    def start_commit(self, message: StartCommit) -> StartedCommit:
        """Note it."""
        answer = super().start_commit(message)
        self.commits.append(self.number)
        return answer


class TracedSubject(toys.DatabaseSubject):
    """A database that notes which instance has committed."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[int] = []
        self.made_so_far = 0

    def driver(self) -> Driver:
        """One with the next number."""
        self.made_so_far += 1
        return Traced(self.database, self.made_so_far - 1, self.commits)


SUBJECTS: list[type[Subject]] = [TracedSubject, toys.LakeSubject, toys.PushSubject, counting.CounterSubject]


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("block", range(5))
def test_the_fenced_one_never_commits_again(subject: type[Subject], block: int) -> None:
    """125 random interleavings each: once the other has committed, the first one does not; and the view is right."""
    for seed in range(60 * block, 60 * (block + 1)):
        race(subject(), random.Random(seed), seed)


def race(subject: Subject, lottery: random.Random, seed: int) -> None:
    """Two instances, step by step in random turns, until both have ended; then one more, for what is left."""
    stage = Stage(subject, Workload("delta" if subject.delta else "full", seed=seed, cuts=3))
    two = [stage.instance(), stage.instance()]
    running, commits = [0, 1], list[int]()
    while running:
        number = lottery.choice(running)
        for _ in range(lottery.choice([1, 1, 2, 5, 20])):
            before = two[number].runtime.transactions
            going = two[number].step()
            commits += [number] * (two[number].runtime.transactions - before)
            if not going:
                running.remove(number)
                break
    if isinstance(subject, TracedSubject):
        commits = subject.commits
    switches = sum(one != other for one, other in zip(commits, commits[1:]))
    outcomes = {one.outcome for one in two}

    assert switches <= 1, f"seed {seed}: they committed in the order {commits}"
    assert outcomes <= {"done", "fenced"}, f"seed {seed}: {outcomes}"
    # Where only the destination's count is compared, each of two may find that the other has pushed.
    assert "done" in outcomes or isinstance(subject, counting.CounterSubject), f"seed {seed}"
    assert "done" == stage.instance().finish(), f"seed {seed}"
    stage.demand_whole()
    stage.close()


def test_halves_and_the_whole_race() -> None:
    """Three instances whose ranges overlap: the view is right in the end, however they are interleaved."""
    for seed in range(100):
        for subject in (toys.DatabaseSubject(), toys.LakeSubject()):
            lottery = random.Random(seed)
            stage = Stage(subject, Workload(seed=seed, cuts=3))
            middle = lottery.randrange(1, LAST)
            three = [stage.instance(keys) for keys in (Range(), Range(0, middle), Range(middle + 1, LAST))]
            runs = list(three)
            while runs:
                one = lottery.choice(runs)
                if not all(one.step() for _ in range(lottery.choice([1, 4, 30]))):
                    runs.remove(one)

            assert "done" == stage.instance().finish(), f"seed {seed}"
            stage.demand_whole()
            stage.close()
