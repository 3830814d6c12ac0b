"""The steps of README are few, and the commands take them as they stand; tests/stress runs them on real servers."""

from __future__ import annotations

import re
import shlex

from cdcv2.cli.main import parser_of
from cdcv2.store.postgres_session import plain_address
from tests.readme_steps import MOST, numbered_steps, readme_steps


def test_the_steps_are_few_and_each_is_one_command() -> None:
    """From an installation to a proof; a block of two lines would be two steps."""
    steps = readme_steps()

    assert [str(number) for number in range(1, len(steps) + 1)] == numbered_steps()
    assert len(steps) <= MOST
    assert [["pip", "install"], ["export"], ["cdcv2", "init"], ["cdcv2", "doctor"], ["cdcv2", "up"],
            ["cdcv2", "compare"]] == [re.findall(r"^pip install|^export|^cdcv2 \w+", step)[0].split() for step in steps]


def test_the_commands_take_the_steps() -> None:
    """Their options are there, and one file goes through all of them."""
    asked = {}
    for step in readme_steps():
        if step.startswith("cdcv2 "):
            words = shlex.split(step.removesuffix("&"))
            asked[words[1]] = parser_of(words[1]).parse_args(words[2:])
    written = f"{asked['init'].output}/pipeline.yaml"

    assert (True, "env") == (asked["init"].owned, asked["init"].source)
    assert "host=COPY" in plain_address(asked["init"].target, "--target")
    assert [written, written, [written]] == [asked["doctor"].pipeline, asked["up"].pipeline, asked["compare"].log]
    assert (True, True) == (asked["compare"].marker, asked["compare"].wait > 0)


def test_the_environment_is_named_by_the_steps_alone() -> None:
    """All that the file asks for: what init writes into it as a variable, and what libpq reads."""
    (line,) = [step for step in readme_steps() if step.startswith("export ")]

    assert {"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "COPY_PASSWORD"} == set(
        re.findall(r"(\w+)=", line))
