"""What `--help` shows as an example works: it is parsed, and run where it needs no server."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from cdcv2.cli.main import COMMANDS, _front, _module as module_of, parser_of
from cdcv2.control.catalogue import take_catalogue
from cdcv2.control.entries import CatalogueEntry, Kind
from cdcv2.control.owner import OwnedFolder
from cdcv2.core.antichain import Antichain
from cdcv2.logs.quarantine import Quarantine
from cdcv2.logs.remap_files import DirectoryRemap
from cdcv2.spark import materialize, replay
from cdcv2.spark.capture import job as capture_job
from cdcv2.timeline.minting import agree, follow, mint, run as minted
from cdcv2.timeline.partitioned import frontier_of, offsets
from cdcv2.timeline.shared_remap import SharedRemap
from tests.cli.conftest import Run
from tests.cli.test_command_rows import ENVELOPE

LAKE = """
materialization: shop
logs: logs
bindings:
  - {log: public.orders, target: orders, key: [id]}
  - {log: public.order_items, target: items}
target: {driver: lake, folder: lake}
recovery_log: recovery
"""
PIPELINE = """
pipeline: shop
sources: {shop: {prefix: clean_full}}
captures: {shop: {from: topics.jsonl.gz, into: of-pipeline}}
views:
  shop-files:
    bindings: [{log: public.orders, target: orders, key: [id]}]
    target: {driver: lake, folder: lake-of-pipeline}
    recovery_log: recovery-of-pipeline
"""
JOB_MODULES: dict[str, ModuleType] = {"capture": capture_job, "materialize": materialize, "replay": replay}
JOBS = {name: module.parser for name, module in JOB_MODULES.items()}
EXAMPLES = [(name, line) for name in COMMANDS for line, _ in module_of(name).EXAMPLES]
# Those of jobs start processes, which their own tests end.
SERVERS = ("kafka", "--source", "cdcv2 demo", "cdcv2 doctor", "cdcv2 plan", "cdcv2 up", "cdcv2 down", "cdcv2 status",
           "cdcv2 explain", "cdcv2 output", "cdcv2 metrics", "cdcv2 instance", "cdcv2 page", "cdcv2 peek", "cdcv2 tail",
           "cdcv2 replicas")


@pytest.fixture
def folder(captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with all that the examples speak of; a copy, as some write into it."""
    shutil.copytree(captured, tmp_path, dirs_exist_ok=True)
    shutil.copytree(tmp_path / "logs", tmp_path / "copies")
    shutil.copytree(tmp_path / "temp", tmp_path / "logs" / "_temp" / "bank")
    envelope = {**ENVELOPE, "payload": {"source": {"schema": "public", "table": "orders"}}}
    (tmp_path / "record.json").write_text(json.dumps(envelope), "utf-8")
    (tmp_path / "shop-lake.yaml").write_text(LAKE, "utf-8")
    (tmp_path / "pipeline.yaml").write_text(PIPELINE, "utf-8")
    (tmp_path / "web").mkdir()
    clicks = {"type": "record", "name": "clicks", "fields": [{"name": "page", "type": "string"}]}
    (tmp_path / "web" / "clicks.avsc").write_text(json.dumps(clicks), "utf-8")
    click = {"topic": "web.clicks", "partition": 0, "offset": 0, "value": '{"page": "/"}'}
    (tmp_path / "clicks.jsonl").write_text(json.dumps(click), "utf-8")
    (tmp_path / "market").mkdir()
    (tmp_path / "market" / "prices.avsc").write_text(json.dumps({**clicks, "name": "prices"}), "utf-8")
    price = {**click, "topic": "market.prices", "value": '{"complete_before": 6, "rows": 0}'}
    (tmp_path / "prices.jsonl").write_text(json.dumps(price), "utf-8")
    log, shared = DirectoryRemap(tmp_path / "remap"), SharedRemap(recipe="v1")
    minted(log, follow(shared))
    minted(log, agree(shared, lambda: shared.propose_hold("/data/old-logs", 0)))
    places = {"bank": Antichain([0x1B00]), "orders": offsets({0: 18, 1: 4}), "shop.transaction": offsets({0: 18})}
    minted(log, mint(shared, frontier_of(places), lambda: 3000))
    disputed(tmp_path / "quarantine")
    with OwnedFolder(tmp_path / "shop.state", 5.0) as owned, take_catalogue(owned, "shop", 5.0, "shop") as catalogue:
        catalogue.write([CatalogueEntry("7f", Kind.TOPIC, "shop", "Kafka k:9092", {}, True, ("shop",))])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def disputed(folder: Path) -> None:
    """One case in quarantine, of the name that the examples have; and a decision about it."""
    kept = Quarantine(folder)
    name = kept.keep({
        "version": 1, "table": "orders", "timeline": "shop", "what": "diff", "text": "two diffs", "time": 17,
        "row": {"id": 5}, "first": 1, "second": 2, "counted": [1, 2], "positions": [None, None],
        "messages": [None, None],
        "updates": [{"row": {"id": 7}, "diff": 1, "position": None}],
    })
    (folder / f"{name}.json").rename(folder / "4f1c09aa27be.json")
    kept.decide(kept.case("4f").decision(None, None, 1))


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_is_parsed(name: str, line: str) -> None:
    """By the parser whose help shows it."""
    words = shlex.split(line)

    assert ["cdcv2", name] == words[:2]
    parser_of(name).parse_args(words[2:])


