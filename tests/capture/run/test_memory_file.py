"""The capture's memory in a file: the old one or the new one, never half of one."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from cdcv2.capture.run.memory_file import MemoryFile
from cdcv2.errors import ForeignStateError, OutputError


def test_what_was_saved_last_is_loaded(tmp_path: Path) -> None:
    """Nothing first; folders are made; nothing is left beside it."""
    memory = MemoryFile(tmp_path / "deep" / "inside" / "memory.json")
    assert memory.load() is None
    memory.save({"a": 1})
    memory.save({"a": 2})
    assert {"a": 2} == MemoryFile(memory.path).load()
    assert ["memory.json"] == os.listdir(memory.path.parent)


def test_equal_memories_are_equal_files(tmp_path: Path) -> None:
    """Whatever came first in them."""
    one, other = MemoryFile(tmp_path / "one"), MemoryFile(tmp_path / "other")
    one.save({"a": 1, "e": 2})
    other.save({"e": 2, "a": 1})

    assert one.path.read_bytes() == other.path.read_bytes()


def test_a_memory_that_was_changed_is_refused(tmp_path: Path) -> None:
    """With its place, and what to do."""
    memory = MemoryFile(tmp_path / "memory.json")
    memory.save({"at": 1})
    memory.path.write_bytes(memory.path.read_bytes().replace(b'"at": 1', b'"at": 2'))
    with pytest.raises(ForeignStateError, match=re.escape(f"{memory.path} is damaged") + ".*: remove the memory"):
        memory.load()


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff", b"[" * 200_000])
def test_a_file_that_is_no_memory_is_refused(tmp_path: Path, raw: bytes) -> None:
    """It belongs to another program, or is damaged; the text explains that losing it costs time only."""
    (tmp_path / "memory.json").write_bytes(raw)
    with pytest.raises(ForeignStateError, match="no memory of a capture"):
        MemoryFile(tmp_path / "memory.json").load()


def test_the_memory_of_other_logs_is_refused(tmp_path: Path) -> None:
    """Its positions skip what these lack; also one that does not name its logs."""
    path = tmp_path / "memory.json"
    MemoryFile(path, logs="mine").save({"a": 1})
    assert {"a": 1} == MemoryFile(path, logs="mine").load()
    with pytest.raises(ForeignStateError, match="made for other logs, .*: remove the memory"):
        MemoryFile(path, logs="others").load()
    MemoryFile(path).save({"a": 1})
    with pytest.raises(ForeignStateError, match="made for other logs"):
        MemoryFile(path, logs="mine").load()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """A file where a folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        MemoryFile(tmp_path / "file" / "memory.json").save({})
