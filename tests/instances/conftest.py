"""What tests of instances share: logs that an instance may be over."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from cdcv2.cli.main import main
from cdcv2.instances.run import client as client_module


@pytest.fixture(autouse=True)
def busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes behind a time-out does not depend on how busy the machine is."""
    monkeypatch.setattr(client_module, "_LAST", 60.0)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a capture of the recorded topics of the demo wrote."""
    folder = tmp_path_factory.mktemp("captured")
    with resources.as_file(resources.files("cdcv2.demo") / "recorded") as recorded:
        words = ["capture", recorded / "topics.jsonl.gz", "--prefix", "clean_full", "--rows", recorded / "rows",
                 "--into", folder / "logs"]  # fmt: skip
        assert main([str(word) for word in words]) == 0
    return folder / "logs"
