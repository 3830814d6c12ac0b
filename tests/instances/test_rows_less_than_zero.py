"""Rows that are there less than zero times, as in a log that lacks its beginning: they are no answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import cdcv2
from cdcv2.cli.main import main
from cdcv2.errors import MalformedError
from tests.market import PRICES, Market
from tests.serving import served

PATIENCE = 60.0


def test_they_are_no_answer_as_they_are_none_of_as_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same message, without an option that an instance has not; what is at other keys is answered."""
    market = Market(tmp_path)
    market.writer.extend([(PRICES.row(["plum", price]), 2, diff) for price, diff in ((1, 2), (2, -2))])
    market.reprice(2)
    less = 'at 2, {"name": "plum", "price": 2} is in prices -2 times: the log does not hold the whole history'
    with served(market.instance, market.place):
        client = cdcv2.connect(market.place)
        with pytest.raises(MalformedError) as raised:
            client.peek({"prices": ["pear", "plum"]}, at=2, timeout=PATIENCE)
        assert str(raised.value).startswith(less)
        with pytest.raises(MalformedError, match="at 2, .* -2 times"):
            client.peek({"prices": "plum"}, timeout=PATIENCE)
        with pytest.raises(MalformedError) as of_logs:
            cdcv2.open(str(tmp_path / "prices")).as_of(2)
        assert str(of_logs.value) == f"{raised.value} (see --start)"
        for words in ([], ["--json"]):
            assert main(["peek", "prices=plum", "--at", "2", "--instance", str(market.place), *words]) == 3
            out, err = capsys.readouterr()
            assert out == "" and less in err
        assert client.peek({"prices": "plum"}, at=1, timeout=PATIENCE)["prices"].to_arrow().num_rows == 0
        assert [row.price for row in client.peek({"prices": "pear"}, at=2, timeout=PATIENCE)["prices"]] == [2]
