"""What ``cdcv2 up`` would change, and why: its own decisions, asked without doing anything.

Jobs are judged by :func:`cdcv2.control.supervision.decide`, external state by :func:`cdcv2.control.intents.planned` and
:func:`cdcv2.control.external_state.decide`. Here it is only put in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count
from typing import NamedTuple

from cdcv2.control.entries import Answer, CatalogueEntry, EntryState, Kind, Look, NoAnswer, Reason
from cdcv2.control.external_state import Act, Condition, Step, decide as decide_external, misfits
from cdcv2.control.intents import DesiredState, blocked_by, has_slot
from cdcv2.control.external_texts import maybe_elsewhere
from cdcv2.control.folder_paths import planned_by_path
from cdcv2.control.other_addresses import after_looks, withheld
from cdcv2.control.supervision import JobAct, JobState, decide
from cdcv2.control.supervisor import JobPlan, JobReport


class PipelineChange(NamedTuple):
    """One thing that would be done, or cannot be done.

    - ``act``: of a job ``start``, ``restart``, ``end``, or ``refused`` where its part of the file is wrong; of external
      state ``make``, ``take over``, ``alter``, ``remove``, ``keep``, or why nothing can be done: ``refused``,
      ``drift``, ``missing``, ``lost``, ``unreachable`` and so on.
    - ``what``: ``job NAME``, or the kind with its name and address.
    - ``why``: in words, without any secret.
    """

    act: str
    what: str
    why: str


def job_changes(plans: Iterable[JobPlan], reports: Iterable[JobReport], now: float) -> Iterator[PipelineChange]:
    """What would be done with the jobs. ``reports``: how they stand; ``now``: epoch seconds."""
    wanted = {plan.name: plan for plan in plans}
    seen = {report.name: report for report in reports}
    for name in sorted({*wanted, *seen}):
        plan, report = wanted.get(name), seen.get(name)
        if report is None:
            yield PipelineChange("start", f"job {name}", "it is new")
            continue
        act, after = decide(None if plan is None else plan.request, report.status, report.observation, now)
        if plan is None:
            if act is not JobAct.NOTHING or report.observation.alive:
                yield PipelineChange("end", f"job {name}", "the file does not have it any more")
        elif act in (JobAct.STOP, JobAct.KILL) or after.state is JobState.STOPPING:
            yield PipelineChange("restart", f"job {name}", _changed(plan, report))
        elif act is JobAct.START or (after.state is JobState.WAITING and not report.observation.alive):
            yield PipelineChange("start", f"job {name}", _start(plan, report))


def _start(plan: JobPlan, report: JobReport) -> str:
    ran = report.observation.command
    if ran is None:
        return "it never ran"
    if ran != plan.digest:
        return _changed(plan, report)
    status = report.status
    return "it is ended" if status.reason is None else f"it ended, and is tried again: {status.reason}"


def _changed(plan: JobPlan, report: JobReport) -> str:
    before = report.observation.parts
    names = sorted(name for name in {*before, *plan.parts} if before.get(name) != plan.parts.get(name))
    if not names or not before:
        return "its part of the file is another one"
    return f"changed in the file: {', '.join(names)}"


def planned_entries(
    entries: Iterable[CatalogueEntry], desired: Iterable[DesiredState], now: float
) -> list[CatalogueEntry]:
    """The catalogue as it would be when what is desired is written into it.

    Raises UsageError as :func:`cdcv2.control.intents.planned` does.
    """
    before = {entry.nonce: entry for entry in entries}
    drawn = count(1)
    changed = planned_by_path(before.values(), desired, now, lambda: f"NEW{next(drawn)}")
    return list({**before, **{entry.nonce: entry for entry in changed}}.values())


def external_changes(
    entries: Iterable[CatalogueEntry], planned_ones: Iterable[CatalogueEntry],
    look: Callable[[CatalogueEntry], Look], now: float,
) -> Iterator[PipelineChange]:
    """What would be done with external state. ``entries``: those of the catalogue; ``look`` asks a server.

    ``planned_ones``: see :func:`planned_entries`.
    """
    before = {entry.nonce: entry for entry in entries}
    after = {entry.nonce: entry for entry in planned_ones}
    away: dict[tuple[str, Kind], Look] = {}

    def seen(entry: CatalogueEntry) -> Look:
        found = away.get((entry.address, entry.kind)) or look(entry)
        if getattr(found, "reason", None) is Reason.UNREACHABLE:
            away[entry.address, entry.kind] = found
        return found

    after = {entry.nonce: entry for entry in after_looks(after.values(), seen, now)}
    for entry in after.values():
        if entry.state is EntryState.GONE:
            continue
        yield from _change(entry, before.get(entry.nonce), after, seen(entry), now, seen)


def _change(
    entry: CatalogueEntry, before: CatalogueEntry | None, after: Mapping[str, CatalogueEntry], look: Look, now: float,
    seen: Callable[[CatalogueEntry], Look],
) -> Iterator[PipelineChange]:
    what = f"{entry.kind} {entry.name.replace(entry.nonce, '{nonce}')} ({entry.address})"
    if before is not None and before.owned and not entry.owned:
        yield PipelineChange("keep", what, "the file does not state owned: yes any more: it stays")
        return
    older = [one for one in blocked_by(entry, after.values()) if one.key == entry.key and one.owned]
    if older:
        yield PipelineChange("make", what, f"{_for(entry)}, when the one before it is removed")
        return
    claimed = any(has_slot(one, entry) and one.identity is not None for one in after.values())
    step = decide_external(entry, look, now, claimed=claimed)
    if before is not None and before.address != entry.address:
        yield PipelineChange("keep", what, f"it is the one at {before.address}, and continues here")
    if entry.state is EntryState.UNWANTED and step.act is not Act.NOTHING:
        instead = withheld(entry, after.values(), seen, now)
        if isinstance(instead, NoAnswer):
            yield PipelineChange(str(instead.reason), what, maybe_elsewhere(entry, instead.text))
            return
    act, why = _words(entry, step, look)
    if act is not None:
        yield PipelineChange(act, what, why)


def _words(entry: CatalogueEntry, step: Step, look: Look) -> tuple[str | None, str]:
    """What the step is called; None: there is nothing to do."""
    debt = step.entry.debt
    if entry.state is EntryState.UNWANTED:
        if not entry.owned or (step.act is Act.NOTHING and step.entry.state is EntryState.GONE):
            return None, ""
        return "remove", "nothing in the file needs it" if debt is None else f"{debt.reason}: {debt.text}"
    if step.act is Act.AWAIT:
        return "make", f"{_for(entry)}; its connector makes it at its first start"
    if debt is not None:
        return str(debt.reason), debt.text
    if step.act is Act.MAKE:
        return ("take over" if step.condition is Condition.FITTING else "make"), _for(entry)
    if step.act is Act.ALTER and isinstance(look, Answer) and look.thing is not None:
        # The names only: values may be long.
        return "alter", f"settings that differ from the file: {', '.join(misfits(entry, look.thing))}"
    if entry.state is EntryState.WANTED and entry.owned and step.entry.is_there:
        return "take over", f"{_for(entry)}; it is there, and is this pipeline's or fits"
    return None, ""


def _for(entry: CatalogueEntry) -> str:
    return f"for {', '.join(entry.users)}"