@pytest.mark.parametrize("line", [line for _, line in EXAMPLES if not any(word in line for word in SERVERS)])
def test_an_example_without_servers_runs(run: Run, folder: Path, line: str) -> None:
    """And ends well."""
    words = shlex.split(line)[1:]
    if words[0] in ("compare", "orphans", "repair"):
        assert 0 == run("materialize", words[1]).code
    for target in {"mangle": ["copies"], "capture": ["logs"]}.get(words[0], []):
        shutil.rmtree(folder / target)
    said = run(*words)

    assert 0 == said.code, said.err
    if "--output" in words:
        assert (folder / words[words.index("--output") + 1]).stat().st_size
    else:
        assert said.out


def helps() -> dict[str, str]:
    """Program -> its help: of the command, of each sub-command, and of each job."""
    return {"cdcv2": _front().format_help()} | {
        made.prog: made.format_help() for made in [*map(parser_of, COMMANDS), *(parser() for parser in JOBS.values())]
    }


def test_a_help_fits_into_80_columns_on_any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every line of it, examples and exit codes included; and it is the same where there is room for more."""
    monkeypatch.setenv("COLUMNS", "80")
    narrow = helps()
    monkeypatch.setenv("COLUMNS", "200")

    assert [] == [f"{name}: {line}" for name, text in narrow.items() for line in text.splitlines() if len(line) > 80]
    assert len(COMMANDS) + len(JOBS) + 1 == len(narrow)
    assert narrow == helps()


def test_a_help_shows_its_examples_so_that_they_can_be_copied() -> None:
    """A command of several lines is one to a shell; every help has an example."""
    shown = {name: text.split("examples:\n")[1].replace("\\\n", " ") for name, text in helps().items()}
    expected = {f"cdcv2 {name}": [line for line, _ in module_of(name).EXAMPLES] for name in COMMANDS}
    expected |= {f"{name}.py": [line for line, _ in module.EXAMPLES] for name, module in JOB_MODULES.items()}

    for name, lines in expected.items():
        commands = [shlex.split(line) for line in shown[name].splitlines() if line.startswith("  ") and "#" not in line]
        assert [] == [line for line in lines if shlex.split(line) not in commands], name
        assert lines, name


@pytest.mark.parametrize(("name", "line"), [(name, line) for name in JOBS for line, _ in JOB_MODULES[name].EXAMPLES])
def test_an_example_of_a_job_is_parsed(name: str, line: str) -> None:
    """By the job's own parser, behind the name of its file."""
    words = shlex.split(line)

    JOBS[name]().parse_args(words[words.index(f"streaming_jobs/{name}.py") + 1:])


def test_each_command_has_an_example_with_each_kind_of_log() -> None:
    """In a directory and in Kafka, for what reads logs."""
    for name in ("inspect", "replay", "as-of", "verify", "mangle"):
        lines = [line for line, _ in module_of(name).EXAMPLES]
        assert {True, False} == {"kafka:" in line for line in lines}, name
