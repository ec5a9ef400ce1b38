"""``tocsin reproduce Q-3 Q-4 Q-5``: its output and its files."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tocsin.cli.main import run


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_the_figures_leave_data_charts_and_a_page(tmp_path, capsys):
    assert call("reproduce", "q-3", "Q-4", "--seeds", 1, "--json", "--out", tmp_path) == 0
    found = json.loads(capsys.readouterr().out)["figures"]
    assert [each["id"] for each in found] == ["Q-3", "Q-4"]
    assert [each["variant"] for each in found[0]["variants"]] == ["Tao", "no balancing"]
    uplinks = pq.read_table(tmp_path / "Q-3.parquet").to_pylist()
    (peak,) = [row["uplink"] for row in uplinks if (row["variant"], row["edge"], row["second"]) == ("Tao", "b1", 31)]
    assert peak == pytest.approx(1.07)
    for name in ("Q-3", "Q-4"):
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert "Tao et al. 2013" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("name", ["Q-1", "Q-6", "Q"])
def test_an_unknown_figure_is_refused_with_those_that_exist(name, capsys):
    assert call("reproduce", name) == 1
    assert "Q-3, Q-4, Q-5, Q-slack" in capsys.readouterr().err
