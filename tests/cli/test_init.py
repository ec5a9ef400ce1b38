"""``tocsin init``: what it writes, and what it refuses."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from pytest import MonkeyPatch

from served import tocsin
from tocsin import config
from tocsin.cli.init import NAMES
from tocsin.cluster.statements.ast import CreateChannel, CreateDataset, CreateFeed
from tocsin.cluster.statements.parser import iter_statements


def test_init_writes_a_valid_project(tmp_path: Path) -> None:
    ran = tocsin("init", str(tmp_path / "new" / "air"))
    assert (ran.returncode, ran.stderr) == (0, b"")
    folder = tmp_path / "new" / "air"
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    assert f"cd {folder} " in ran.stdout.decode()
    statements = [each.statement for each in iter_statements((folder / "app.sql").read_text())]
    assert {CreateDataset, CreateFeed, CreateChannel} <= {type(each) for each in statements}
    assert config.load(str(folder / "tocsin.toml"), env={}).retention == 3600
    for script in folder.glob("*.py"):
        assert ast.get_docstring(ast.parse(script.read_text())), script


def test_init_lists_every_file_as_json(tmp_path: Path) -> None:
    ran = tocsin("init", str(tmp_path), "--json")
    assert json.loads(ran.stdout) == {"folder": str(tmp_path), "files": list(NAMES)}


def test_the_folder_may_be_the_current_one(tmp_path: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert b"next: cat README.md" in tocsin("init", ".").stdout


def test_hidden_files_are_ignored_unless_init_would_overwrite_them(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    assert tocsin("init", str(tmp_path)).returncode == 0
    other = tmp_path / "other"
    other.mkdir()
    (other / ".gitignore").write_text("mine")
    assert tocsin("init", str(other)).returncode == 1
    assert (other / ".gitignore").read_text() == "mine"


def test_force_overwrites_its_own_files_and_leaves_others(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text("mine")
    (tmp_path / "notes.txt").write_text("mine")
    refused = tocsin("init", str(tmp_path))
    assert refused.returncode == 1
    assert (tmp_path / "app.sql").read_text() == "mine" and not (tmp_path / "README.md").exists()
    assert b"is not empty: it has app.sql, notes.txt\n" in refused.stderr and b"--force" in refused.stderr
    assert tocsin("init", str(tmp_path), "--force").returncode == 0
    assert "BadAir" in (tmp_path / "app.sql").read_text() and (tmp_path / "notes.txt").read_text() == "mine"


def test_an_unusable_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    (tmp_path / "blocked" / "app.sql").mkdir(parents=True)
    for name, words in [
        ("file", "is not a folder"),
        ("file/below", "Not a directory"),
        ("nowhere", "is not a folder"),
        ("blocked", "Is a directory"),
        ("x" * 300, "File name too long"),
    ]:
        ran = tocsin("init", str(tmp_path / name), *(["--force"] if name == "blocked" else []))
        assert ran.returncode == 1, name
        assert ran.stderr.startswith(b"error: ") and words in ran.stderr.decode(), ran.stderr


@pytest.mark.parametrize("words", [[], ["a", "b"], ["a", "--overwrite"]])
def test_a_wrong_command_line_of_init_is_reported(words: list[str]) -> None:
    ran = tocsin("init", *words)
    assert (ran.returncode, ran.stdout) == (2, b"") and ran.stderr.startswith(b"error: ")
