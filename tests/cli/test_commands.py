"""The commands, run as a user runs them, against a real data cluster."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys

import pyarrow as pa
import pytest

from served import environment, tocsin


@pytest.fixture
def dataset(url, request):
    """A dataset and a feed of the test's own; the answer is their common name."""
    name = f"t{abs(hash(request.node.name))}"
    script = (
        f"CREATE DATASET {name} (id string, n int) PRIMARY KEY id; CREATE FEED {name};"
        f"CONNECT FEED {name} TO DATASET {name}; START FEED {name}"
    )
    assert tocsin("sql", "-e", script, "--url", url).returncode == 0
    return name


def rows(url: str, name: str) -> int:
    return json.loads(tocsin("query", f"SELECT count(*) AS n FROM {name}", "--json", "--url", url).stdout)[0]["n"]


# -- sql -----------------------------------------------------------------------------------------------------------


def test_sql_prints_a_line_for_each_statement(url):
    ran = tocsin("sql", "-e", "CREATE DATASET lines (a int); DROP DATASET lines", "--url", url)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert ran.stdout.decode().splitlines() == ["dataset lines created", "dataset lines dropped"]


def test_sql_prints_a_table_for_a_query(url):
    ran = tocsin("sql", "-e", "SELECT 'x' AS word, 12 AS n", "--url", url)
    head, _, row, count = ran.stdout.decode().splitlines()
    assert (head.split(), row.split(), count) == (["word", "n"], ["x", "12"], "1 row")


def test_sql_reads_a_file(url, tmp_path):
    file = tmp_path / "script.sql"
    file.write_bytes(b"\xef\xbb\xbfSELECT 1 AS a;\n")
    assert b"1 row" in tocsin("sql", str(file), "--url", url).stdout


def test_sql_reads_standard_input(url):
    assert b"1 row" in tocsin("sql", "-", "--url", url, data=b"SELECT 1").stdout


def test_sql_reads_its_server_from_the_environment(url):
    assert tocsin("sql", "-e", "SELECT 1", TOCSIN_URL=url).returncode == 0


def test_sql_prints_json_lines_for_programs(url):
    ran = tocsin("sql", "-e", "SELECT 1 AS a; SELECT 2 AS a", "--json", "--url", url)
    assert [json.loads(line)["result"] for line in ran.stdout.splitlines()] == [[{"a": 1}], [{"a": 2}]]


def test_sql_shows_where_a_script_is_wrong(url, tmp_path):
    file = tmp_path / "script.sql"
    file.write_text("SELECT 1 AS a;\n  CREATE DATSET d (a int);\n")
    ran = tocsin("sql", str(file), "--url", url)
    lines = ran.stderr.decode().splitlines()
    assert ran.returncode == 1
    assert lines[0].startswith("error: ")
    assert lines[1:4] == [f" --> {file}:2:10", " 2 |   CREATE DATSET d (a int);", "   |          ^"]
    assert "1 row" in ran.stdout.decode()


def test_sql_writes_the_error_as_json_for_programs(url):
    ran = tocsin("sql", "-e", "SELEC 1", "--json", "--url", url)
    assert ran.returncode == 1
    assert json.loads(ran.stderr)["error"]["code"] == "syntax"


def test_sql_loads_a_file_of_records(url, dataset, tmp_path):
    file = tmp_path / "records.json"
    file.write_text("".join(json.dumps({"id": str(number), "n": number}) + "\n" for number in range(100)))
    ran = tocsin("sql", "-e", f"LOAD DATASET {dataset} FROM '{file}' FORMAT json", "--url", url)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert rows(url, dataset) == 100


# -- pub -----------------------------------------------------------------------------------------------------------


def test_pub_sends_standard_input(url, dataset):
    ran = tocsin("pub", dataset, "--url", url, data=b'{"id":"a","n":1}\n{"id":"b","n":2}\n')
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"2 accepted\n", b"")
    assert rows(url, dataset) == 2


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_pub_sends_a_file_in_posts(url, dataset, tmp_path, packed):
    data = json.dumps([{"id": str(number), "n": number} for number in range(1_000)], indent=1).encode()
    file = tmp_path / "records"
    file.write_bytes(gzip.compress(data) if packed else data)
    ran = tocsin("pub", dataset, str(file), "--batch", "300", "--json", "--url", url)
    assert json.loads(ran.stdout) == {
        "feed": dataset,
        "accepted": 1_000,
        "refused": 0,
        "posts": 4,
        "repeated": 0,
        "refusals": [],
    }
    assert rows(url, dataset) == 1_000


def test_pub_reports_which_records_were_refused_and_why(url, dataset):
    lines = [b'{"id":"a","n":1}', b'{"id":"b","n":"x"}', b"nonsense", b'{"id":"c","n":3}']
    ran = tocsin("pub", dataset, "--batch", "2", "--url", url, data=b"\n".join(lines))
    assert (ran.returncode, ran.stdout) == (1, b"2 accepted, 2 refused\n")
    assert [line.split(b":")[0] for line in ran.stderr.splitlines()] == [b"record 2", b"record 3"]


