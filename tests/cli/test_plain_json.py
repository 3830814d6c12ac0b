"""What commands print as JSON is the same in every tool: great integers are strings, and names are whole letters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cdcv2.protocol.messages import Progress, Updates
from cdcv2.rows.plain import SAFE
from tests.cli.conftest import APPLE, PEAR, Run, write

FAR, MANY = 2**60, 2**61


def numbers(plain: Any) -> list[int]:
    """Every integer in it."""
    if isinstance(plain, dict):
        return [number for value in plain.values() for number in numbers(value)]
    if isinstance(plain, list):
        return [number for value in plain for number in numbers(value)]
    return [plain] if type(plain) is int else []


@pytest.mark.parametrize("command", ["replay", "inspect", "verify"])
def test_great_integers_are_strings(run: Run, tmp_path: Path, command: str) -> None:
    """Times and diffs; a tool that reads numbers as doubles would bend them without a word."""
    log = write(tmp_path / "log", Updates([(APPLE, FAR, MANY)]), Progress([0], [FAR + 1], {FAR: 1}))
    said = run(command, log, "--json")
    plain = [json.loads(line) for line in said.out.splitlines()]

    assert [] == [number for number in numbers(plain) if abs(number) > SAFE]
    assert f'"{FAR + 1}"' in said.out
    if command == "replay":
        assert {"time": str(FAR), "diff": str(MANY)}.items() <= plain[0].items()


def test_great_integers_of_a_dispute_and_of_what_is_missing_are_strings(run: Run, tmp_path: Path) -> None:
    """The diffs that contradict each other, the counts, and the times."""
    diffs = [Updates([(APPLE, FAR, MANY)]), Updates([(APPLE, FAR, MANY + 1)])]
    counts = [Progress([0], [FAR + 1], {FAR: MANY}), Progress([0], [FAR + 1], {FAR: MANY + 2})]
    disputed = json.loads(run("verify", write(tmp_path / "log", *diffs), "--json").out)
    stated = json.loads(run("verify", write(tmp_path / "counts", *counts), "--json").out)
    lacking = Progress([FAR + 5], [FAR + 9], {FAR + 6: MANY})
    missing = json.loads(run("verify", write(tmp_path / "lacking", Updates([(PEAR, 1, 1)]), lacking), "--json").out)

    (one,), (two,) = disputed["tables"]["log"]["contradictions"], stated["tables"]["counts"]["contradictions"]
    assert (str(FAR), str(MANY), str(MANY + 1)) == (one["time"], one["first"], one["second"])
    assert (str(MANY), str(MANY + 2)) == (two["first"], two["second"])
    lacks = missing["tables"]["lacking"]["missing"]
    assert [[str(FAR + 6), str(MANY)]] == lacks["updates"]
    assert [[[0], [str(FAR + 5)]]] == lacks["statements"]


@pytest.mark.parametrize("words", [["replay"], ["inspect"], ["verify"]])
def test_the_name_of_a_directory_is_text_in_any_locale(tmp_path: Path, words: list[str]) -> None:
    """Where the locale has no letters for it, its bytes are still UTF-8."""
    log = write(tmp_path / "größe", Updates([(APPLE, 1, 1)]), Progress([0], [2], {1: 1}))
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "cdcv2", *words, log, "--json"], env=environment, capture_output=True, check=True
    )
    said = [json.loads(line) for line in done.stdout.splitlines()]

    assert "größe" in json.dumps(said, ensure_ascii=False)
    assert b"\\udc" not in done.stdout
