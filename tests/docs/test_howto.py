"""The how-to pages: their commands run, or at least exist if they cannot run here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
from pages import DOCS, ROOT, commands
from shell import Shell

from served import Process
from tocsin import config
from tocsin.broker.core.state import BrokerState
from tocsin.broker.metrics import BrokerMetrics
from tocsin.cli.main import application
from tocsin.cluster.ops.metrics import Metrics

ELSEWHERE = [ROOT / "README.md", ROOT / "examples" / "README.md", ROOT / "src/tocsin/cli/project/README.md"]
PAGES = sorted([*DOCS.rglob("*.md"), *ELSEWHERE])


@pytest.mark.parametrize(
    "name", ["add-a-channel", "content-or-channel", "feed-files", "operate", "run-brokers", "subscribe-from-python"]
)
def test_every_command_does_what_the_page_says(shell: Shell, name: str) -> None:
    assert shell.run_page(DOCS / "how-to" / f"{name}.md") > 2


def test_the_page_about_grants_does_what_it_says_where_anonymous_has_none(tmp_path: Path) -> None:
    running = Process(
        *("--home", str(tmp_path / "home"), "--brokers", "1", "--anonymous", "none"),
        part="up",
        TOCSIN_MASTER="local[2]",
        TOCSIN_DRIVER_MEMORY="1g",
    )
    try:
        found = running.event("ready")
        (broker,) = found["brokers"].values()
        with Shell(found["cluster"], broker, tmp_path) as shell:
            shell.env["TOCSIN_TOKEN"] = f"@{tmp_path}/home/cluster/admin.token"
            assert shell.run_page(DOCS / "how-to" / "decide-who-may.md") > 4
    finally:
        code = running.end()
    assert code == 0, running.errors()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_has_only_options_that_exist(page: Path) -> None:
    for line in commands(page):
        plain = re.sub(r"'[^']*'|\"[^\"]*\"", "quoted", line)
        _, *words = re.split(r"['\"|<>&;#]", plain)[0].split()
        command = typer.main.get_command(application())
        while words and hasattr(command, "commands"):
            assert words[0] in command.commands, line
            command = command.commands[words.pop(0)]
        used = {word.split("=")[0] for word in words if word.startswith("-") and word != "-"}
        assert used <= _options(command), line


def _options(command: object) -> set[str]:
    return {name for item in command.params for name in item.opts} | {"--help"}


def test_the_spark_configuration_can_be_read(tmp_path: Path) -> None:
    text = (DOCS / "how-to" / "run-on-a-spark-cluster.md").read_text()
    (block,) = re.findall(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "tocsin.toml").write_text(block)
    assert config.load(str(tmp_path / "tocsin.toml"), env={}).spark["spark.executor.memory"] == "4g"


def test_every_metric_on_the_page_is_measured() -> None:
    broker = BrokerMetrics(BrokerState(config.BrokerConfig()), lambda: 0.0)
    families = [*Metrics().registry.collect(), *broker.registry.collect()]
    kept = {sample.name for family in families for sample in family.samples}
    kept |= {family.name + end for family in families for end in ("", "_total")}
    # A prefix, such as ``tocsin_broker_``, names no metric.
    named = {word for page in PAGES for word in re.findall(r"\btocsin_[a-z_]*[a-z]\b", page.read_text())}
    assert named - kept == set() and len(named) > 5
