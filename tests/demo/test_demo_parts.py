"""The demonstration's own judges: they must see what is wrong, or its "ok" means nothing."""

from __future__ import annotations

import pytest

pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet as parquet  # noqa: E402

from cdcv2 import Antichain, Progress, Updates  # noqa: E402
from cdcv2.demo import damage, tables  # noqa: E402
from cdcv2.demo.bank import row_types  # noqa: E402
from cdcv2.demo.story import FailedCheck, Story  # noqa: E402
from cdcv2.materialize.protocol.fence import Range  # noqa: E402
from cdcv2.materialize.targets.lake.manifest import LakeFolder, LakeManifest  # noqa: E402
from cdcv2.materialize.targets.manifests import TableFile  # noqa: E402

ACCOUNT = {"id": 1, "branch": 1, "holder": "h", "balance": 70, "rate": None, "vip": True, "opened": 3, "note": None}
BRANCH = {"id": 1, "city": "Delft", "balance": 30}


def an_output(folder, accounts, branches):
    """A replay output of two manifests, as replay writes them; the second names a file per table."""
    types = {table: row_type for table, row_type in row_types().items() if table in tables.MONEY}
    first = LakeManifest("replay", Antichain([0]), {}, histories=types)
    files = {}
    for table, updates in (("public.accounts", accounts), ("public.branches", branches)):
        path = folder / table / "batch" / "part.parquet"
        path.parent.mkdir(parents=True)
        columns = {
            "data": [row for row, _, _ in updates], "time": [time for _, time, _ in updates],
            "diff": [diff for _, _, diff in updates],
        }
        parquet.write_table(pyarrow.table(columns), path)
        files[table] = [TableFile("batch/part", len(updates), 0)]
    lake = LakeFolder(folder)
    lake.append(0, None, first)
    lake.append(1, first, first.with_transaction(Range(), Antichain([9]), files))
    assert [9] == tables.uppers(folder)
    return folder


def test_money_that_moves_between_tables_in_one_time_is_seen_as_constant(tmp_path):
    """Both halves of a transaction have one time, so the sum over both tables is looked at after both."""
    moved = [(ACCOUNT, 1, 1), (ACCOUNT, 5, -1), ({**ACCOUNT, "balance": 60}, 5, 1)]
    got = [(BRANCH, 1, 1), (BRANCH, 5, -1), ({**BRANCH, "balance": 40}, 5, 1)]

    seen = tables.read(an_output(tmp_path, moved, got))

    assert ({100}, {70, 60}, {30, 40}) == (seen.totals, seen.sums["public.accounts"], seen.sums["public.branches"])
    assert (2, [9], [], 0) == (seen.times, seen.uppers, seen.negative, seen.repeated)


def test_a_torn_transaction_shows_as_a_second_total(tmp_path):
    """One half of a transfer a time later than the other is what the demonstration must notice."""
    moved = [(ACCOUNT, 1, 1), (ACCOUNT, 5, -1), ({**ACCOUNT, "balance": 60}, 5, 1)]
    late = [(BRANCH, 1, 1), (BRANCH, 6, -1), ({**BRANCH, "balance": 40}, 6, 1)]

    assert {100, 90} == tables.read(an_output(tmp_path, moved, late)).totals


def test_a_row_that_goes_before_it_comes_is_noticed(tmp_path):
    """A negative multiplicity at any time is reported with the table and the time."""
    seen = tables.read(an_output(tmp_path, [(ACCOUNT, 1, -1), (ACCOUNT, 2, 1)], [(BRANCH, 1, 1)]))

    assert 1 == len(seen.negative)
    assert "public.accounts" in seen.negative[0] and seen.negative[0].endswith("at 1")


def test_an_identity_that_comes_twice_is_noticed(tmp_path):
    """Given out twice, an update would be counted twice."""
    assert 1 == tables.read(an_output(tmp_path, [(ACCOUNT, 1, 1), (ACCOUNT, 1, 1)], [(BRANCH, 1, 1)])).repeated


def test_the_negative_controls_find_the_damage(tmp_path, capsys):
    """A removed message and a changed diff are found, by reading and by the command's exit code."""
    row_type = row_types()["public.branches"]
    rows = [row_type.row({"id": number, "city": "Delft", "balance": 5}) for number in range(3)]
    log = [message for number, row in enumerate(rows) for message in (
        Updates([(row, number + 1, 1)]), Progress([number + 1 if number else 0], [number + 2], {number + 1: 1}),
    )]  # fmt: skip

    damage.controls(Story(), tmp_path, log, row_type)

    assert 4 == capsys.readouterr().out.count("   ok  ")


def test_a_check_that_does_not_hold_ends_the_story(capsys):
    """The exit code is right because the story does not go on after a failed check."""
    with pytest.raises(FailedCheck, match="water is dry"):
        Story().check(False, "water is dry")

    assert "NO" in capsys.readouterr().out
