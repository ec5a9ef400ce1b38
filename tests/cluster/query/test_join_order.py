"""Tables are joined by their equalities, whatever the order in the query."""

from __future__ import annotations

import pyarrow as pa
import pytest
from query_views import TABLES, QueryViews

BODY = (
    "SELECT r.id, h.name, h.lat FROM Reports r JOIN Shelters h ON within(r.lat, r.lon, h.lat, h.lon, 400000)"
    " WHERE is_new(r) AND h.lat = plat AND (t = 'any' OR r.etype = t)"
)


@pytest.fixture(scope="module")
def views(spark):
    return QueryViews(spark)


OUTER = BODY.replace(" WHERE", " LEFT JOIN Shelters o ON o.lat = r.sev WHERE").replace(
    "h.lat FROM", "h.lat, o.name AS other FROM"
)


@pytest.mark.parametrize("body", [BODY, OUTER])
def test_a_condition_without_an_equality_does_not_make_a_nested_loop(views, body):
    assert "NestedLoop" not in views.channel_plan(body)


@pytest.mark.parametrize("body", [BODY, OUTER])
def test_the_result_stays_the_same(views, body):
    assert views.together(body) == views.one_by_one(body)
    assert views.together(body)


@pytest.mark.parametrize(
    "body",
    [
        "SELECT * EXCEPT (h.lat, h.lon) FROM Reports r, Shelters h WHERE h.lat = plat AND h.lat = r.lat",
        "SELECT r.id, x FROM Reports r, LATERAL explode(r.xs) u(x), Shelters h WHERE h.lat = plat AND h.lat = r.lat",
        "SELECT r.id FROM Reports r LEFT JOIN Shelters h ON h.lat = r.lat JOIN Shelters k ON k.lat = plat"
        " WHERE r.etype = t",
    ],
)
def test_stars_laterals_and_outer_joins_keep_their_place(views, body):
    assert views.together(body) == views.one_by_one(body)


def test_tables_joined_by_their_key_come_before_tables_that_multiply_rows(spark):
    """There are many reports of a kind, but one user: joined first, the user leaves few reports to check."""
    users = pa.table({"user_id": ["a", "b"], "lat": [1.0, 2.0], "lon": [1.0, 2.0]})
    views = QueryViews(spark, {**TABLES, "Users": users}, keys={"Users": ("user_id",)})
    body = (
        "SELECT r.id FROM Reports r JOIN Users u ON within(r.lat, r.lon, u.lat, u.lon, 2000)"
        " WHERE is_new(r) AND r.etype = t AND u.user_id = t"
    )
    plan = views.channel_plan(body)
    first = plan[plan.rindex("HashJoin") :].splitlines()[0]
    assert "user_id" in first
    assert "etype" not in first
    assert views.together(body) == views.one_by_one(body)
