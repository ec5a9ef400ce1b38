"""One statement for all subscriptions gives the results of one query for each subscription."""

from __future__ import annotations

import pytest
from query_views import QueryViews

from seeds import spread
from tocsin.errors import BodyRefused


@pytest.fixture(scope="module")
def views(spark):
    return QueryViews(spark)


HASHED = [
    "SELECT r.id FROM Reports r WHERE r.etype = t",
    "SELECT * FROM Reports r WHERE r.etype = t",
    "SELECT id, t AS what, n + 1 AS more FROM Reports r WHERE r.etype = t",
    "SELECT id, transform(xs, x -> x + n) FROM Reports r WHERE r.etype = t",
    "SELECT x.id FROM (SELECT * FROM Reports r WHERE r.etype = t) x",
    "SELECT x.* FROM (SELECT * FROM Reports r WHERE r.etype = t) x JOIN Shelters h ON h.lat = x.lat",
    "WITH c AS (SELECT * FROM Reports r WHERE r.etype = t) SELECT * FROM c",
    "WITH c(a) AS (SELECT id FROM Reports r WHERE r.etype = t) SELECT x.a FROM c x JOIN c y ON x.a = y.a",
    "WITH c AS (SELECT * FROM Reports r WHERE r.sev > 1) SELECT id FROM c WHERE c.etype = t",
    "WITH c AS (SELECT id FROM Reports WHERE etype = t) SELECT id FROM Reports r WHERE r.id IN (SELECT id FROM c)"
    " AND r.etype = t",
    "SELECT r.id, (SELECT max(sev) FROM Reports x WHERE x.etype = t) m FROM Reports r WHERE r.etype = t",
    "SELECT r.id, (SELECT max(sev) FROM Reports x WHERE x.etype = r.etype) m FROM Reports r WHERE r.etype = t",
    "SELECT r.id, h.name FROM Reports r, LATERAL (SELECT name FROM Shelters h WHERE h.lat = plat ORDER BY name"
    " LIMIT 1) h"
    " WHERE r.etype = t",
    "SELECT id FROM Reports r WHERE r.etype = t UNION ALL SELECT id FROM Reports r WHERE r.sev = n",
    "SELECT id FROM Reports r WHERE r.etype = t UNION SELECT id FROM Reports r WHERE r.sev = n",
    "SELECT id FROM Reports r WHERE r.etype = t EXCEPT SELECT id FROM Reports r WHERE r.sev = n",
    "SELECT id FROM Reports r WHERE r.etype = t UNION ALL SELECT id FROM Reports r WHERE r.sev = n ORDER BY id"
    " DESC LIMIT 2",
    "SELECT count(*) c, max(sev) m FROM Reports r WHERE r.etype = t",
    "SELECT max_by(id, sev) a, listagg(etype, ',') b, percentile_approx(sev, 0.5) c, any(sev > 2) d, some(sev > 2) e"
    " FROM Reports r WHERE r.etype = t",
    "SELECT count(*) + n AS c, t AS what FROM Reports r WHERE r.etype = t",
    "SELECT sum(sev * n) c, count(DISTINCT etype) d, collect_list(id) FILTER (WHERE sev > 1) l FROM Reports r"
    " WHERE r.etype = t",
    "SELECT count(*) c FROM Reports r WHERE r.etype = t HAVING count(*) > 0",
    "SELECT etype, count(*) c FROM Reports r WHERE r.etype = t GROUP BY etype",
    "SELECT etype, count(*) c FROM Reports r WHERE r.etype = t GROUP BY 1",
    "SELECT t AS what, count(*) c FROM Reports r WHERE r.etype = t GROUP BY t",
    "SELECT etype, count(*) c FROM Reports r WHERE r.etype = t GROUP BY ALL ORDER BY c",
    "SELECT etype, sev, count(*) c FROM Reports r WHERE r.etype = t GROUP BY ROLLUP(etype, sev)",
    "SELECT id FROM Reports r WHERE r.etype = t ORDER BY sev DESC",
    "SELECT id FROM Reports r WHERE r.etype = t ORDER BY sev DESC LIMIT 1",
    "SELECT id FROM Reports r WHERE r.etype = t ORDER BY sev DESC LIMIT 1 OFFSET 1",
    "SELECT id AS number, sev * 2 AS twice FROM Reports r WHERE r.etype = t ORDER BY twice DESC, 1",
    "SELECT etype, max(sev) AS m FROM Reports r WHERE r.etype = t GROUP BY etype ORDER BY max(sev) LIMIT 3",
    "SELECT DISTINCT etype, sev FROM Reports r WHERE r.etype = t ORDER BY sev DESC LIMIT 2",
    "SELECT id, row_number() OVER (ORDER BY sev DESC) rn FROM Reports r WHERE r.etype = t ORDER BY rn",
    "SELECT id, sum(sev) OVER w AS s FROM Reports r WHERE r.etype = t WINDOW w AS (ORDER BY id)",
    "SELECT id FROM Reports r WHERE EXISTS (SELECT 1 FROM Shelters h WHERE h.lat = r.lat) AND r.etype = t",
    "SELECT 1 AS one WHERE NOT EXISTS (SELECT 1 FROM Reports r WHERE r.etype = t)",
    "SELECT r.id, h.name FROM Reports r LEFT JOIN Shelters h ON h.lat = r.lat AND h.lat = plat WHERE r.etype = t",
    "SELECT h.name, r.id FROM Shelters h RIGHT JOIN Reports r ON r.lat = h.lat WHERE h.lat = plat",
    "SELECT id, x FROM Reports r LATERAL VIEW explode(xs) u AS x WHERE r.etype = t",
    "SELECT id, explode(xs) AS x FROM Reports r WHERE r.etype = t ORDER BY x",
    "SELECT x FROM explode(array(n, 2)) u(x)",
    "SELECT t AS x",
    "SELECT name FROM Shelters ORDER BY name DESC",
    "SELECT name FROM Shelters",
    "SELECT r.id, r.loc.etype FROM Reports r WHERE r.loc.city = 'a' AND r.etype = t",
    "SELECT id, current_channel_time() AS now, previous_channel_time() AS before FROM Reports r WHERE r.etype = t",
]
LOOPED = [  # conditions without a hash join
    "SELECT count(*) c FROM Reports r WHERE r.sev >= n",
    "SELECT etype, count(*) c FROM Reports r GROUP BY etype HAVING count(*) >= n",
    "SELECT * FROM (SELECT etype, sev FROM Reports r WHERE r.sev >= n) PIVOT (max(sev) FOR etype IN ('fire', 'flood'))",
    "SELECT id FROM Reports r WHERE r.lat IN (SELECT lat FROM Shelters h WHERE h.lat = plat)",
    "SELECT id FROM Reports r ORDER BY abs(r.lat - plat), id LIMIT 2",
]


