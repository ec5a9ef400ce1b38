"""The client's state machine: publishing records to feeds."""

from __future__ import annotations

from client_harness import ClientHarness

from tocsin.client.core import events as ev
from tocsin.client.notification import Receipt
from tocsin.errors import NotFound, Uncertain
from tocsin.wire import messages as wire


def test_published_records_are_sent_and_return_a_receipt():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b'{"a":1}', b"2"]))
    (request,) = harness.sent_of(wire.Publish)
    assert (request.feed, [bytes(record) for record in request.records]) == ("F", [b'{"a":1}', b"2"])
    refused = [wire.Refused(1, "not_an_object", "no")]
    assert ev.Resolve(1, Receipt(1, refused)) in harness.receive(wire.Published(request.id, 1, refused))


def test_records_wait_for_a_connection():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    harness.connect()
    assert harness.sent_of(wire.Publish) == []
    harness.welcome()
    assert len(harness.sent_of(wire.Publish)) == 1


def test_an_empty_publication_is_resolved_at_once():
    assert ClientHarness().open().do(ev.PublishRequested(1, "F", [])) == [ev.Resolve(1, Receipt(0, []))]


def test_a_refused_publication_is_an_error():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    (reject,) = harness.receive(wire.Error(harness.sent_of(wire.Publish)[0].id, "not_found", "there is no feed 'F'"))
    assert isinstance(reject.error, NotFound)


def test_without_an_answer_a_publication_is_uncertain():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    harness.cut()
    (reject,) = harness.did(ev.Reject)
    assert isinstance(reject.error, Uncertain)
    assert harness.reconnect().sent_of(wire.Publish) == []


def test_records_that_may_be_sent_twice_are_sent_again():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b"{}"], retry=True))
    harness.cut()
    (request,) = harness.reconnect().sent_of(wire.Publish)
    assert ev.Resolve(1, Receipt(1, [])) in harness.receive(wire.Published(request.id, 1))


def test_many_records_are_sent_in_parts_and_refused_ones_keep_their_index():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.connect()
    harness.welcome(frame_bytes=400)
    harness.do(ev.PublishRequested(1, "F", [b"%090d" % number for number in range(7)]))
    sizes = []
    while not harness.did(ev.Resolve):
        request = harness.sent_of(wire.Publish)[-1]
        assert len(wire.encode(request)) <= 400
        sizes.append(len(request.records))
        harness.receive(wire.Published(request.id, sizes[-1] - 1, [wire.Refused(0, "wrong", "no")]))
    assert sizes == [3, 3, 1]
    (resolve,) = harness.did(ev.Resolve)
    assert resolve.receipt.accepted == 4 and [each.index for each in resolve.receipt.refused] == [0, 3, 6]


def test_a_message_has_no_more_records_than_the_protocol_allows():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b"1"] * 2_500))
    for _ in range(3):
        (request,) = wire.decode(wire.encode(harness.sent_of(wire.Publish)[-1]))
        harness.receive(wire.Published(request.id, len(request.records)))
    assert [len(request.records) for request in harness.sent_of(wire.Publish)] == [1_000, 1_000, 500]


def test_a_record_larger_than_a_frame_is_refused_by_the_client():
    harness = ClientHarness().open()
    (reject,) = harness.do(ev.PublishRequested(1, "F", [b'"%s"' % (b"x" * (1 << 20))]))
    assert reject.error.code == "limit_exceeded" and harness.sent_of(wire.Publish) == []


def test_a_cancelled_publication_is_not_sent():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    harness.do(ev.PublishCancelled(1))
    harness.connect()
    harness.welcome()
    assert harness.sent_of(wire.Publish) == []


def test_the_rest_and_the_retry_of_a_cancelled_publication_are_not_sent():
    harness = ClientHarness().open()
    harness.do(ev.PublishRequested(1, "F", [b"1"] * 2_500, retry=True))
    harness.do(ev.PublishRequested(2, "F", [b"2"] * 2_500, retry=True))
    harness.do(ev.PublishCancelled(1))
    harness.do(ev.PublishCancelled(2))
    harness.receive(wire.Published(harness.sent_of(wire.Publish)[0].id, 1_000))
    assert len(harness.sent_of(wire.Publish)) == 2
    harness.cut()
    assert harness.reconnect().sent_of(wire.Publish) == []
