from __future__ import annotations

from peer_scope import scope

from tocsin.balancing.strategies.antoine2014.choice_by_hash import by_hash, ranked

NAMES = [f"b{number}" for number in range(20)]


def at(peer: str, names: list[str] = NAMES):
    return scope(peer, neighbours=[each for each in names if each != peer])


def test_all_peers_choose_the_same_one():
    assert {by_hash(at(peer), "directory 1") for peer in NAMES} == {by_hash(at("b1"), "directory 1")}


def test_different_subjects_choose_different_peers():
    assert len({by_hash(at("b1"), str(number)) for number in range(200)}) == len(NAMES)


def test_a_peer_that_leaves_changes_only_its_own_choices():
    before = {subject: by_hash(at("b1"), str(subject)) for subject in range(200)}
    left = [each for each in NAMES if each != "b7"]
    for subject, peer in before.items():
        assert peer == "b7" or by_hash(at("b1", left), str(subject)) == peer


def test_the_first_of_the_ranked_is_the_one_by_hash():
    assert ranked(at("b1"), "x", 3)[0] == by_hash(at("b1"), "x")
    assert len(set(ranked(at("b1"), "x", 3))) == 3 and len(ranked(at("b1"), "x", 99)) == 20
