"""The steps of README from a database to tables that are proven right, as somebody types them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADING = "## 2. Your PostgreSQL to right tables, in six steps"
#: What the steps end before.
AFTER = "**From then on:**"
#: So many there may be.
MOST = 6


def readme_steps() -> list[str]:
    """The command of each step; several lines in one block are several steps."""
    section = (ROOT / "README.md").read_text("utf-8").split(HEADING)[1].split(AFTER)[0]
    return [line for block in re.findall(r"```text\n(.*?)```", section, re.S) for line in block.splitlines()]


def numbered_steps() -> list[str]:
    """The numbers that README gives them."""
    section = (ROOT / "README.md").read_text("utf-8").split(HEADING)[1].split(AFTER)[0]
    return re.findall(r"^\*\*(\d+)\. ", section, re.M)
