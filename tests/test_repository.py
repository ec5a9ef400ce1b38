"""The repository itself: no paths of one machine, no dead links, no long files, no missing commands."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"requirements.lock", "requirements-dev.lock"}
GENERATED = LOCKS | {"docs/reference/asyncapi.json", "docs/reference/cli.md", "docs/reference/http.md"}
IGNORED = re.compile(r"\.git|\.venv|build|.*_?cache_*|\.hypothesis|.*\.egg-info")


def _files() -> list[Path]:
    """The tracked and new files of the repository, or all files of the folder if it is not a repository."""
    listing = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, capture_output=True, text=True, check=True)
        found = [ROOT / line for line in done.stdout.splitlines()]
    except (OSError, subprocess.CalledProcessError):
        found = [path for path in ROOT.rglob("*") if not any(map(IGNORED.fullmatch, path.relative_to(ROOT).parts))]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


TEXTS = {path: text for path in _files() if (text := _text(path)) is not None}
PAGES = [path for path in TEXTS if path.suffix == ".md"]

# Written in parts, so that this file does not contain the text it searches for.
HOSTS = ["pypi" + ".org", "python" + "hosted.org", "conda" + ".anaconda", "repo1" + ".maven", "registry" + ".npmjs"]
PLACES = ["work", "home", "root", "Users", "opt/" + "wheels"]
PLACE = re.compile(r"(?<![\w.~}/-])/(?:" + "|".join(PLACES) + r")/(?=[\w.])")
REGISTRY = re.compile("|".join([*map(re.escape, HOSTS), "--(?:extra-)?index" + "-url", "--find" + "-links"]))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _hits(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{_name(path)}:{text.count(chr(10), 0, hit.start()) + 1}: {hit[0]}"
        for path, text in TEXTS.items()
        for hit in pattern.finditer(text)
    ]


def test_no_file_names_a_folder_of_one_machine():
    assert _hits(PLACE) == []


def test_no_file_names_a_package_registry():
    assert _hits(REGISTRY) == []


@pytest.mark.parametrize("lock", sorted(LOCKS))
def test_every_locked_package_has_a_hash_and_no_address(lock):
    entries = re.split(r"\n(?=\S)", (ROOT / lock).read_text().strip())
    assert [entry for entry in entries if "==" not in entry.splitlines()[0] or "--hash=sha256:" not in entry] == []
    assert "://" not in "".join(entries)


def _locked(lock: str) -> set[str]:
    return {re.split(r"[=\[ ]", line)[0] for line in (ROOT / lock).read_text().splitlines() if re.match(r"\w", line)}


def test_the_lock_files_contain_every_dependency():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in requirements}

    assert names(project["dependencies"]) <= _locked("requirements.lock")
    assert names(project["optional-dependencies"]["dev"]) <= _locked("requirements-dev.lock")
    assert _locked("requirements.lock") <= _locked("requirements-dev.lock")


def test_no_file_is_longer_than_600_lines():
    long = {_name(path): text.count("\n") for path, text in TEXTS.items() if text.count("\n") > 600}
    assert {name: lines for name, lines in long.items() if name not in GENERATED} == {}


def test_no_two_files_of_the_tests_have_the_same_name():
    """They are imported by name alone: one would hide the other."""
    names = Counter(path.name for path in TEXTS if path.suffix == ".py" and ROOT / "tests" in path.parents)
    assert [name for name, count in names.items() if count > 1 and name not in ("conftest.py", "__init__.py")] == []


def test_no_test_is_skipped():
    left_out = re.compile(r"mark\.(?:skip|xfail)|pytest\.(?:skip|xfail|importorskip)\(")
    assert [hit for hit in _hits(left_out) if hit.startswith("tests/") and "test_repository" not in hit] == []


def _anchors(page: Path) -> set[str]:
    """GitHub's anchors for the headings of a page."""
    headings = re.findall(r"^#+ +(.+?) *$", _without_code(TEXTS[page]), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _without_code(text: str) -> str:
    return re.sub(r"^( *)(```+|~~~+).*?^\1\2", "", text, flags=re.MULTILINE | re.DOTALL)


def _links(page: Path) -> list[str]:
    text = re.sub(r"`[^`\n]*`", "", _without_code(TEXTS[page]))
    return re.findall(r"\]\(([^)\s]+)\)", text)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_has_a_target(page):
    dead = []
    for link in _links(page):
        if re.match(r"[a-z]+:", link):
            continue
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        if not path.exists() or (anchor and path.suffix == ".md" and anchor not in _anchors(path)):
            dead.append(link)
    assert dead == []


def test_the_index_lists_every_page_of_the_documentation():
    home = ROOT / "docs" / "index.md"
    listed = {(home.parent / link.partition("#")[0]).resolve() for link in _links(home)}
    assert [_name(page) for page in PAGES if (ROOT / "docs") in page.parents and page not in {home, *listed}] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_make_command_is_in_the_makefile(page):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    code = re.findall(r"`([^`\n]+)`", TEXTS[page]) + re.findall(r"^ *(?:\$ )?(make .*)$", TEXTS[page], re.MULTILINE)
    used = {word for line in code for word in re.findall(r"(?:^|[;&(] *)make ([a-z][a-z-]*)", line)}
    assert used - targets == set()


@pytest.mark.parametrize("target", ["demo", "up", "test", "test-slow", "lint", "bench"])
def test_the_makefile_has_every_documented_target(target):
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_build_runs_lint_and_then_the_tests():
    script = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make (.+)$", script, re.MULTILINE) == ["lint", "test"]
    assert "set -euo pipefail" in script
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
