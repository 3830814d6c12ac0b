"""JSON from others is read as its reader asks for, and one error states what is wrong."""

from __future__ import annotations

from decimal import Decimal

import pytest

from cdcv2.core.json_text import parse_json


def test_the_reader_says_what_numbers_become() -> None:
    """A number that Python would round can be kept as it was written."""
    assert {"n": Decimal("0.10000000000000000001")} == parse_json('{"n": 0.10000000000000000001}', parse_float=Decimal)
    assert {"n": 0.5} == parse_json(b'{"n": 0.5}')


@pytest.mark.parametrize("text", ["", "{", b"\xff\xfe\xff", "[" * 200_000, "1" * 5000])
def test_what_is_no_json_is_one_error(text: str | bytes) -> None:
    """Whatever Python itself would raise."""
    with pytest.raises(ValueError):
        parse_json(text)
