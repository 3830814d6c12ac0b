"""What a command line names, a log or a time, is taken as it is meant or refused; histories begin at the least time."""

from __future__ import annotations

from pathlib import Path

import pytest

from cdcv2.core.order import Product
from cdcv2.logs.directory import DirectoryLog
from cdcv2.protocol.messages import Progress, Updates
from tests.cli.conftest import APPLE, HISTORY, MARKET, PEAR, PRICES, Run, write


@pytest.fixture
def products(tmp_path: Path) -> Path:
    """A good log of product times."""
    log = DirectoryLog(tmp_path / "products", PRICES, create=True, times=2, description=MARKET)
    log.send(Updates([(APPLE, Product(0, 1), 1), (PEAR, Product(1, 0), 1)]))
    upper = [Product(2, 0), Product(0, 2)]
    log.send(Progress([Product(0, 0)], upper, {Product(0, 1): 1, Product(1, 0): 1}))
    log.flush()
    return tmp_path / "products"


@pytest.mark.parametrize("command", ["verify", "replay", "as-of"])
def test_a_log_of_product_times_begins_where_no_coordinate_has_moved(run: Run, products: Path, command: str) -> None:
    """Without --start, too: the least of its times is known from the log."""
    said = run(command, products)

    assert (0, True) == (said.code, "complete through every time not beyond [0,2 2,0]" in said.out + said.err)


def test_an_empty_log_of_product_times_claims_nothing(run: Run, tmp_path: Path) -> None:
    """As one of integers does."""
    DirectoryLog(tmp_path / "products", PRICES, create=True, times=2)
    said = run("verify", tmp_path / "products")

    assert (1, "incomplete: so far nothing is complete yet") == (said.code, said.out.splitlines()[-1])


@pytest.mark.parametrize("command", ["verify", "replay"])
def test_logs_of_different_kinds_of_times_are_of_no_one_timeline(
    run: Run, prices: Path, products: Path, command: str
) -> None:
    """Exit 2, and both are named with their kinds."""
    said = run(command, prices, products)

    assert (2, "") == (said.code, said.out)
    assert "prices (integers), products (Products of 2)" in said.err


def test_a_materialization_of_product_times_is_refused(run: Run, products: Path, tmp_path: Path) -> None:
    """Exit 2, with the line of the file, before anything is made."""
    pytest.importorskip("yaml")
    (tmp_path / "m.yaml").write_text(
        "materialization: m\nlogs: {p: products}\nbindings: [{log: p, target: p, key: [id]}]\n"
        "target: {driver: lake, folder: lake}\nrecovery_log: recovery\n", "utf-8"
    )  # fmt: skip
    said = run("materialize", tmp_path / "m.yaml")

    assert (2, True) == (said.code, "products has Product times" in said.err)
    assert not (tmp_path / "lake").exists()


def test_without_a_finished_time_there_is_no_table(run: Run, prices: Path, tmp_path: Path) -> None:
    """Exit 1 and nothing printed: an empty table would mean that it is known to be empty."""
    begun = write(tmp_path / "begun", HISTORY[0])
    later = run("as-of", write(tmp_path / "empty", Progress([0], [10])), "--start", 10)
    said = run("as-of", begun)

    assert (1, "", True) == (said.code, said.out, "no time is finished in begun yet" in said.err)
    assert (1, "", True) == (later.code, later.out, "no time is finished in empty yet" in later.err)


@pytest.mark.parametrize(
    "words",
    [("verify", ""), ("verify", "prices="), ("replay", "kafka:"), ("as-of", ""), ("mangle", "prices", ""),
     ("mangle", "", "copy"), ("where", ""), ("open-transactions", ""),
     ("capture", "x", "--prefix", "p", "--rows", "rows", "--into", ""),
     ("capture", "x", "--prefix", "p", "--rows", "", "--into", "logs"),
     ("as-of", "prices", "--table", "")],
)  # fmt: skip
def test_a_name_that_is_empty_is_not_the_current_directory(
    run: Run, prices: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """A variable that was not set names nothing. Exit 2."""
    monkeypatch.chdir(prices.parent)
    said = run(*words)

    assert (2, "", True) == (said.code, said.out, "names nothing" in said.err)
    assert [prices] == list(prices.parent.iterdir())


def test_a_path_that_is_there_is_not_taken_apart(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders named like partitions are usual: d=1/prices is a log, and not the log prices of a table d."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d=1").mkdir()
    write(Path("d=1/prices"), *HISTORY)
    there, named = run("verify", "d=1/prices"), run("verify", "other=d=1/prices")

    assert (0, True) == (there.code, there.out.startswith("prices: "))
    assert (0, True) == (named.code, named.out.startswith("other: "))


@pytest.mark.parametrize("time", ["1_0", "٣", "+3", " 3", "3,٣", "-1", ""])
@pytest.mark.parametrize("option", ["--at", "--start"])
def test_a_time_is_written_in_the_digits_0_to_9(run: Run, prices: Path, option: str, time: str) -> None:
    """Whatever else Python takes for an integer is a slip of somebody's. Exit 2."""
    said = run("as-of", prices, f"{option}={time}")

    assert (2, "", True) == (said.code, said.out, f"{time!r} is no time" in said.err)
