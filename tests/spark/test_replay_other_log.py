"""A directory that was recreated is another log: replay does not go on with it, whatever it holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdcv2.errors import ForeignStateError
from cdcv2.exits import Exit
from cdcv2.protocol import Message, Progress, Updates
from cdcv2.spark.file_digests import MOST, marks
from cdcv2.spark.job import exit_code
from cdcv2.spark.progress import ProgressLines
from cdcv2.spark.replay import ReplayPlan, opened
from cdcv2.store.numbered import NumberedFiles
from tests.spark.replaying import PLAIN, plan, put, replayed, run, truth

pytestmark = pytest.mark.spark

ROW, OTHER = PLAIN.row([1, "one"]), PLAIN.row([2, None])
#: Two histories that cannot be distinguished by the facts of their first file, nor of the last that was read.
FIRST: list[Message] = [
    Progress([0], [1]), Updates([(ROW, 1, 1)]), Updates([(ROW, 2, 1)]), Progress([1], [9], {1: 1, 2: 1}),
    Progress([9], [10]),
]
SECOND: list[Message] = [
    Progress([0], [1]), Updates([(OTHER, 1, 1)]), Updates([(OTHER, 6, 1)]), Progress([1], [9], {1: 1, 6: 1}),
    Progress([9], [10]), Updates([(OTHER, 10, -2)]), Progress([10], [12], {10: 1}),
]


@pytest.fixture(scope="module")
def read(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ReplayPlan:
    """A replay of the first history, a message in each file."""
    folder = tmp_path_factory.mktemp("read")
    wanted = plan(folder, [put(folder / "things", FIRST, row_type=PLAIN, per_file=1)])
    run(spark, wanted)
    shutil.copytree(folder / "things", folder / "backup")
    return wanted


@pytest.fixture
def anew(read: ReplayPlan) -> Callable[[list[Message]], Path]:
    """Recreate the log, with other messages."""
    log = Path(read.logs.places[0].name)

    def make(said: list[Message]) -> Path:
        shutil.rmtree(log)
        put(log, said, row_type=PLAIN, per_file=1)
        return log

    return make


def refused(spark: SparkSession, wanted: ReplayPlan, kind: type[Exception], text: str) -> None:
    """Opening the replay raises the error, which is one of those that end with exit code 4."""
    with pytest.raises(kind, match=text) as caught:
        opened(spark, wanted, ProgressLines())
    assert Exit.UNABLE == exit_code(caught.value)
    assert "an output of their own" in str(caught.value)


def test_a_log_made_anew_with_another_history_is_refused(spark: SparkSession, read: ReplayPlan, anew) -> None:
    """It is longer than what was read, so nothing else would show it; a mix of the two would come out."""
    anew(SECOND)

    refused(spark, read, ForeignStateError, "another log that was also at .*things: file 0 ")


def test_a_log_that_is_shorter_than_what_was_read_is_refused(spark: SparkSession, read: ReplayPlan, anew) -> None:
    """With all its files removed, or recreated and not as long yet: what was read is not there."""
    anew([])
    refused(spark, read, ForeignStateError, "ends at 0 in part 0 and was read up to 5")
    anew(FIRST[:2])
    refused(spark, read, ForeignStateError, "ends at 2 in part 0 and was read up to 5")


def test_a_copy_of_the_directory_is_the_same_log(spark: SparkSession, read: ReplayPlan) -> None:
    """As is one that was restored: what the files hold counts, not their dates or their places on a disk."""
    log = Path(read.logs.places[0].name)
    shutil.rmtree(log)
    shutil.copytree(log.parent / "backup", log)

    assert {"things": 5} == {Path(place).name: parts[0] for place, parts in _positions(spark, read).items()}


def test_a_state_from_before_there_were_marks_is_gone_on_with(
    spark: SparkSession, read: ReplayPlan, anew, tmp_path
) -> None:
    """It states how far it has read, and that is all that can be checked."""
    log = Path(read.logs.places[0].name)
    shutil.rmtree(log)
    shutil.copytree(log.parent / "backup", log)
    shutil.copytree(read.state, tmp_path / "state")
    numbered = NumberedFiles(tmp_path / "state" / "manifests", "the state")
    last = numbered.numbers()[-1]
    numbered.put(last + 1, {name: said for name, said in numbered.read(last).items() if name != "marks"})
    wanted = plan(tmp_path, read.logs.places, output=read.output)
    assert [5] == [parts[0] for parts in _positions(spark, wanted).values()]

    anew([])
    refused(spark, wanted, ForeignStateError, "ends at 0 in part 0 and was read up to 5")


def test_a_log_may_have_no_file_yet_when_the_state_is_made(spark: SparkSession, tmp_path: Path) -> None:
    """Of two logs read together one has not begun: nothing is known of it, so it may become any log."""
    places = [put(tmp_path / "things", FIRST, row_type=PLAIN), put(tmp_path / "notes", [], row_type=PLAIN)]
    wanted = plan(tmp_path, places)
    run(spark, wanted)
    shutil.rmtree(tmp_path / "notes")
    put(tmp_path / "notes", SECOND, row_type=PLAIN)
    run(spark, wanted)

    assert truth({"things": FIRST, "notes": SECOND}) == replayed(spark, wanted)


def test_no_more_than_some_marks_are_kept(tmp_path: Path) -> None:
    """They are spread over the whole log, and the last file is always among them; none is taken twice."""
    put(tmp_path / "things", [Progress([time], [time + 1]) for time in range(2 * MOST + 2)], row_type=PLAIN, per_file=1)
    directory = str(tmp_path / "things")

    assert {} == marks(directory, 0, {})
    assert list(range(MOST)) == sorted(marks(directory, MOST, {}))
    every = marks(directory, MOST + 4, {0: "taken before"})
    assert [*range(0, MOST + 4, 2), MOST + 3] == sorted(every)
    assert "taken before" == every[0]
    assert [*range(0, 2 * MOST + 2, 4), 2 * MOST + 1] == sorted(marks(directory, 2 * MOST + 2, every))


def _positions(spark: SparkSession, wanted: ReplayPlan) -> dict[str, dict[int, int]]:
    return opened(spark, wanted, ProgressLines()).positions