def test_pub_under_the_same_key_stores_nothing_twice(url, dataset):
    for accepted in (b"1 accepted\n", b"1 accepted, 1 posts were already stored\n"):
        ran = tocsin("pub", dataset, "--key", "file-7", "--url", url, data=b'{"id":"a","n":1}')
        assert (ran.returncode, ran.stdout) == (0, accepted)


def test_pub_atomic_refuses_a_whole_post(url, dataset):
    ran = tocsin("pub", dataset, "--atomic", "--url", url, data=b'{"id":"a","n":1}\nnonsense\n')
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"error: 1 of 2 records do not fit")
    assert rows(url, dataset) == 0


def test_pub_can_ignore_fields_without_a_column(url, dataset):
    record = b'{"id":"a","n":1,"colour":"red"}'
    assert tocsin("pub", dataset, "--url", url, data=record).returncode == 1
    assert tocsin("pub", dataset, "--unknown", "ignore", "--url", url, data=record).returncode == 0


def test_pub_without_records_is_an_error(url, dataset):
    assert tocsin("pub", dataset, "--url", url, data=b"").stderr == b"error: there are no records\n"


# -- query ---------------------------------------------------------------------------------------------------------

VALUES = "SELECT * FROM VALUES (1, 'x'), (2, NULL) AS t(a, b) ORDER BY a"


def test_query_prints_a_table(url):
    lines = tocsin("query", VALUES, "--url", url).stdout.decode().splitlines()
    assert [line.split() for line in (lines[0], *lines[2:])] == [["a", "b"], ["1", "x"], ["2", "null"], ["2", "rows"]]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("json", '[{"a":1,"b":"x"},{"a":2,"b":null}]\n'),
        ("ndjson", '{"a":1,"b":"x"}\n{"a":2,"b":null}\n'),
        ("csv", '"a","b"\n1,"x"\n2,\n'),
    ],
)
def test_query_prints_other_formats(url, format, text):
    assert tocsin("query", VALUES, "--format", format, "--url", url).stdout.decode() == text


def test_query_writes_arrow_into_a_file(url, tmp_path):
    file = tmp_path / "out.arrow"
    assert tocsin("query", VALUES, "-f", "arrow", "-o", str(file), "--url", url).returncode == 0
    assert pa.ipc.open_stream(io.BytesIO(file.read_bytes())).read_all().to_pydict() == {"a": [1, 2], "b": ["x", None]}
    assert [each.name for each in tmp_path.iterdir()] == ["out.arrow"]


def test_query_reads_the_catalog(url):
    found = json.loads(tocsin("query", "SELECT name FROM catalog.channels", "--json", "--url", url).stdout)
    assert {"name": "Alarms"} in found


def test_a_pipe_that_closes_early_is_not_an_error(url):
    command = [sys.executable, "-m", "tocsin.cli", "query", "SELECT id FROM range(200000)", "-f", "csv", "--url", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b'"id"\n'
        process.stdout.close()
        assert process.stderr.read() == b""


# -- channels ------------------------------------------------------------------------------------------------------


def test_channels_lists_the_channels(url):
    head, _, row = tocsin("channels", "--url", url).stdout.decode().splitlines()
    assert head.split()[:3] == ["channel", "kind", "parameters"]
    assert row.split()[:4] == ["Alarms", "continuous", "kind", "string"]


def test_channels_shows_a_channel_with_its_body(url):
    shown = tocsin("channels", "alarms", "--url", url).stdout.decode()
    assert "SELECT r.id, r.n FROM Reports r" in shown


def test_channels_prints_json_for_programs(url):
    assert json.loads(tocsin("channels", "--json", "--url", url).stdout)[0]["subscriptions"] == 1
    assert json.loads(tocsin("channels", "alarms", "--json", "--url", url).stdout)["kind"] == "continuous"


# -- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["sql", "-e", "SELECT * FROM nowhere"], "nowhere"),
        (["sql", "-e", "DROP CHANNEL nowhere"], "there is no channel 'nowhere'"),
        (["sql", "no-such-file.sql"], "cannot read no-such-file.sql"),
        (["pub", "nowhere", "-"], "there is no feed 'nowhere'"),
        (["pub", "ReportFeed", "no-such-file.json"], "cannot read no-such-file.json"),
        (["query", "SELECT nothing FROM Reports"], "nothing"),
        (["query", "DROP DATASET Reports"], ""),
        (["query", "SELECT 1", "-f", "csv", "-o", "no-such-folder/out.csv"], "cannot write"),
        (["channels", "nowhere"], "there is no channel 'nowhere'"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_1(url, words, error):
    ran = tocsin(*words, "--url", url, data=b'{"id":"a"}')
    text = ran.stderr.decode()
    assert ran.returncode == 1
    assert text.startswith("error: ")
    assert error in text.splitlines()[0]
    assert "Traceback" not in text
