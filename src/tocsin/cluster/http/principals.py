"""The principal of a request: an operator, a user, another part of the network, or anonymous."""

from __future__ import annotations

import hmac
import logging
import time
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import msgspec

from tocsin.cluster.ops.admin_token import FILE
from tocsin.config import ClusterConfig
from tocsin.errors import Unauthorized
from tocsin.http.requests import header
from tocsin.identity.grants import ANONYMOUS, OPERATOR, PART, Principal, user
from tocsin.identity.tokens import OWN, Provider, UnknownKey, Verifier

if TYPE_CHECKING:
    from tocsin.cluster.service import DataCluster

log = logging.getLogger(__name__)

#: Seconds between two requests for the keys of tokens.
KEYS_SECONDS = 10.0


class Principals:
    def __init__(self, config: ClusterConfig, cluster: DataCluster) -> None:
        self._admin = cluster.admin_token.encode()
        self._sender, self._tls, self._joined = cluster.sender, cluster.tls, bool(config.join_secret)
        self._keys = config.token_keys
        self._issuer = config.token_issuer or OWN
        provider = None
        if config.token_issuer:
            provider = Provider(config.token_issuer, config.token_audience, config.token_roles)
        self._verifier = Verifier(time.time, provider=provider)
        self._fetched = float("-inf")

    async def find(self, scope: Any) -> Principal:
        """Raises Unauthorized if the request has a token that is not valid."""
        given = header(scope["headers"], b"authorization")
        if given is None:
            return PART if self.is_part(scope) else ANONYMOUS
        scheme, _, token = given.partition(b" ")
        if scheme.lower() != b"bearer":
            raise Unauthorized("the header Authorization has no token", hint="send Authorization: Bearer TOKEN")
        if hmac.compare_digest(token.strip(), self._admin):
            return OPERATOR
        if not self._keys:
            raise Unauthorized(
                "this is not the operators' token",
                hint=f"it is in {FILE} of its home; for users' tokens set token_keys",
            )
        claims = await self._verified(token.decode("latin-1").strip())
        return user(claims.raw, claims.roles)

    def is_part(self, scope: Any) -> bool:
        """Whether a broker or the coordinator signed it; without a join secret, whether it comes from this machine."""
        if self._sender(scope["headers"]) is not None:
            return True
        if self._joined or any(name in (b"forwarded", b"x-forwarded-for") for name, _ in scope["headers"]):
            return False  # the second is a proxy on this machine
        client = scope.get("client")
        try:
            return client is None or ip_address(str(client[0]).partition("%")[0]).is_loopback
        except ValueError:
            return False

    async def _verified(self, token: str) -> Any:
        try:
            return self._verifier.verify(token)
        except UnknownKey:
            if time.monotonic() - self._fetched < KEYS_SECONDS:
                raise
            self._fetched = time.monotonic()
            await self._learn()
        return self._verifier.verify(token)

    async def _learn(self) -> None:
        try:
            if self._keys.startswith(("http://", "https://")):
                async with httpx.AsyncClient(timeout=5.0, trust_env=False, verify=self._tls.client()) as client:
                    text = (await client.get(self._keys)).raise_for_status().content
            else:
                text = Path(self._keys).read_bytes()
            self._verifier.learn(self._issuer, msgspec.json.decode(text, type=dict[str, Any]))
        except (httpx.HTTPError, OSError, msgspec.DecodeError) as error:
            log.warning("cannot read the keys of tokens from %s: %s", self._keys, error or type(error).__name__)
