"""The files in deploy/ are whole: they are parsed, cdcv2 takes their command lines, and names in two places agree.

No container, cluster or service is started: what they do there is not tried here, and deploy/README.md states that.
"""

from __future__ import annotations

import configparser
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cdcv2.cli.main import COMMANDS, parser_of
from cdcv2.control.pipeline_check import check_pipeline
from cdcv2.control.pipeline_file import read_pipeline

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
MANIFEST = [one for one in yaml.safe_load_all((DEPLOY / "kubernetes" / "cdcv2.yaml").read_text("utf-8"))]
DOCKERFILE = re.sub(r"\\\n", " ", (DEPLOY / "Dockerfile").read_text("utf-8")).splitlines()
#: Directive of a Dockerfile -> its JSON: the last one counts.
BUILT = {word: json.loads(line.removeprefix(word)) for line in DOCKERFILE for word in ("ENTRYPOINT", "CMD")
         if line.startswith(f"{word} ")}  # fmt: skip


def unit(name: str) -> configparser.ConfigParser:
    """A unit of systemd. A repeated key would be an error here."""
    found = configparser.ConfigParser(interpolation=None, delimiters="=", comment_prefixes="#")
    found.optionxform = str  # type: ignore[assignment,method-assign]  # keys have capitals
    found.read_string((DEPLOY / "systemd" / name).read_text("utf-8"))
    return found


UNITS = {path.name: unit(path.name) for path in sorted((DEPLOY / "systemd").iterdir())}


def of_kind(kind: str) -> dict[str, Any]:
    """The one object of a kind in the manifest."""
    (found,) = [one for one in MANIFEST if one["kind"] == kind]
    return dict(found)