@pytest.mark.parametrize("body", spread(HASHED + LOOPED, 3))
def test_one_statement_for_all_equals_single_queries(views, body):
    assert views.together(body) == views.one_by_one(body)


@pytest.mark.parametrize("body", spread(HASHED[:36], 3))
def test_an_equality_with_a_parameter_becomes_a_hash_join(views, body):
    plan = views.channel_plan(body)
    assert "NestedLoop" not in plan
    assert "Cartesian" not in plan


@pytest.mark.parametrize(
    "body",
    [
        "SELECT h.name, r.id FROM Shelters h FULL JOIN Reports r ON r.lat = h.lat AND r.sev = n",
        "SELECT etype, count(*) FROM Reports WHERE etype = t GROUP BY etype WITH CUBE",
        "SELECT * FROM Shelters JOIN (SELECT name FROM Shelters WHERE lat = plat) x USING (name)",
        "WITH RECURSIVE c(a) AS (SELECT n UNION ALL SELECT a + 1 FROM c WHERE a < 9) SELECT a FROM c",
        "SELECT id FROM Reports WHERE etype = t ORDER BY 7",
    ],
)
def test_a_body_without_an_equivalent_is_refused(views, body):
    with pytest.raises(BodyRefused):
        views.channel(body)


def test_a_subscription_without_rows_still_gets_its_count(views):
    rows = dict(row[:2] for row in views.together("SELECT count(*) AS c FROM Reports WHERE etype = t"))
    assert rows == {10: '{"c":2}', 11: '{"c":1}', 12: '{"c":0}', 13: '{"c":2}'}


def test_an_ordered_body_numbers_the_rows_of_each_subscription(views):
    rows = views.together("SELECT id FROM Reports WHERE etype = t ORDER BY id DESC")
    assert rows == [
        (10, '{"id":1}', 2),
        (10, '{"id":3}', 1),
        (11, '{"id":2}', 1),
        (13, '{"id":1}', 2),
        (13, '{"id":3}', 1),
    ]
