"""Tables are called as their database calls them; only what no folder can be called is refused."""

from __future__ import annotations

import pytest

from cdcv2.errors import UsageError
from cdcv2.logs.log_names import check_table, table_of


@pytest.mark.parametrize("table", ["public.orders", "größe.тест", "public.My Tab=le, x", "_a:b.c[1]*\\", "x" * 255])
def test_a_name_that_a_folder_can_have_is_taken(tmp_path, table: str) -> None:
    """A folder is made of it."""
    (tmp_path / check_table(table)).mkdir()
    assert [table] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("table", "why"),
    [("", "1 to 255 bytes"), (".", "dots"), ("..", "dots"), ("a.b/c", "'/'"), ("a.\0", r"'\\x00'"), ("a\nb", r"'\\n'"),
     ("é" * 128, "255 bytes")],
)
def test_another_name_is_refused_with_the_reason(table: str, why: str) -> None:
    """It would name another folder, or none."""
    with pytest.raises(UsageError, match=f"cannot be taken.*{why}"):
        check_table(table)


def test_a_log_is_named_with_or_without_its_table() -> None:
    """What stands before the sign is a table only where it is no path and no topic."""
    assert ("orders", "logs/a=b") == table_of("orders=logs/a=b")
    assert (None, "/logs/a=b") == table_of("/logs/a=b")
    assert (None, "kafka:a=b") == table_of("kafka:a=b")
    assert (None, "=b") == table_of("=b")
