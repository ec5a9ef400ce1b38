"""``tocsin reproduce P-2``: its output and its files."""

from __future__ import annotations

import json

import pyarrow.parquet as pq
import pytest

from tocsin.cli.main import run


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0)


def test_a_figure_of_key_spaces_leaves_data_a_chart_and_a_page(tmp_path, capsys):
    assert call("reproduce", "p-2", "--small", "--seeds", 1, "--jobs", 2, "--json", "--out", tmp_path) == 0
    (found,) = json.loads(capsys.readouterr().out)["figures"]
    assert found["id"] == "P-2" and found["verdict"] == "reproduced"
    assert [each["variant"] for each in found["variants"]] == ["oracle, middle", "oracle, centroid"]
    table = pq.read_table(tmp_path / "P-2.parquet")
    assert table.num_rows == 2 * 8 and sum(table.column("load").to_pylist()) == 2 * 1_000
    assert (tmp_path / "P-2.png").read_bytes().startswith(b"\x89PNG")
    assert "Antoine et al. 2014" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize("name", ["P-1", "P-T3", "P-"])
def test_an_unknown_figure_is_refused_with_those_that_exist(name, capsys):
    assert call("reproduce", name) == 1
    assert "P-2, P-T1, P-T2" in capsys.readouterr().err
