"""The files of the pages of materialization work as they stand there, on what a capture wrote; but for the address."""

from __future__ import annotations

import inspect
import re
import shutil
from pathlib import Path

import pytest

from cdcv2.control.materialization_file import read_plan
from cdcv2.materialize.targets.webhook.driver import WebhookDriver
from cdcv2.servers.postgres import Postgres
from tests.cli.conftest import Run

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: That of the command, and those of the targets.
PAGE = "".join(
    (DOCS / f"{name}.md").read_text("utf-8") for name in ("materialization", "target-files", "target-pushes")
)
#: The YAML files that they show.
FILES = [one.split("```")[0] for one in PAGE.split("```yaml\n")[1:]]


@pytest.mark.integration
def test_the_file_of_the_page_keeps_two_tables(
    run: Run, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They hold what the logs come to."""
    shutil.copytree(captured / "logs", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    text = FILES[0]
    assert "cdcv2 materialize shop.yaml --follow\ncdcv2 compare shop.yaml\n" in PAGE
    Path("shop.yaml").write_text(re.sub("host=localhost port=5432 dbname=copy user=copy ", "", text), "utf-8")
    with Postgres() as postgres:
        for name, value in postgres.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("COPY_PASSWORD", postgres.environment.get("PGPASSWORD", "none"))
        said, compared = run("materialize", "shop.yaml"), run("compare", "shop.yaml")
        with postgres.connect() as connection:
            orders = connection.execute("SELECT count(*), sum(cust) FROM orders").fetchone()
            items = connection.execute("SELECT sum(items), sum(cdcv2_count) FROM items_per_order").fetchone()

    assert (0, 0) == (said.code, compared.code), said.err + compared.out + compared.err
    lines = run("as-of", "logs", "--table", "public.orders").out.splitlines()[1:]
    bought = run("as-of", "logs", "--table", "public.order_items").out.splitlines()[1:]
    assert (len(lines), sum(int(line.split(",")[1]) for line in lines)) == orders
    assert (sum(int(line.rsplit(",", 1)[1] or 0) for line in bought), len(bought)) == items


@pytest.mark.parametrize(
    ("target", "said"),
    [("{driver: lake, folder: lake}", "open_lake("), ("{driver: delta, folder: tables}", "open_delta(")],
)
def test_what_the_page_reads_of_a_lake_and_of_delta_tables_is_there(
    run: Run, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    target: str, said: str,
) -> None:
    """The same bindings, into files, with the recovery log that the page names; then its own lines of Python."""
    pytest.importorskip("pyarrow" if "lake" in target else "deltalake")
    shutil.copytree(captured / "logs", tmp_path / "logs")
    monkeypatch.chdir(tmp_path)
    text = re.sub(r"\ntarget: .*", f"\ntarget: {target}\nrecovery_log: shop-recovery", FILES[0])
    assert target in PAGE and "`recovery_log: shop-recovery`" in PAGE
    Path("shop.yaml").write_text(text, "utf-8")
    kept, equal = run("materialize", "shop.yaml"), run("compare", "shop.yaml")
    (code,) = (one.split("```")[0] for one in PAGE.split("```python\n")[1:] if said in one.split("```")[0])
    exec(compile(code, "materialization.md", "exec"), {})

    assert (0, 0) == (kept.code, equal.code), kept.err + equal.out + equal.err
    rows = [line.split()[1] for line in equal.out.splitlines()[:2]]
    assert rows == capsys.readouterr().out.splitlines()[0].split()[1:]


def test_the_page_says_what_a_webhook_may_be_told(
    tmp_path: Path, captured: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its settings are those of the driver, and the numbers its defaults."""
    (hook,) = (one for one in FILES if "driver: webhook" in one)
    shutil.copytree(captured / "logs", tmp_path / "logs")
    monkeypatch.setenv("TOKEN", "t")
    bindings = "bindings: [{log: public.orders, target: orders, key: [id], delta: true}]\n"
    (tmp_path / "hook.yaml").write_text("materialization: shop\nlogs: logs\n" + bindings + hook, "utf-8")
    driver = read_plan(str(tmp_path / "hook.yaml")).driver()
    settings = inspect.signature(WebhookDriver).parameters

    for name in ("batch", "batch_bytes", "attempts", "timeout"):
        assert f" {name}: {int(settings[name].default)} " in hook, name
    assert isinstance(driver, WebhookDriver)
