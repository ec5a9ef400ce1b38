"""``pip install .``: a wheel that is built and installed into its own environment is complete and works.

The test needs no network: the build runs in this environment, and the wheel uses its dependencies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

from tocsin import __version__

ROOT = Path(__file__).resolve().parent.parent
BUILT_FROM = ["pyproject.toml", "README.md", "LICENSE", "examples", "src"]


def _run(*command: str | Path, cwd: Path) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TOCSIN_"))}
    ran = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=200)
    assert ran.returncode == 0, f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a source distribution, from a copy of the repository, because a build leaves files."""
    folder = tmp_path_factory.mktemp("packaging")
    tree = folder / "tree"
    tree.mkdir()
    for name in BUILT_FROM:
        left_out = shutil.ignore_patterns("__pycache__", "*.egg-info")
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=left_out)
        else:
            shutil.copy(ROOT / name, tree / name)
    build = "import sys; from setuptools import build_meta; print(getattr(build_meta, sys.argv[1])(sys.argv[2]))"
    source = _run(sys.executable, "-c", build, "build_sdist", folder, cwd=tree).splitlines()[-1]
    shutil.unpack_archive(folder / source, folder / "source", filter="data")
    (unpacked,) = (folder / "source").iterdir()
    return folder / _run(sys.executable, "-c", build, "build_wheel", folder, cwd=unpacked).splitlines()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns the folder of its commands."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index"]
    _run(*pip, "--no-compile", wheel, cwd=folder)
    (site,) = (folder / "lib").glob("python*/site-packages")
    # A folder in a .pth file is searched, but .pth files in it are not read: this checkout stays out.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def test_the_wheel_contains_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name: archive.read(name) for name in archive.namelist() if name.startswith("tocsin/")}
    package = ROOT / "src"
    files = [path for path in (package / "tocsin").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert held == {str(path.relative_to(package)): path.read_bytes() for path in files}
    assert {"tocsin/py.typed", "tocsin/demo/city/emergency.sql", "tocsin/cli/project/app.sql"} <= set(held)


def test_the_metadata_matches_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
        assert any(each.endswith("licenses/LICENSE") for each in archive.namelist())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert metadata["Version"] == __version__ == project["version"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == project["requires-python"]
    assert str(metadata.get_payload()).startswith("# Tocsin")


def test_the_installed_command_works(installed: Path, tmp_path: Path) -> None:
    assert _run(installed / "tocsin", "--version", cwd=tmp_path) == f"tocsin {__version__}\n"
    _run(installed / "tocsin", "init", "air", cwd=tmp_path)
    assert "CREATE CONTINUOUS CHANNEL" in (tmp_path / "air" / "app.sql").read_text()
    data = "(r.files('tocsin.demo.city') / 'emergency.sql').read_text()"
    read = f"import tocsin, importlib.resources as r; print(tocsin.__file__, len({data}))"
    where, size = _run(installed / "python", "-c", read, cwd=tmp_path).split()
    assert where.startswith(str(installed.parent)) and int(size) > 1000
