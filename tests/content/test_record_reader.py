"""Records of a feed as publications: numbers keep their digits where an attribute needs them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tocsin.content import Attribute, Attributes, record_reader
from tocsin.content.language.domains import domain_of
from tocsin.errors import TypeMismatch

COST = Attributes([Attribute("cost", domain_of("decimal(20,2)")), Attribute("size", domain_of("double"))])


def test_a_decimal_keeps_all_its_digits():
    assert record_reader(COST)(b'{"cost":123456789012345678.10}') == {"cost": Decimal("123456789012345678.10")}


def test_an_exponent_beyond_those_of_decimals_is_read_as_a_double():
    values = record_reader(COST)(b'{"size":1.0e-99999999999999999999}')
    assert COST.publication(values) == {"size": 0}


@pytest.mark.parametrize("name", ["cost", "size"])
def test_a_number_beyond_all_types_is_refused_by_its_attribute(name):
    values = record_reader(COST)(b'{"%b":1e99999999999999999999}' % name.encode())
    with pytest.raises(TypeMismatch, match=name):
        COST.publication(values)
