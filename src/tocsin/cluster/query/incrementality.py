"""Whether a body has no results if no rows are new, so that such a run can be skipped."""

from __future__ import annotations

from sqlglot import exp

from tocsin.cluster.query import set_rewrite


def needs_new(tree: exp.Expr) -> bool:
    """True only if it is certain: a SELECT with an inner join on the new rows of a dataset.

    ``SELECT count(*) …`` returns 0 if no rows are new, and an outer join or a UNION may return rows.
    """
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if not isinstance(tree, exp.Select) or not _grouped_or_plain(tree):
        return False
    from_ = tree.args.get("from_")
    inner: list[exp.Expr] = [] if from_ is None else [from_.this]
    for join in tree.args.get("joins") or []:
        side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
        if side in ("RIGHT", "FULL"):
            return False
        if not side and kind in ("", "INNER", "CROSS"):
            inner.append(join.this)
    return any(isinstance(item, exp.Table) and item.meta.get("mode") == "new" for item in inner)


def _grouped_or_plain(select: exp.Select) -> bool:
    """False for an aggregate without a grouping key, which has one row even without input."""
    if not set_rewrite._aggregates(select):
        return True
    group = select.args.get("group")
    if group is None or any(group.args.get(key) for key in ("grouping_sets", "cube", "rollup")):
        return False
    if group.args.get("all"):
        return any(not item.find(exp.AggFunc) and not item.is_star for item in select.expressions)
    return bool(group.expressions)
