"""What earlier versions wrote is read for ever: one folder per version of the format under tests/golden.

``v1-without-digests`` is version 1 as it was written before the header of a file had the digests of its blocks, and
``_log.json`` its own; ``v1-without-identity`` as it was before a log had an identity and a timeline.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.core.antichain import Antichain
from cdcv2.logs.directory import DirectoryLog
from cdcv2.logs.jsonlines import JsonLines
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.timeline.records import RecipeEpoch, decode
from cdcv2.timeline.shared_remap import LogView, SharedRemap
from tests.golden.write import BOUND, FLUSHES, PRODUCT, RECORDS, summarized, write

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
VERSIONS = sorted(path for path in GOLDEN.iterdir() if path.name.startswith("v"))


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
@pytest.mark.parametrize("name", ["everything", "product"])
def test_logs_of_every_version_are_read(version: Path, name: str) -> None:
    """Every message, from its Avro and from its JSON, is what was written then."""
    log = DirectoryLog(version / name)
    lines = JsonLines(log.row_type)
    read = [entry.message for entry in log.read() if entry is not None]
    told = [lines.decode(line) for line in (version / f"{name}.jsonl").read_text("utf-8").splitlines()]

    assert told == read


@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_remaps_of_every_version_are_read(version: Path) -> None:
    """Every record, and what they come to for a reader from the first one and for one from the summary."""
    log = DirectoryRemap(version / "remap")
    records = [decode(raw, place) for place, raw in log.read(0).records]
    late = SharedRemap()
    late.absorb(LogView(log.read(4).records, 5))

    assert [*RECORDS, summarized()] == records
    assert ([(1500, BOUND), (2**62, Antichain())], RecipeEpoch(1, 1001, "v2")) == (
        list(late.remap.bindings()), late.recipe
    )


def test_the_present_version_is_written_as_its_golden_files_are(tmp_path: Path) -> None:
    """Byte for byte: a change of the format cannot slip in without a new version."""
    write(tmp_path)
    written = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    golden = GOLDEN / "v1"

    assert written == {path.relative_to(golden): path.read_bytes() for path in golden.rglob("*") if path.is_file()}


def test_the_golden_messages_are_the_ones_that_were_meant() -> None:
    """The JSON beside the logs was not only copied from them."""
    for name, flushes in [("everything", FLUSHES), ("product", PRODUCT)]:
        read = [entry.message for entry in DirectoryLog(GOLDEN / "v1" / name).read() if entry is not None]

        assert [message for messages in flushes for message in messages] == read
