"""``timers:`` of a pipeline's file: commands that run from time to time, each as a job that is due again.

::

    timers:
      copies-are-equal: {compare: copy, every: 1h}
      shorter: {compact-remap: shop, every: 1d, arguments: [--keep, "48"]}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from cdcv2.control.argument_secrets import demand_no_secrets
from cdcv2.control.yaml_lines import YamlNode
from cdcv2.suggestions import meant

#: The commands, and whether each is of a view; else it is of a capture.
TIMER_COMMANDS = {"compare": True, "orphans": True, "compact-remap": False}
#: The drivers that stage files, and what is wrong with the orphans of another one.
STAGED = ("lake", "delta")
NO_FILES = "this driver leaves no files: only those of a lake and of Delta tables are looked for"
#: Options that a timer gives its command itself.
_GIVEN = ("--view", "--events")


class _View(Protocol):
    """What a view of the file has for a timer of it."""

    @property
    def fields(self) -> Mapping[str, YamlNode]:
        """Its fields, by their names."""


@dataclass(frozen=True)
class TimerFields:
    """A command that runs from time to time: of which view or capture, and how many seconds after its last end."""

    name: str
    command: str
    of: str
    every: float
    arguments: tuple[str, ...]
    node: YamlNode = field(repr=False)


def timer_fields(
    name: str, part: YamlNode, captures: Mapping[str, bool], views: Mapping[str, _View]
) -> TimerFields:
    """The timer in a part of the file. Raises UsageError with the line.

    ``captures`` are those of the file, and whether each is on a remap; ``views`` are its views.
    """
    fields = part.fields("every", " ".join([*TIMER_COMMANDS, "arguments"]))
    named = [command for command in TIMER_COMMANDS if command in fields]
    if len(named) != 1:
        part.fail(f"what is due? Name one of {', '.join(TIMER_COMMANDS)}, and of which part: compare: NAME")
    (command,) = named
    of = fields[command].text()
    there: Mapping[str, object] = views if TIMER_COMMANDS[command] else captures
    kind = "view" if TIMER_COMMANDS[command] else "capture"
    if of not in there:
        fields[command].fail(f"there is no {kind} {of!r}; there are {', '.join(there) or 'none'}{meant(of, there)}")
    if kind == "capture" and not captures[of]:
        fields[command].fail(f"the capture {of} is on no remap: there is nothing to shorten; leave this timer out")
    if command == "orphans":
        driver = dict(views[of].fields["target"].entries()).get("driver")
        # A driver that is none is named when its view is looked at.
        if driver is not None and driver.is_text and driver.text() not in STAGED:
            fields[command].fail(f"the view {of} is kept by {driver.text()}: {NO_FILES}; leave this timer out")
    arguments = _arguments(fields["arguments"]) if "arguments" in fields else ()
    return TimerFields(name, command, of, fields["every"].seconds(), arguments, part)


def _arguments(part: YamlNode) -> tuple[str, ...]:
    words = []
    demand_no_secrets(part.items(), "put it into the environment of cdcv2 up, or into a file that the command reads")
    for item in part.items():
        word = item.text()
        option = word.partition("=")[0]
        if option == "--remove":
            item.fail(
                "--remove takes the view over, and its job stands still meanwhile: run cdcv2 orphans --remove "
                "yourself, which pauses that job, and resumes it at the end"
            )
        if option in _GIVEN:
            item.fail(f"{option} is given by the pipeline: leave it out, and name the view by its command")
        words.append(word)
    return tuple(words)
