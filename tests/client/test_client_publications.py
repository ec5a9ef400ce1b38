"""The client's state machine: records on their way to feeds."""

from __future__ import annotations

from rig import Rig

from tocsin.client.core import events as ev
from tocsin.client.notification import Receipt
from tocsin.errors import NotFound, Uncertain
from tocsin.wire import messages as wire


def test_records_are_sent_and_their_receipt_comes_back():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b'{"a":1}', b"2"]))
    (request,) = rig.said(wire.Publish)
    assert (request.feed, [bytes(record) for record in request.records]) == ("F", [b'{"a":1}', b"2"])
    refused = [wire.Refused(1, "not_an_object", "no")]
    assert ev.Resolve(1, Receipt(1, refused)) in rig.hear(wire.Published(request.id, 1, refused))


def test_records_wait_for_a_connection():
    rig = Rig()
    rig.do(ev.Open())
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.connect()
    assert rig.said(wire.Publish) == []
    rig.welcome()
    assert len(rig.said(wire.Publish)) == 1


def test_no_records_are_published_at_once():
    assert Rig().open().do(ev.WantPublish(1, "F", [])) == [ev.Resolve(1, Receipt(0, []))]


def test_a_refused_publication_is_an_error():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    (reject,) = rig.hear(wire.Error(rig.said(wire.Publish)[0].id, "not_found", "there is no feed 'F'"))
    assert isinstance(reject.error, NotFound)


def test_without_an_answer_it_is_uncertain_what_became_of_records():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.cut()
    (reject,) = rig.did(ev.Reject)
    assert isinstance(reject.error, Uncertain)
    assert rig.come_back().said(wire.Publish) == []


def test_records_that_may_be_sent_twice_are_sent_again():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"], retry=True))
    rig.cut()
    (request,) = rig.come_back().said(wire.Publish)
    assert ev.Resolve(1, Receipt(1, [])) in rig.hear(wire.Published(request.id, 1))


def test_many_records_go_part_by_part_and_the_refused_keep_their_place():
    rig = Rig()
    rig.do(ev.Open())
    rig.connect()
    rig.welcome(frame_bytes=400)
    rig.do(ev.WantPublish(1, "F", [b"%090d" % number for number in range(7)]))
    sizes = []
    while not rig.did(ev.Resolve):
        request = rig.said(wire.Publish)[-1]
        assert len(wire.encode(request)) <= 400
        sizes.append(len(request.records))
        rig.hear(wire.Published(request.id, sizes[-1] - 1, [wire.Refused(0, "wrong", "no")]))
    assert sizes == [3, 3, 1]
    (resolve,) = rig.did(ev.Resolve)
    assert resolve.receipt.taken == 4 and [each.index for each in resolve.receipt.refused] == [0, 3, 6]


def test_a_message_has_no_more_records_than_the_protocol_takes():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"1"] * 2_500))
    for _ in range(3):
        (request,) = wire.decode(wire.encode(rig.said(wire.Publish)[-1]))
        rig.hear(wire.Published(request.id, len(request.records)))
    assert [len(request.records) for request in rig.said(wire.Publish)] == [1_000, 1_000, 500]


def test_a_record_larger_than_a_frame_is_refused_by_the_client():
    rig = Rig().open()
    (reject,) = rig.do(ev.WantPublish(1, "F", [b'"%s"' % (b"x" * (1 << 20))]))
    assert reject.error.code == "limit_exceeded" and rig.said(wire.Publish) == []


def test_what_nobody_waits_for_any_more_is_not_sent():
    rig = Rig()
    rig.do(ev.Open())
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.do(ev.Withdraw(1))
    rig.connect()
    rig.welcome()
    assert rig.said(wire.Publish) == []


def test_of_what_nobody_waits_for_any_more_neither_the_rest_is_sent_nor_anything_again():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"1"] * 2_500, retry=True))
    rig.do(ev.WantPublish(2, "F", [b"2"] * 2_500, retry=True))
    rig.do(ev.Withdraw(1))
    rig.do(ev.Withdraw(2))
    rig.hear(wire.Published(rig.said(wire.Publish)[0].id, 1_000))
    assert len(rig.said(wire.Publish)) == 2
    rig.cut()
    assert rig.come_back().said(wire.Publish) == []
