"""A job is started once, tried again as its end allows, and held where a retry can only fail: over any history.

The truth is a list of what happened, judged from its beginning each time; the code under test keeps a few numbers.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcv2.control.supervision import (
    DEATHS, MENDED_AT_MOST, PATIENCE, SETTLED, SOON_AT_MOST, JobAct, JobEnd, JobObservation, JobRequest, JobState,
    JobStatus, decide, moved_at, released,
)
from cdcv2.errors import MalformedError
from cdcv2.retries import Retry

ONE = JobRequest("one")


def done(status: JobStatus, end: JobEnd | None, progress: str | None = None, now: float = 0.0) -> JobStatus:
    """The status after a run that was seen to end so."""
    running = status._replace(state=JobState.RUNNING, run=status.run + 1, command="one")
    return decide(ONE, running, JobObservation(False, running.run, "one", end, progress), now)[1]


def test_a_job_that_reported_never_is_held_until_its_command_changes() -> None:
    """A retry of it can only fail again: no clock starts it; another command, or a person, does."""
    status = done(JobStatus(), JobEnd(4, Retry.NEVER, "a second snapshot", "start over"))
    seen = JobObservation(False, status.run, "one", None)

    assert (status.state, status.reason, status.remedy) == (JobState.HELD, "a second snapshot", "start over")
    assert decide(ONE, status, seen, 1e12)[0] is JobAct.NOTHING
    assert decide(JobRequest("other"), status, seen, 1.0)[0] is JobAct.START
    assert decide(ONE, released(status), seen, 1.0)[0] is JobAct.START


def test_five_ends_without_progress_hold_a_job() -> None:
    """A program that dies at its start would die for ever; one that comes further each time is worth a retry."""
    status, moving = JobStatus(), JobStatus()
    states = []
    for turn in range(DEATHS):
        status = done(status, None, "[7]", now=100.0 * turn)
        moving = done(moving, None, f"[{turn}]", now=100.0 * turn)
        states.append((status.state, moving.state))

    # Its first run brought it to 7: that was progress, and its end there is the first without.
    assert states[:-1] == [(JobState.WAITING, JobState.WAITING)] * (DEATHS - 1)
    assert states[-1] == (JobState.HELD, JobState.WAITING)
    assert status.reason is not None and "5 times without progress" in status.reason


def test_ends_of_runs_that_lived_for_long_hold_no_job() -> None:
    """The source is idle, and the machine is started again now and then: each end is the first without progress."""
    status, now = JobStatus(), 0.0
    for _ in range(3 * DEATHS):
        act, status = decide(ONE, status, JobObservation(False, status.run, "one", None, "[7]"), now)
        assert act is JobAct.START
        now += SETTLED
        status = decide(ONE, status, JobObservation(False, status.run, "one", None, "[7]"), now)[1]
        assert (JobState.WAITING, 1, 1) == (status.state, status.deaths, status.attempts)
        now += 60.0

    for _ in range(DEATHS - 1):
        started = decide(ONE, status, JobObservation(False, status.run, "one", None, "[7]"), now)[1]
        now += SETTLED - 1
        status = decide(ONE, started, JobObservation(False, started.run, "one", None, "[7]"), now)[1]
        now += 60.0
    assert JobState.HELD is status.state


def test_a_job_that_states_less_while_it_starts_has_not_come_further() -> None:
    """At each start it states [0], and then where it was, as the last time: it dies there without progress."""
    status = done(JobStatus(), None, "[7]")
    for _ in range(DEATHS):
        for frontier in ("[0]", "[7]", "[0]", "[7]"):
            running = status._replace(state=JobState.RUNNING, run=status.run + 1, command="one")
            alive = decide(ONE, running, JobObservation(True, running.run, "one", None, frontier), 0.0)[1]
            assert (status.deaths, status.attempts) == (alive.deaths, alive.attempts)
        status = done(status, None, "[0]" if status.deaths % 2 else "[7]")

    assert (JobState.HELD, "[7]") == (status.state, status.progress)


def ended_after(status: JobStatus, frontiers: list[str], now: float) -> JobStatus:
    """The status after one more run, which stated these frontiers and was killed then."""
    started = decide(ONE, status, JobObservation(False, status.run, "one", None, status.progress), now)
    assert started[0] is JobAct.START
    status, run = started[1], started[1].run
    for frontier in frontiers:
        status = decide(ONE, status, JobObservation(True, run, "one", None, frontier), now)[1]
    return decide(ONE, status, JobObservation(False, run, "one", None, frontiers[-1]), now)[1]


@pytest.mark.parametrize("ends_first", range(DEATHS))
def test_work_that_was_begun_again_comes_further_below_of_where_it_was(ends_first: int) -> None:
    """Logs were removed and written again under the same command: each run goes on well, and its end is the first."""
    status = JobStatus(JobState.WAITING, run=3, command="one", deaths=ends_first, attempts=9, progress="[1000]")
    for turn in range(DEATHS + 1):
        frontiers = ["[0]", *(f"[{10 * turn + step}]" for step in range(1, 11))]
        status = ended_after(JobStatus.from_plain(status.to_plain()), frontiers, 1000.0 * turn)
        assert (JobState.WAITING, 1, 1, frontiers[-1]) == (
            status.state, status.deaths, status.attempts, status.progress
        )


@pytest.mark.parametrize("frontiers", [["[7]", "[0]", "[7]"], ["[0]", "[7]"], ["[0]"], ["[0]", "[5]", "[6]", "[7]"]])
def test_a_run_that_only_does_the_same_once_more_comes_no_further(frontiers: list[str]) -> None:
    """Whatever it states until it is where the last run ended: five such ends hold it, after the first run."""
    status = JobStatus(JobState.WAITING, run=3, command="one", progress="[7]")
    ends = 0
    while status.state is not JobState.HELD:
        status, ends = ended_after(status, frontiers, 1000.0 * ends), ends + 1
        assert ends <= DEATHS + 1

    assert DEATHS == status.deaths
    assert JobStatus(run=status.run, command="one") == released(status)


def test_a_status_of_before_there_was_a_least_is_read() -> None:
    """A supervisor that is of a newer release goes on with what the last one kept."""
    plain = JobStatus(JobState.HELD, run=3, command="one", deaths=5, progress="[7]").to_plain()
    older = {name: value for name, value in plain.items() if not name.startswith("least")}

    assert JobStatus.from_plain(plain) == JobStatus.from_plain(older)


@pytest.mark.parametrize(("old", "new", "further"), [
    ("[7]", "[8]", True), ("[7]", "[7]", False), ("[7]", "[6]", False), ("[7]", None, False), (None, "[0]", True),
    ("[7]", "[]", True), ("[]", "[7]", False), ("[[1, 5]]", "[[2, 5]]", True), ("[[1, 5]]", "[[1, 4]]", False),
    ("[[1, 5]]", "[[0, 6]]", True), ("[7]", "[[1, 2]]", True), (None, None, False),
])
def test_further_is_what_is_not_done_already(old: str | None, new: str | None, further: bool) -> None:
    """By the frontiers themselves, also those of several coordinates, or of another kind of times."""
    running = JobStatus(JobState.RUNNING, 0.0, 1, "one", deaths=3, progress=old)
    after = decide(ONE, running, JobObservation(True, 1, "one", None, new), 1.0)[1]

    assert (0 if further else 3, new if further else old) == (after.deaths, after.progress)


def test_what_has_to_be_mended_is_tried_again_for_ever_and_seldom() -> None:
    """A full disk is mended at some time: the job waits longer and longer, up to a limit, and is never given up."""
    status, pauses = JobStatus(), []
    for turn in range(40):
        status = done(status, JobEnd(4, Retry.MENDED, "no space"), None, now=0.0)
        pauses.append(status.due)

    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (5.0, MENDED_AT_MOST)
    assert status.state is JobState.WAITING


def test_a_start_that_did_not_happen_is_made_up_for() -> None:
    """The status is kept before the act; a supervisor that died between them must not count that as a death."""
    act, status = decide(ONE, JobStatus(), JobObservation(False), 1.0)
    again, same = decide(ONE, status, JobObservation(False, 0), 2.0)

    assert (act, again) == (JobAct.START, JobAct.START)
    assert (same.run, same.deaths) == (1, 0)


def test_a_job_with_another_command_is_ended_and_then_started() -> None:
    """First politely, then not; the new one starts when the old one has ended, and not before."""
    running = JobStatus(JobState.RUNNING, 0.0, 3, "one")
    alive = JobObservation(True, 3, "one")
    changed = JobRequest("two")
    stop, stopping = decide(changed, running, alive, 10.0)
    wait, still = decide(changed, stopping, alive, 10.0 + PATIENCE - 1)
    kill, _ = decide(changed, stopping, alive, 10.0 + PATIENCE)
    start, started = decide(changed, still, JobObservation(False, 3, "one", JobEnd(0, Retry.NOW)), 30.0)

    assert [stop, wait, kill, start] == [JobAct.STOP, JobAct.NOTHING, JobAct.KILL, JobAct.START]
    assert (started.run, started.command, started.deaths) == (4, "two", 0)


def test_a_command_that_is_changed_and_changed_back_restarts_the_job_all_the_same() -> None:
    """It was asked to end, and will: until then it is not taken for one that runs. An end on request is no death."""
    running = JobStatus(JobState.RUNNING, 0.0, 3, "one", deaths=4, progress="[7]")
    _, stopping = decide(JobRequest("two"), running, JobObservation(True, 3, "one", None, "[7]"), 10.0)
    wait, still = decide(ONE, stopping, JobObservation(True, 3, "one", None, "[7]"), 11.0)
    start, started = decide(ONE, still, JobObservation(False, 3, "one", None, "[7]"), 12.0)

    assert (wait, start) == (JobAct.NOTHING, JobAct.START)
    assert (started.deaths, started.run, started.since) == (0, 4, 12.0)


def test_progress_wipes_out_what_was_before() -> None:
    """A status that states an old reason beside a job that works would send somebody to look for nothing."""
    tired = JobStatus(JobState.RUNNING, 3.0, 1, "one", 4, 4, 9.0, "[7]", "it was killed", "look", least="[7]")
    same = decide(ONE, tired, JobObservation(True, 1, "one", None, "[7]"), 10.0)[1]
    further = decide(ONE, tired, JobObservation(True, 1, "one", None, "[8]"), 10.0)[1]

    assert same == tired
    assert further == JobStatus(JobState.RUNNING, 3.0, 1, "one", 0, 0, 9.0, "[8]", least="[7]")


def test_the_reason_of_an_end_counts_until_the_next_run_has_got_over_it() -> None:
    """It came further, or has done all that there was to do, or has lived for long: an idle source moves nothing."""
    ended = done(JobStatus(), JobEnd(4, Retry.MENDED, "no right", "grant it"), "[7]", now=10.0)
    act, runs = decide(ONE, ended, JobObservation(False, ended.run, "one", None, "[7]"), 20.0)
    assert (act, runs.state, runs.reason) == (JobAct.START, JobState.RUNNING, "no right")
    for frontier in ("[0]", "[7]", "[0]", "[7]"):
        same = decide(ONE, runs, JobObservation(True, runs.run, "one", None, frontier), 20.0 + SETTLED - 1)[1]
        assert ("no right", "grant it") == (same.reason, same.remedy)

    further = decide(ONE, runs, JobObservation(True, runs.run, "one", None, "[8]"), 21.0)[1]
    idle = decide(ONE, runs, JobObservation(True, runs.run, "one", None, "[7]", caught_up=True), 21.0)[1]
    old = decide(ONE, runs, JobObservation(True, runs.run, "one", None, "[7]"), 20.0 + SETTLED)[1]

    assert [(None, None)] * 3 == [(one.reason, one.remedy) for one in (further, idle, old)]
    # What it did not do is still counted: one that dies while its source is idle is held some day.
    assert (idle.attempts, idle.deaths) == (runs.attempts, runs.deaths)


def test_one_end_that_may_be_tried_again_at_once_is_no_doubt_about_the_next_run() -> None:
    """As a kill: the run behind it has no reason to show. The second one in a row is one."""
    reasons, status = [], JobStatus(progress="[7]")
    for end in (None, None, JobEnd(4, Retry.MENDED, "no right"), None):
        status = done(status, end, "[7]")
        started = decide(ONE, status, JobObservation(False, status.run, "one", None, "[7]"), 1e6)[1]
        reasons.append((status.deaths, started.reason))

    killed = "it was killed, or could not report how it ended"
    assert [(1, None), (2, killed), (2, "no right"), (3, killed)] == reasons


@given(st.lists(st.lists(st.integers(0, 2), max_size=4), max_size=6))
def test_a_job_moves_only_when_it_is_further_than_ever(runs: list[list[int]]) -> None:
    """Whatever a run states until it is where the one before was; one that dies before that states nothing."""
    events, furthest, expected, there = list[dict[str, object]](), -1, None, 1
    for steps in runs:
        events.append({"event": "start", "at": float(len(events))})
        for number in [0, *accumulate(steps, initial=there)] if steps else []:
            if number > furthest:
                furthest, expected = number, float(len(events))
            events.append({"event": "progress", "frontier": [number], "at": float(len(events))})
        there += sum(steps)
        events.append({"event": "end", "frontier": [there] if steps else None, "at": float(len(events))})

    assert expected == moved_at(events)


def test_work_that_was_begun_again_moves_below_of_where_it_was() -> None:
    """Its logs were written again: what is further than where this run began is a move."""
    frontiers = [[1000], None, [0], [10], [20], [20]]
    events = [{"event": "start" if one is None else "progress", "frontier": one, "at": float(at)}
              for at, one in enumerate(frontiers)]  # fmt: skip

    assert 4.0 == moved_at(events)


def test_another_command_begins_with_a_clean_slate() -> None:
    """What was held for a typing mistake is another job when the mistake is mended."""
    held = JobStatus(JobState.HELD, 3.0, 5, "one", DEATHS, 9, 0.0, "[7]", "it ended 5 times")
    status = decide(JobRequest("two"), held, JobObservation(False, 5, "one", None, "[7]"), 10.0)[1]

    assert status == JobStatus(JobState.RUNNING, 10.0, 6, "two", progress="[7]")


def test_one_that_is_due_from_time_to_time_rests_until_then() -> None:
    """Its end is no death: it runs again a period later."""
    request = JobRequest("one", period=3600.0)
    act, status = decide(request, JobStatus(), JobObservation(False), 5.0)
    _, rests = decide(request, status, JobObservation(False, 1, "one", JobEnd(0, Retry.NOW)), 10.0)
    due = JobObservation(False, 1, "one", JobEnd(0, Retry.NOW))

    assert act is JobAct.START
    assert (rests.state, rests.due) == (JobState.WAITING, 3610.0)
    assert decide(request, rests, due, 3609.0)[0] is JobAct.NOTHING
    assert decide(request, rests, due, 3610.0)[0] is JobAct.START


@pytest.mark.parametrize(("end", "state", "due", "reason"), [
    (JobEnd(0, Retry.NOW, finished=True), JobState.WAITING, 3610.0, None),
    (JobEnd(1, Retry.MENDED, "the target is behind"), JobState.WAITING, 3610.0, "the target is behind"),
    (JobEnd(3, Retry.MENDED, "2 rows differ", "look"), JobState.WAITING, 3610.0, "2 rows differ"),
    (JobEnd(4, Retry.MENDED, "no answer"), JobState.WAITING, 15.0, "no answer"),
    (JobEnd(2, Retry.NEVER, "no such option"), JobState.HELD, 0.0, "no such option"),
    (None, JobState.WAITING, 11.0, "it was killed, or could not report how it ended"),
])  # fmt: skip
def test_a_result_of_one_that_is_due_again_is_shown_and_is_no_death(
    end: JobEnd | None, state: JobState, due: float, reason: str | None
) -> None:
    """A difference that compare has found stays one when it is asked again at once; what hindered it may not."""
    request = JobRequest("one", period=3600.0)
    running = JobStatus(JobState.RUNNING, 5.0, 1, "one", deaths=3)
    act, status = decide(request, running, JobObservation(False, 1, "one", end), 10.0)

    assert (JobAct.NOTHING, state, due, reason) == (act, status.state, status.due, status.reason)
    assert status.deaths == (0 if due == 3610.0 else 4 if end is None else 3)
    if due == 3610.0:
        again = decide(request, status, JobObservation(False, 1, "one", end), 3610.0)[1]
        assert (JobState.RUNNING, 2) == (again.state, again.run)
        # While it looks again, however far it comes, its last result is what is known.
        for at, frontier in enumerate(("[7]", "[9]", "[9]")):
            later = 3610.0 + (at == 2) * SETTLED
            again = decide(request, again, JobObservation(True, 2, "one", None, frontier, caught_up=at == 1), later)[1]
            assert (JobState.RUNNING, reason) == (again.state, again.reason)
        assert decide(request, again, JobObservation(False, 2, "one", JobEnd(0, Retry.NOW)), 4999.0)[1].reason is None


def test_a_job_that_has_nothing_left_to_do_is_finished() -> None:
    """Its logs are closed: another run would end at once, and do so for ever."""
    status = done(JobStatus(), JobEnd(0, Retry.NOW, finished=True))

    assert status.state is JobState.FINISHED
    assert decide(ONE, status, JobObservation(False, 1, "one"), 1e12)[0] is JobAct.NOTHING


def test_a_job_waits_for_what_it_needs_before_it_starts_and_never_while_it_runs() -> None:
    """Its state shows what for; what it had to wait for anyway, an end and a hold, it keeps."""
    waiting = ONE._replace(waits="slot shop")
    act, status = decide(waiting, JobStatus(), JobObservation(False), 5.0)
    assert (JobAct.NOTHING, JobState.WAITING, "slot shop", 5.0, 0) == (
        act, status.state, status.waits, status.since, status.run
    )
    assert (JobAct.NOTHING, status) == decide(waiting, status, JobObservation(False), 9.0)
    started = decide(ONE, status, JobObservation(False), 10.0)
    assert (JobAct.START, 1, None) == (started[0], started[1].run, started[1].waits)

    alive = JobObservation(True, 1, "one")
    act, status = decide(waiting, started[1], alive, 11.0)
    assert (JobAct.NOTHING, JobState.RUNNING) == (act, status.state)
    # One whose command changed ends: what it used is not removed before.
    assert JobAct.STOP is decide(JobRequest("two", waits="slot shop"), started[1], alive, 11.0)[0]
    died = decide(waiting, started[1], JobObservation(False, 1, "one"), 12.0)[1]
    assert (JobState.WAITING, 1, None) == (died.state, died.deaths, died.waits)
    again = decide(waiting, died, JobObservation(False, 1, "one"), died.due)
    assert (JobAct.NOTHING, 1, "slot shop") == (again[0], again[1].deaths, again[1].waits)
    assert JobAct.START is decide(ONE, again[1], JobObservation(False, 1, "one"), died.due)[0]


def test_a_job_that_waits_with_a_changed_command_remembers_how_its_last_run_ended() -> None:
    """The end of that run and no older one: its reason is shown all the while, and one that was stopped has none."""
    changed, end = JobRequest("two", waits="slot shop"), JobEnd(4, Retry.NEVER, "a second snapshot", "start over")
    running = JobStatus(JobState.RUNNING, run=3, command="one", deaths=2, progress="[7]")
    act, status = decide(changed, running, JobObservation(False, 3, "one", end, "[9]"), 5.0)
    assert (JobAct.NOTHING, JobState.WAITING, "slot shop") == (act, status.state, status.waits)
    assert ("a second snapshot", "start over", 0, 1, "[9]") == (
        status.reason, status.remedy, status.deaths, status.attempts, status.progress
    )

    stopping = running._replace(state=JobState.STOPPING)
    stopped = decide(changed, stopping, JobObservation(False, 3, "one", end, "[9]"), 5.0)[1]
    assert (JobState.WAITING, None, 0, "[9]") == (stopped.state, stopped.reason, stopped.deaths, stopped.progress)
    # The last run that left a sign is the one before: how the newest ended is not known yet.
    unseen = decide(changed, running, JobObservation(False, 2, "one", end, "[9]"), 5.0)[1]
    assert (JobState.WAITING, None, 2, "[7]") == (unseen.state, unseen.reason, unseen.deaths, unseen.progress)


@pytest.mark.parametrize(("period", "longest"), [(None, MENDED_AT_MOST), (3600.0, 3600.0), (1.0, MENDED_AT_MOST)])
def test_a_clock_that_jumped_forth_and_back_delays_no_start(period: float | None, longest: float) -> None:
    """A start is due after the longest pause at the latest, counted once from the first look at the mended clock."""
    request, seen = JobRequest("one", period), JobObservation(False, 1, "one", JobEnd(4, Retry.MENDED))
    waits = JobStatus(JobState.WAITING, 1e9, 1, "one", attempts=1, due=1e9 + 5)
    act, status = decide(request, waits, seen, 100.0)

    assert (act, status.due) == (JobAct.NOTHING, 100.0 + longest)
    assert decide(request, status, seen, 99.0 + longest) == (JobAct.NOTHING, status)
    assert decide(request, status, seen, 100.0 + longest)[0] is JobAct.START


def test_a_clock_that_jumped_forth_and_back_delays_no_kill() -> None:
    """The patience with a job that was asked to end counts from the first look at the mended clock."""
    seen = JobObservation(True, 1, "one")
    act, status = decide(None, JobStatus(JobState.STOPPING, 1e9, 1, "one"), seen, 100.0)

    assert (act, status.since) == (JobAct.NOTHING, 100.0)
    assert decide(None, status, seen, 99.0 + PATIENCE)[0] is JobAct.NOTHING
    assert decide(None, status, seen, 100.0 + PATIENCE)[0] is JobAct.KILL


def test_a_status_is_kept_as_it_is() -> None:
    """Over a restart of the supervisor nothing is forgotten; a damaged status is refused."""
    status = JobStatus(JobState.HELD, 3.5, 4, "one", 2, 3, 9.0, "[7]", "a reason", "a remedy", "slot shop")

    assert JobStatus.from_plain(status.to_plain()) == status
    for wrong in (
        {"state": "lost"}, {"state": "held", "colour": "red"}, {}, {"state": "held", "run": "x"},
        {"state": "held", "due": None}, {"state": "held", "deaths": True}, {"state": "held", "reason": 7},
    ):  # fmt: skip
        with pytest.raises(MalformedError, match="no status of a job"):
            JobStatus.from_plain(wrong)


class Turn(NamedTuple):
    """What happens between two turns of a supervisor: time passes, and the job does something."""

    passes: float
    does: str
    restarts: bool


does = st.sampled_from(
    ["lives", "restates", "progresses", "dies", "now", "mended", "never", "finished", "left", "changed", "released"]
)
turns = st.lists(st.builds(Turn, st.sampled_from([0.1, 1.0, 7.0, 70.0, 400.0]), does, st.booleans()), max_size=60)


@given(turns)
def test_no_history_starts_a_job_twice_or_one_that_must_not_run(history: list[Turn]) -> None:
    """The list of ends since the last release or change shows whether a start is right; pauses are in their limits."""
    now, status, alive, run, command, end, progress = 0.0, JobStatus(), False, 0, None, None, 0
    ends: list[tuple[str, int, bool]] = []
    request: JobRequest | None = JobRequest("0")
    ended_at = started_at = 0.0
    for turn in history:
        now += turn.passes
        # What it states while it starts, until it knows where it was.
        shown = 0 if turn.does == "restates" else progress
        if turn.does == "progresses" and alive:
            progress = shown = progress + 1
        elif turn.does in ("dies", "now", "mended", "never", "finished") and alive:
            alive, ended_at = False, now
            how = {
                "dies": None, "now": JobEnd(4, Retry.NOW), "mended": JobEnd(4, Retry.MENDED),
                "never": JobEnd(4, Retry.NEVER), "finished": JobEnd(0, Retry.NOW, finished=True),
            }  # fmt: skip
            end = how[turn.does]
            if status.state is not JobState.STOPPING:
                ends.append((turn.does, progress, now - started_at >= SETTLED))
        elif turn.does == "changed" and request is not None:
            request, ends = JobRequest(f"{int(request.command) + 1}"), [("changed", progress, False)]
        elif turn.does == "left":
            request, ends = (None if request else JobRequest("0")), [("changed", progress, False)]
        elif turn.does == "released" and status.state is JobState.HELD:
            status, ends = released(status), [("changed", progress, False)]
        if turn.restarts:
            status = JobStatus.from_plain(status.to_plain())
        seen = JobObservation(alive, run, command, None if alive else end, f"[{shown}]")
        act, status = decide(request, status, seen, now)
        if act is JobAct.START:
            assert request is not None and not alive
            assert not any(kind in ("never", "finished") for kind, *_ in ends[-1:])
            assert not given_up(ends)
            alive, run, command, end, started_at = True, status.run, request.command, None, now
        elif act in (JobAct.STOP, JobAct.KILL):
            assert alive and (request is None or request.command != command or status.state is JobState.STOPPING)
            alive, ended_at = (False, now) if act is JobAct.KILL else (alive, ended_at)
        elif request is not None and not alive and status.state is JobState.WAITING:
            assert ended_at <= status.due <= now + max(MENDED_AT_MOST, SOON_AT_MOST)
        elif request is not None and not alive:
            assert status.state is (JobState.FINISHED if ends[-1][0] == "finished" else JobState.HELD)
            assert ends[-1][0] in ("finished", "never") or given_up(ends)


def given_up(ends: list[tuple[str, int, bool]]) -> bool:
    """Whether the last of these ends is one too many without progress, and of a run that did not live for long.

    The first run began where it was.
    """
    deaths, before = 0, 0
    for kind, progress, settled in ends:
        deaths = (0 if progress != before or settled else deaths) + (kind in ("dies", "now"))
        before = progress
    return deaths >= DEATHS and ends[-1][0] in ("dies", "now")


def test_a_paused_job_is_ended_and_starts_when_it_is_resumed() -> None:
    """Whatever it was before: also one that was held starts then, as a person has looked at it."""
    running = JobStatus(JobState.RUNNING, run=3, command="one")
    paused = "paused by cdcv2 pause"
    act, stopping = decide(ONE, running, JobObservation(True, 3, "one", paused=paused), 10.0)
    late = decide(ONE, stopping, JobObservation(True, 3, "one", paused=paused), 10.0 + PATIENCE)[0]
    end = JobEnd(0, Retry.NOW)
    down = decide(ONE, stopping, JobObservation(False, 3, "one", end, paused=paused), 11.0)
    still = decide(JobRequest("two"), down[1], JobObservation(False, 3, "one", end, paused=paused), 1e9)
    resumed = decide(ONE, down[1], JobObservation(False, 3, "one", end), 20.0)
    status = JobStatus(JobState.HELD, run=3, command="one")
    held = decide(ONE, status, JobObservation(False, 3, "one", paused=paused), 1.0)

    assert (act, stopping.state, late) == (JobAct.STOP, JobState.STOPPING, JobAct.KILL)
    assert (down[0], down[1].state, down[1].since, down[1].reason) == (JobAct.NOTHING, JobState.PAUSED, 11.0, paused)
    assert (still[0], still[1].state) == (JobAct.NOTHING, JobState.PAUSED)
    assert (resumed[0], resumed[1].run, resumed[1].reason) == (JobAct.START, 4, None)
    assert held[1].state is JobState.PAUSED
    assert decide(None, down[1], JobObservation(False, 3, "one", end, paused=paused), 30.0)[1].state is JobState.IDLE
