"""Where the region of a ring's member is divided for a new one."""

from __future__ import annotations

from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.messages import Join
from tocsin.overlay.keyspace.model.contact import Contact


def place(member: Member, join: Join, size: int) -> int:
    """Where the new member chose to be, or so that it gets half: of the items (rule ``median``), or of the width."""
    if join.position is not None:
        return join.position
    start = member.me.position
    width = (member.region.end.position - start) % size or size
    if join.rule == "median":
        offsets = sorted((each.point[0] - start) % size for each in member.own_items() if each.span is None)
        if offsets and offsets[len(offsets) // 2] > 0:
            return (start + offsets[len(offsets) // 2]) % size
    return (start + width // 2) % size


def divided(member: Member, join: Join, position: int) -> tuple[Contact, Contact] | str:
    joiner = Contact(position, join.generation, join.id, join.host)
    if not member.owns((position,)):
        return "the position is not in this region any more"
    if position == member.me.position and joiner.rank < member.me.rank:
        return "the position is taken"
    if position == member.me.position and not join.generation:
        return "the region is too small to be divided"
    return member.me, joiner