POD = of_kind("StatefulSet")["spec"]["template"]["spec"]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Where a command line stands -> its words behind cdcv2."""
    yield "Dockerfile", BUILT["CMD"]
    yield "compose.yaml", COMPOSE["services"]["cdcv2"]["command"]
    yield "cdcv2.yaml", POD["containers"][0]["args"]
    for name, found in UNITS.items():
        if found.has_option("Service", "ExecStart"):
            program, *words = shlex.split(found["Service"]["ExecStart"])
            assert program == "/opt/cdcv2/bin/cdcv2"
            yield name, words
    for line in (DEPLOY / "README.md").read_text("utf-8").splitlines():
        words = line.strip("` ").split()
        starts = [at for at, word in enumerate(words) if word == "cdcv2" and words[at + 1:at + 2]]
        if words[:1] in (["docker"], ["kubectl"]):
            for at in starts[-1:]:
                if words[at + 1] in COMMANDS:
                    yield f"README.md: {line}", words[at + 1:]


LINES = list(command_lines())


@pytest.mark.parametrize(("where", "words"), LINES, ids=[where for where, _ in LINES])
def test_cdcv2_takes_the_command_line(where: str, words: list[str]) -> None:
    """By the parser of the command: a word that it does not have ends with SystemExit or an error."""
    name, *rest = words
    assert name in COMMANDS
    parser_of(name).parse_args(rest)


def test_there_are_as_many_as_are_written() -> None:
    """None is overlooked: three of containers, two units, and four lines of the page."""
    assert 9 == len(LINES), [where for where, _ in LINES]
    assert ["cdcv2"] == BUILT["ENTRYPOINT"]


def test_the_image_is_pinned_runs_as_no_root_and_installs_extras_that_exist() -> None:
    """As linters of Dockerfiles demand."""
    images = [line.split()[1] for line in DOCKERFILE if line.startswith("FROM ")]
    assert images and all(":" in image and not image.endswith(":latest") for image in images)
    users = [line.split()[1] for line in DOCKERFILE if line.startswith("USER ")]
    assert ["10001:10001"] == users
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    (extras,) = re.findall(r"\[([a-z,]+)\]", "\n".join(line for line in DOCKERFILE if "pip install" in line))
    assert set(extras.split(",")) <= set(settings["options.extras_require"])
    assert [] == [line for line in DOCKERFILE if "pip " in line and "--no-cache-dir" not in line]
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").split()
    # What the build reads is sent to it.
    assert not {"setup.cfg", "pyproject.toml", "README.md", "cdcv2", "schemas"} & set(ignored)


def test_the_services_name_each_other_and_no_password() -> None:
    """What one depends on is there, volumes are declared, images have a version."""
    services = COMPOSE["services"]
    assert {"postgres", "kafka", "connect", "cdcv2"} == set(services)
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert how == {"condition": "service_healthy"} and "healthcheck" in services[other], name
        named = {one.partition(":")[0] for one in service.get("volumes", ()) if not one.startswith((".", "/"))}
        assert named <= set(COMPOSE["volumes"])
        assert ":" in service["image"] and not service["image"].endswith(":latest")
        for variable, value in service["environment"].items():
            assert isinstance(value, str) and ("PASSWORD" not in variable or value.startswith("${")), variable
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", ()))
    build = services["cdcv2"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"


def test_the_units_are_for_any_pipeline_and_have_no_password() -> None:
    """A timer starts the service of its name; jobs outlive a restart of the service that keeps them."""
    for name, found in UNITS.items():
        assert "@." in name and "%i" in found["Unit"]["Description"]
        if name.endswith(".timer"):
            assert name.replace(".timer", ".service") in UNITS and found.has_option("Timer", "OnCalendar")
        else:
            assert found["Service"]["User"] == "cdcv2" and found["Service"]["EnvironmentFile"].startswith("/etc/cdcv2/")
            assert not found.has_option("Service", "Environment")
    kept = UNITS["cdcv2@.service"]["Service"]
    assert "process" == kept["KillMode"]
    # What systemd removes at its end would be taken from under the jobs.
    assert not {"PrivateTmp", "RuntimeDirectory", "DynamicUser", "ExecStopPost"} & set(kept)


def test_the_objects_of_the_manifest_name_each_other() -> None:
    """Selectors, volumes, ports and the paths of the pipeline."""
    stateful, service, config = of_kind("StatefulSet"), of_kind("Service"), of_kind("ConfigMap")
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    (container,) = POD["containers"]
    claims = {one["metadata"]["name"] for one in stateful["spec"]["volumeClaimTemplates"]}
    mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    pipeline = yaml.safe_load(config["data"]["pipeline.yaml"])

    assert ["v1", "apps/v1", "v1"] == [one["apiVersion"] for one in MANIFEST]
    assert stateful["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    assert stateful["spec"]["serviceName"] == service["metadata"]["name"] and 1 == stateful["spec"]["replicas"]
    assert claims | {one["name"] for one in POD["volumes"]} == set(mounts.values())
    assert mounts["/etc/cdcv2/pipeline.yaml"] == "pipeline" and container["args"][1] == "/etc/cdcv2/pipeline.yaml"
    assert config["metadata"]["name"] in [one["configMap"]["name"] for one in POD["volumes"] if "configMap" in one]
    assert mounts[pipeline["rows"]] == "rows" and mounts[str(Path(pipeline["state"]).parent)] == "state"
    assert pipeline["captures"]["shop"]["into"].startswith("/var/lib/cdcv2/")
    assert {container["livenessProbe"]["httpGet"]["port"]} == {one["name"] for one in container["ports"]}
    (port,) = container["ports"]
    assert port["containerPort"] == service["spec"]["ports"][0]["port"] and f":{port['containerPort']}" in str(
        container["args"])
    assert POD["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]


def test_the_pipeline_of_the_manifest_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, captured_rows: Path
) -> None:
    """With all its fields, and bindings that fit the row types; its passwords come from the environment."""
    text = of_kind("ConfigMap")["data"]["pipeline.yaml"].replace("/etc/cdcv2/rows", str(captured_rows))
    (tmp_path / "pipeline.yaml").write_text(text, "utf-8")
    for name in sorted(set(re.findall(r"\$\{([A-Z_]+)\}", text))):
        monkeypatch.setenv(name, "secret")
    pipeline = read_pipeline(tmp_path / "pipeline.yaml")

    assert {"shop"} == set(check_pipeline(pipeline))


@pytest.fixture
def captured_rows() -> Path:
    """Row types of a shop."""
    return ROOT / "cdcv2" / "demo" / "recorded" / "rows"
