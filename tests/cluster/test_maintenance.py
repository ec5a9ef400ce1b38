from __future__ import annotations

from pathlib import Path

import pytest

from sparkmaster import run_in_child

SPARK_DIES = """
import json, os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from cluster_harness import ManualCluster
from tocsin.config import ClusterConfig

home = Path(sys.argv[1])
(home / "in").mkdir()
cluster = ManualCluster(ClusterConfig(
    home=str(home / "data"), master="local[1]", driver_memory="512m", brief=True, load_paths=(str(home / "in"),)
))
cluster.start()
cluster.wait_ready(300)
cluster.execute(f'''
  CREATE ACTIVE DATASET Events (n bigint);
  CREATE FEED Posts; CONNECT FEED Posts TO DATASET Events; START FEED Posts;
  CREATE FEED Files WITH {{"type": "file", "path": "{home}/in", "format": "json", "trigger": 0.2}};
  CONNECT FEED Files TO DATASET Events; START FEED Files;
  CREATE CONTINUOUS CHANNEL c() {{ SELECT e.n FROM Events e WHERE is_new(e) }};
  CREATE BROKER b AT "http://127.0.0.1:9/";
''')
me = cluster.subscribed("c")

def drop(name, n):
    (home / f".{name}").write_text(json.dumps({"n": n}))
    (home / f".{name}").rename(home / "in" / name)

cluster.post("Posts", {"n": 1})
drop("a.json", 2)
cluster.wait_results("c", me, 2)
os.kill(cluster.context.runtime.pid, signal.SIGKILL)
cluster.post("Posts", {"n": 3})  # durable although Spark is dead
drop("b.json", 4)
while True:
    found = sorted(item["n"] for group in cluster.results_of("c", me) for item in group)
    if len(found) >= 4:
        break
    cluster.wait_execution("c", cluster.runner("c").number, 1.0)
print("found", found, cluster.channel("c")["state"], cluster.ready)
cluster.close()
"""


@pytest.mark.slow
def test_spark_restarts_after_its_death_and_nothing_is_lost(tmp_path: Path) -> None:
    out = run_in_child(SPARK_DIES, str(tmp_path), str(Path(__file__).parent))
    assert "found [1, 2, 3, 4] running True" in out


SPARK_HANGS = """
import os, signal, sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[2])
sys.path.insert(0, sys.argv[3])
from cluster_harness import ManualCluster
from eventually import eventually
from tocsin.config import ClusterConfig
from tocsin.errors import NotReady, TocsinError

home = Path(sys.argv[1])
cluster = ManualCluster(ClusterConfig(
    home=str(home / "data"), master="local[1]", driver_memory="512m", brief=True
))
cluster.start()
cluster.wait_ready(300)
cluster.execute('''
  CREATE ACTIVE DATASET Events (n bigint);
  CREATE FEED Posts; CONNECT FEED Posts TO DATASET Events; START FEED Posts;
  CREATE CONTINUOUS CHANNEL c() { SELECT e.n FROM Events e WHERE is_new(e) };
  CREATE BROKER b AT "http://127.0.0.1:9/";
''')
me = cluster.subscribed("c")
cluster.post("Posts", {"n": 1})
cluster.wait_results("c", me, 1)
runtime = cluster.context.runtime
first = runtime.pid
os.kill(first, signal.SIGSTOP)
eventually(lambda: not cluster.ready)
print("not ready:", cluster.status()["spark"])
cluster.post("Posts", {"n": 2})
eventually(lambda: runtime.pid not in (None, first) and cluster.ready)
print("replaced:", cluster.wait_results("c", me, 2))

second = runtime.pid
try:
    runtime.session._jvm.java.nio.ByteBuffer.allocate(2**31 - 100)
    print("memory was there")
except Exception as error:
    print("allocation ended:", type(error).__name__)
cluster.post("Posts", {"n": 3})
eventually(lambda: runtime.pid not in (None, second) and cluster.ready)
print("out of memory:", cluster.wait_results("c", me, 3), cluster.channel("c")["state"])
cluster.close()
"""


def test_a_jvm_that_hangs_or_is_out_of_memory_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    here = Path(__file__).parent
    out = run_in_child(SPARK_HANGS, str(tmp_path), str(here), str(here.parent))
    assert "not ready: silent" in out
    assert "replaced: [{'n': 1}, {'n': 2}]" in out
    assert "memory was there" not in out
    assert "out of memory: [{'n': 1}, {'n': 2}, {'n': 3}] running" in out
