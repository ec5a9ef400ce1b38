"""The attributes that publications have: the columns of a feed, or what an advertisement declares."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from tocsin.content.language.domains import Domain, Ordinal, domain_of
from tocsin.errors import TypeMismatch, UserError
from tocsin.sql.scalars import InvalidValue


class Column(Protocol):
    """A column of a feed's dataset; ``type`` is in Spark's canonical spelling."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def nullable(self) -> bool: ...


class Attribute(Struct, frozen=True):
    name: str
    domain: Domain
    nullable: bool = True


class Attributes:
    """Names compare without regard to case, as in Spark."""

    def __init__(self, attributes: Iterable[Attribute]) -> None:
        self._named = {attribute.name.lower(): attribute for attribute in attributes}
        self._names = {attribute.name: attribute for attribute in self._named.values()}

    @classmethod
    def of_columns(cls, columns: Iterable[Column]) -> Attributes:
        return cls(Attribute(column.name, domain_of(column.type), column.nullable) for column in columns)

    def __iter__(self) -> Any:
        return iter(self._named.values())

    def __len__(self) -> int:
        return len(self._named)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Attributes) and self._named == other._named

    __hash__ = None  # type: ignore[assignment]

    def find(self, name: str) -> Attribute | None:
        return self._names.get(name) or self._named.get(name.lower())

    def __getitem__(self, name: str) -> Attribute:
        """Of a name that was found before."""
        return self._names[name]

    def unknown(self, name: str) -> tuple[str, str]:
        """Message and hint for a name that is not an attribute."""
        near = difflib.get_close_matches(name.lower(), self._named, 1)
        hint = f"did you mean {self._named[near[0]].name}?" if near else f"the attributes are {self._listed()}"
        return f"there is no attribute {name!r}", hint

    def _listed(self) -> str:
        names = [attribute.name for attribute in self]
        return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")

    def publication(self, values: Mapping[str, Any]) -> dict[str, Ordinal]:
        """The ordinals of a publication, checked: attributes that are null are left out."""
        out: dict[str, Ordinal] = {}
        for name, value in values.items():
            attribute = self.find(name)
            if attribute is None:
                message, hint = self.unknown(name)
                raise UserError(message, hint=hint, attribute=name)
            if attribute.name in out:
                raise UserError(f"the attribute {attribute.name!r} appears twice", attribute=name)
            if value is None:
                continue
            try:
                out[attribute.name] = attribute.domain.ordinal(value)
            except InvalidValue as invalid:
                raise TypeMismatch(
                    f"{attribute.name}: {invalid} (for {attribute.domain.type})", attribute=name, reason=invalid.code
                ) from None
        for attribute in self:
            if not attribute.nullable and attribute.name not in out:
                message = f"{attribute.name}: a value is required"
                raise TypeMismatch(message, attribute=attribute.name, reason="missing")
        return out
