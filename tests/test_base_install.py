"""`pip install cdcv2` alone gives the protocol, files and the command: no Spark, no Java, no Kafka.

Proved with the wheel itself, unpacked into an empty folder, in a Python that refuses to import anything but the
standard library and the three packages that the base install names.
"""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from cdcv2.spark_files import SPARK_JOBS

ROOT = Path(__file__).resolve().parent.parent

# Put in front of a script: what is neither the standard library nor a dependency of the base install does not exist.
ONLY_THE_BASE = """
import sys
sys.path.insert(0, sys.argv[1])

class Absent:
    allowed = set(sys.stdlib_module_names) | {"cdcv2", "pyarrow", "sortedcontainers"}

    def find_spec(self, name, path=None, target=None):
        # What sysconfig reads is of the standard library, under a name of the platform.
        if name.partition(".")[0] not in self.allowed and not name.startswith("_sysconfigdata_"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that nothing an earlier build left in the checkout gets into it."""
    checkout = tmp_path_factory.mktemp("checkout")
    leave = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("cdcv2", "schemas"):
        shutil.copytree(ROOT / name, checkout / name, ignore=leave)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", "."]
    built = subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)
    assert 0 == built.returncode, built.stdout + built.stderr
    (path,) = (checkout / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the wheel installs."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run_with_the_base_only(installed: Path, script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-c", ONLY_THE_BASE + script, str(installed)]
    return subprocess.run(command, cwd=installed, capture_output=True, text=True, check=False)


def files_of(folder: Path, name: str) -> set[str]:
    return {
        f"{name}/{path.relative_to(folder)}"
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel: Path) -> None:
    """A file that setup.cfg forgets works in a checkout and is missing for everybody else."""
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    wanted = files_of(ROOT / "cdcv2", "cdcv2") | files_of(ROOT / "schemas", "cdcv2/schemas")

    assert set() == wanted - held
    assert set() == held - wanted
    assert {"cdcv2/py.typed", "cdcv2/schemas/message.avsc"} <= held


def test_every_package_is_listed() -> None:
    """setup.cfg names the packages one by one, as the folder of the format lies outside."""
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    listed = setup["options"]["packages"].split()
    found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "cdcv2").rglob("__init__.py")}

    assert len(set(listed)) == len(listed)
    assert found | {"cdcv2.schemas"} == set(listed)


def test_iter_replays_without_any_extra(installed: Path) -> None:
    """The third door: `import cdcv2` in a notebook, with nothing else on the machine."""
    ran = run_with_the_base_only(
        installed,
        """
import cdcv2
log = [cdcv2.Progress([0], [3], {1: 1}), cdcv2.Updates([("a", 1, 1), ("a", 1, 1)]), cdcv2.Progress([3], [], {})]
print([(updates, frontier.elements) for updates, frontier in cdcv2.Iter(log)])
print(cdcv2.__file__)
""",
    )

    assert "" == ran.stderr
    assert f"[([], (1,)), ([('a', 1, 1)], (3,)), ([], ())]\n{installed}/cdcv2/__init__.py\n" == ran.stdout


def test_the_format_can_be_read_where_it_is_installed(installed: Path) -> None:
    """Other programs ask the package for the schema; it is at one name in a checkout and in an installation."""
    ran = run_with_the_base_only(
        installed,
        """
import importlib.resources, json
print(json.loads(importlib.resources.files("cdcv2.schemas").joinpath("message.avsc").read_text("utf-8"))[1]["name"])
""",
    )

    assert ("progress\n", "") == (ran.stdout, ran.stderr)


def test_every_base_module_imports_without_any_extra(installed: Path) -> None:
    """What needs an extra asks for it when it is used, so that looking at a log in files needs no Kafka.

    The two modules that are written on the libraries of the API are imported when it is asked for.
    """
    on_libraries = {"cdcv2.control.api.application", "cdcv2.control.api.server"}
    every = {path.parent.name for path in (installed / "cdcv2").glob("*/__init__.py")}
    boxes = sorted(every - {"spark", "servers", "demo"})
    names = [
        ".".join(path.relative_to(installed).with_suffix("").parts).removesuffix(".__init__")
        for box in boxes
        for path in sorted((installed / "cdcv2" / box).rglob("*.py"))
    ]
    own = [name for name in names if name not in on_libraries]
    ran = run_with_the_base_only(installed, f"import importlib\nfor name in {own}: importlib.import_module(name)\n")

    assert ("", "") == (ran.stdout, ran.stderr)
    assert on_libraries <= set(names)


def test_the_spark_box_names_the_extra_that_it_needs(installed: Path) -> None:
    """A missing package is the commonest error of a first day; its message is the cure."""
    ran = run_with_the_base_only(installed, "import cdcv2.spark.session\n")

    assert ".[spark]" in ran.stderr.splitlines()[-1]


def test_the_command_answers_without_any_extra(installed: Path) -> None:
    """`cdcv2 --help` is what one types first."""
    ran = run_with_the_base_only(installed, "sys.argv = ['cdcv2', '--help']\nfrom cdcv2.cli.main import main\nmain()\n")

    assert "" == ran.stderr
    assert "usage: cdcv2" in ran.stdout


def test_the_jobs_on_spark_are_installed_and_the_command_prints_where(installed: Path) -> None:
    """`pip install` is all that spark-submit needs of us."""
    ran = run_with_the_base_only(
        installed, "from cdcv2.cli.main import main\nfor job in ('capture', 'replay', 'materialize'):\n"
        "    main(['job-path', job])\n",
    )
    printed = [Path(line) for line in ran.stdout.splitlines()]

    assert "" == ran.stderr
    assert [installed.resolve() / "cdcv2" / "spark" / "jobs" / f"{job}.py" for job in SPARK_JOBS] == printed
    assert [] == [path for path in printed if not path.is_file()]


def test_the_zip_for_spark_is_made_of_a_clone_by_python_alone(tmp_path: Path) -> None:
    """`make zip` sets nothing up; the zip has what the wheel has that is imported or read."""
    making = ["make", "-n", "zip", f"VENV={tmp_path}/none", f"SMALL={tmp_path}/none"]
    planned = subprocess.run(making, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = [sys.executable, "-I", "-S", ROOT / "cdcv2" / "servers" / "package_zip.py", tmp_path]
    subprocess.run(command, check=True)
    with zipfile.ZipFile(tmp_path / "cdcv2.zip") as archive:
        held = archive.namelist()

    assert "pip" not in planned and "cdcv2/servers/package_zip.py .work" in planned
    assert len(held) == len(set(held))
    everything = files_of(ROOT / "cdcv2", "cdcv2") | files_of(ROOT / "schemas", "cdcv2/schemas")
    assert {name for name in everything if name.endswith((".py", ".avsc", ".lock", "py.typed"))} == set(held)
