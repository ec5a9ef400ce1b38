"""The AsyncAPI 3.0 document of the wire protocol, generated from the messages and close codes. Seen from the broker."""

from __future__ import annotations

from inspect import getdoc
from typing import Any, get_args

import msgspec

from tocsin import __version__
from tocsin.wire import links
from tocsin.wire import messages as wire
from tocsin.wire.close_codes import CLOSES

ADDRESS = "/v1/ws"
Kind = type[wire.Message] | type[links.LinkBase]

CLIENTS: tuple[Kind, ...] = get_args(wire.FromClient)
BROKERS: tuple[Kind, ...] = get_args(wire.FromBroker)
#: Between brokers, both ways: what a link sends, and the messages of its stream.
LINKS: tuple[Kind, ...] = (*links.CARRIERS, *links.BODIES)

#: What answers a message.
ANSWERS: dict[Kind, tuple[Kind, ...]] = {
    wire.Hello: (wire.Welcome,),
    wire.Subscribe: (wire.Subscribed, wire.Error),
    wire.Unsubscribe: (wire.Unsubscribed, wire.Error),
    wire.Publish: (wire.Published, wire.Error),
    wire.Ping: (wire.Pong,),
}

_CHANNEL = {"$ref": "#/channels/subscriber"}


def tag(kind: Kind) -> str:
    """The ``type`` of a message."""
    return str(kind.__struct_config__.tag)


def summary(kind: Kind) -> str:
    """What a message means: all of its docstring, as Markdown."""
    return (getdoc(kind) or "").replace("``", "`")


def schemas() -> dict[str, Any]:
    kinds = [*CLIENTS, *BROKERS, *LINKS]
    return msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")[1]


def document() -> dict[str, Any]:
    everything = list(dict.fromkeys([*CLIENTS, *BROKERS]))
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Tocsin broker",
            "version": __version__,
            "description": "Subscribe to channels and get their notifications, each once and in order. A frame holds "
            "one message or an array of several. A request carries an `id` and gets one answer with the same `id`.",
        },
        "defaultContentType": "application/json",
        "servers": {"broker": {"host": "127.0.0.1:8481", "protocol": "ws", "description": "`tocsin broker`"}},
        "channels": {
            "subscriber": {
                "address": ADDRESS,
                "description": f"A subscriber's WebSocket, subprotocol `{wire.SUBPROTOCOL}`.",
                "messages": {tag(kind): {"$ref": f"#/components/messages/{tag(kind)}"} for kind in everything},
                "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
                "x-close-codes": [msgspec.to_builtins(close) for close in CLOSES.values()],
            },
            "overlay": {
                "address": links.LINK_PATH,
                "description": f"A link of two brokers, subprotocol `{links.LINK_SUBPROTOCOL}`, on the inner port. "
                "A WebSocket message is one of the first five; the others are the `body` of a `link_frame`.",
                "messages": {tag(kind): {"$ref": f"#/components/messages/{tag(kind)}"} for kind in LINKS},
                "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
            },
        },
        "operations": {
            **{f"receive_{tag(kind)}": _operation("receive", kind) for kind in CLIENTS},
            **{f"send_{tag(kind)}": _operation("send", kind) for kind in BROKERS},
            **{f"send_{tag(kind)}": _on_link(kind) for kind in links.CARRIERS},
        },
        "components": {
            "messages": {tag(kind): _message(kind) for kind in (*everything, *LINKS)},
            "schemas": schemas(),
        },
    }


def _message(kind: Kind) -> dict[str, Any]:
    first, _, rest = summary(kind).partition("\n")
    described = {"description": rest.strip()} if rest.strip() else {}
    return {
        "name": tag(kind),
        "summary": first,
        **described,
        "payload": {"$ref": f"#/components/schemas/{kind.__name__}"},
    }


def _operation(action: str, kind: Kind) -> dict[str, Any]:
    found: dict[str, Any] = {"action": action, "channel": _CHANNEL, "messages": [_of_channel(kind)]}
    if kind in ANSWERS:
        found["reply"] = {"channel": _CHANNEL, "messages": [_of_channel(each) for each in ANSWERS[kind]]}
    return found


def _on_link(kind: Kind) -> dict[str, Any]:
    messages = [{"$ref": f"#/channels/overlay/messages/{tag(kind)}"}]
    return {"action": "send", "channel": {"$ref": "#/channels/overlay"}, "messages": messages}


def _of_channel(kind: Kind) -> dict[str, str]:
    return {"$ref": f"#/channels/subscriber/messages/{tag(kind)}"}


def text() -> str:
    """The file ``docs/reference/asyncapi.json``."""
    return msgspec.json.format(msgspec.json.encode(document()), indent=2).decode() + "\n"
