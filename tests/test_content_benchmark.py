"""The content benchmark: every way finds the same subscriptions, and the C program compiles without warnings."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from benchmarks.content_matching import __main__ as driver
from benchmarks.content_matching import peers, workloads
from benchmarks.fanout import compiler

from tocsin.content import MatchIndex


def test_the_counting_program_compiles_without_warnings(tmp_path: Path) -> None:
    folder = Path(peers.__file__).parent
    compiler.compile_to("counting", tmp_path, [*compiler.FLAGS, "-Werror", "-shared", "-fPIC"], folder)


@pytest.mark.parametrize("make", [workloads.Stock, workloads.Mixed], ids=lambda each: each.name)
def test_every_way_finds_the_same_subscriptions(make) -> None:
    workload = make()
    index, encoding = MatchIndex(workload.attributes), peers.Encoding(workload.attributes)
    for id, condition in enumerate(itertools.islice(workload.conditions(), 600)):
        index.add(id, condition)
        encoding.add(condition)
    publications = [workload.attributes.publication(each) for each in workload.publications(10)]
    counts = [len(index.match_ordinals(each)) for each in publications]
    for kind in (peers.Counting, peers.NumpyCounting, peers.DuckDB, peers.Shapes):
        peer = kind(encoding)
        assert [peer.match(encoding.vector(each)) for each in publications] == counts
        peer.close()


def test_the_benchmark_makes_its_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "CPU", 0.0)
    monkeypatch.setattr(driver, "PUBLICATIONS", 6)
    tables = driver.run(False, [100, 200])
    assert [len(table.rows) for table in tables] == [5, 2, 5, 2]
    assert all(table.markdown() for table in tables)
