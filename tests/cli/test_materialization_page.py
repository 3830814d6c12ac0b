"""The file in docs/materialization.md works as it stands there, on what a capture wrote; but for the address."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from cdcv2.embedded.postgres import Postgres
from tests.cli.conftest import Run

pytestmark = pytest.mark.integration
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "materialization.md").read_text("utf-8")


def test_the_file_of_the_page_keeps_two_tables(
    run: Run, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold what the logs come to."""
    shutil.copytree(captured / "logs", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    text = PAGE.split("```yaml\n")[1].split("```")[0]
    assert "cdcv2 materialize shop.yaml --follow\ncdcv2 compare shop.yaml\n" in PAGE
    Path("shop.yaml").write_text(re.sub("host=localhost dbname=shop user=shop ", "", text), "utf-8")
    with Postgres() as postgres:
        for name, value in postgres.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("SHOP_PASSWORD", postgres.environment.get("PGPASSWORD", "none"))
        said, compared = run("materialize", "shop.yaml"), run("compare", "shop.yaml")
        with postgres.connect() as connection:
            orders = connection.execute("SELECT count(*), sum(cust) FROM orders").fetchone()
            items = connection.execute("SELECT sum(items), sum(cdcv2_count) FROM items_per_order").fetchone()

    assert (0, 0) == (said.code, compared.code), said.err + compared.out + compared.err
    lines = run("as-of", "logs", "--table", "public.orders").out.splitlines()[1:]
    bought = run("as-of", "logs", "--table", "public.order_items").out.splitlines()[1:]
    assert (len(lines), sum(int(line.split(",")[1]) for line in lines)) == orders
    assert (sum(int(line.rsplit(",", 1)[1] or 0) for line in bought), len(bought)) == items
