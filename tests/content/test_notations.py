"""Both notations: what is written is read again, and mistakes are shown where they are."""

from __future__ import annotations

import pytest
from content_strategies import ATTRIBUTES, expressions, padres_expressions, publications
from hypothesis import example, given, settings

from seeds import examples
from tocsin.cluster.model import Column
from tocsin.content import Advertisement, Attributes, Condition
from tocsin.content.language import expressions as ex
from tocsin.content.language import padres_notation, sql_notation
from tocsin.content.language.attributes import Attribute
from tocsin.content.language.domains import domain_of
from tocsin.errors import LimitExceeded, ParseError, TypeMismatch, UserError

STOCK = Attributes.of_columns(
    [Column(name, "string") for name in ("class", "symbol", "date")]
    + [Column(name, "double") for name in ("open", "high", "low", "close")]
    + [Column("volume", "bigint"), Column("halted", "boolean")]
)


@settings(max_examples=examples(300))
@given(expressions())
@example(ex.Comparison("severity", "=", -(1 << 100)))
def test_a_condition_written_as_sql_is_read_as_the_same_tree(tree):
    assert sql_notation.read(sql_notation.write(tree), ATTRIBUTES) == tree


@settings(max_examples=examples(120))
@given(padres_expressions())
def test_a_conjunction_written_in_padres_notation_is_read_as_the_same_tree(tree):
    assert padres_notation.read(padres_notation.write(tree, ATTRIBUTES), ATTRIBUTES) == tree


@settings(max_examples=examples(120))
@given(padres_expressions())
def test_both_notations_have_one_normal_form(tree):
    condition = Condition(tree, ATTRIBUTES)
    assert Condition.parse(condition.to_padres(), ATTRIBUTES).key == Condition.parse(condition.to_sql(), ATTRIBUTES).key


@settings(max_examples=examples(200))
@given(publications())
def test_a_publication_written_in_padres_notation_is_the_same_publication(publication):
    text = padres_notation.write_publication(publication)
    assert ATTRIBUTES.publication(padres_notation.read_publication(text)) == ATTRIBUTES.publication(publication)


def test_the_publication_of_the_thesis_is_read():
    text = """[class,'STOCK'],[symbol,'YHOO'],[open,30.25],[high,31.75],[low,30.00],
        [close,31.62],[volume,203400],[date,'1-May-96']"""
    found = padres_notation.read_publication(text)
    assert found == {
        "class": "STOCK",
        "symbol": "YHOO",
        "open": 30.25,
        "high": 31.75,
        "low": 30.0,
        "close": 31.62,
        "volume": 203400,
        "date": "1-May-96",
    }


@pytest.mark.parametrize(
    ("padres", "sql"),
    [
        ("[class,eq,'STOCK'],[volume,>,300000]", "class = 'STOCK' AND volume > 300000"),
        ("[volume,>,300],[volume,<=,500]", "volume > 300 AND volume <= 500"),
        ("[symbol,isPresent,''],[open,isPresent,0]", "symbol IS NOT NULL AND open IS NOT NULL"),
        ("[class,eq,*]", "class IS NOT NULL"),
        ("[symbol,str-prefix,'YH']", "symbol LIKE 'YH%'"),
        ("[symbol,str-suffix,'OO'],[symbol,str-postfix,'O']", "symbol LIKE '%OO' AND symbol LIKE '%O'"),
        ("[symbol,str-contains,'_']", r"symbol LIKE '%\\_%'"),
        ("[symbol,neq,'IBM'],[volume,<>,3]", "symbol <> 'IBM' AND volume <> 3"),
        ("[symbol,str-lt,'M'],[symbol,str-ge,'A']", "symbol < 'M' AND symbol >= 'A'"),
        (" [ halted , = , true ] ", "halted = TRUE"),
        ("[symbol,eq,'it''s, [a] \"thing\"']", "symbol = 'it\\'s, [a] \"thing\"'"),
    ],
)
def test_each_operator_of_padres_is_a_condition_in_sql(padres, sql):
    condition = Condition.parse(padres, STOCK)
    assert condition.to_sql() == sql
    assert condition.key == Condition.of_sql(sql, STOCK).key


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("3 < volume", "volume > 3"),
        ("(volume) = (3)", "volume = 3"),
        ("volume = 3L", "volume = 3"),
        ("volume = 3BD", "volume = 3.0"),
        ("volume = 3.5D", "volume = 3.5e0"),
        ("volume == - -3", "volume = 3"),
        ("halted AND NOT halted", "halted = TRUE AND NOT (halted = TRUE)"),
        ("! halted", "NOT (halted = TRUE)"),
        ("VOLUME in (1, null)", "volume IN (1, NULL)"),
        ("symbol NOT LIKE 'a!%' ESCAPE '!'", r"symbol NOT LIKE 'a\\%'"),
        ("symbol = r'a\\b'", r"symbol = 'a\\b'"),
        ('symbol = "it""s"', "symbol = 'it\"s'"),
        ("symbol LIKE '%%_%x'", "symbol LIKE '_%x'"),
        ("NOT volume BETWEEN 1 AND 2 -- comment", "volume NOT BETWEEN 1 AND 2"),
        ("within(1, 2, open, high, 30)", "within(open, high, 1.0e0, 2.0e0, 30.0e0)"),
    ],
)
def test_the_same_condition_may_be_written_in_several_ways(written, meant):
    assert Condition.of_sql(written, STOCK).to_sql() == meant


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("symbol = 'IBM' AND\n  volum > 3", 2, 3, "there is no attribute 'volum'"),
        ("symbol = 'IBM' AND volume > ", 1, 27, "not valid Spark SQL"),
        ("volume > 3 GROUP BY symbol", 1, 12, "not valid Spark SQL"),
        ("volume > open", 1, 10, "open is not a constant"),
        ("volume > abs(3)", 1, 10, "ABS(3) is not a constant"),
        ("volume + 1 > 3", 1, 1, "the name of an attribute expected, found volume + 1"),
        ("x.volume > 3", 1, 1, "an attribute has one name"),
        ("volume IN (SELECT 1)", 1, 1, "IN takes a list of constants"),
        ("symbol RLIKE 'a.*'", 1, 1, "symbol RLIKE 'a.*' cannot be part of a condition"),
        ("volume <=> 3", 1, 1, "cannot be part of a condition"),
        ("symbol LIKE 'a!' ESCAPE '!'", 1, 13, "the escape character '!' at the end of a pattern"),
        ("symbol LIKE 'a' ESCAPE '!!'", 1, 24, "ESCAPE takes one character"),
        ("within(open, high, 1, 2)", 1, 1, "within takes 5 arguments, 4 given"),
        ("within(volume, 3, open, 2, 1)", 1, 16, "the name of an attribute expected, found 3"),
        ("CASE WHEN halted THEN TRUE END", 1, 11, "cannot be part of a condition"),
        ("", 1, 1, "the condition is empty"),
        ("volume > 3; DROP", 1, 13, "not valid Spark SQL"),
        ("symbol = 'a", 1, 1, "not valid Spark SQL"),
        ("[symbol,eq,'IBM'],\n[volum,>,3]", 2, 2, "there is no attribute 'volum'"),
        ("[symbol,eq,'IBM'] [volume,>,3]", 1, 19, "expected ',', found '['"),
        ("[symbol,like,'IBM']", 1, 9, "there is no operator 'like'"),
        ("[symbol,eq,IBM]", 1, 12, "'IBM' is not a value"),
        ("[symbol,eq,'IBM]", 1, 12, "the closing ' is missing"),
        ("[symbol,eq]", 1, 11, "expected ',', found ']'"),
        ("[symbol,eq,'IBM'],", 1, 19, "expected '[', found the end"),
        ("[volume,>,*]", 1, 11, "* is any value"),
        ("[,eq,'x']", 1, 2, "expected the name of an attribute"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text, line, column, message):
    with pytest.raises(ParseError) as raised:
        Condition.parse(text, STOCK)
    assert message in raised.value.message
    assert (raised.value.line, raised.value.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("volume = '3'", 10, "volume is of type bigint: a number expected, got the text '3'"),
        ("symbol > 3", 10, "symbol is of type string"),
        ("volume", 1, "volume is of type bigint"),
        ("halted = 1", 10, "true or false expected"),
        ("volume LIKE '3%'", 13, "LIKE is for texts"),
        ("within(symbol, open, 1, 2, 3)", 8, "symbol is of type string"),
        ("within(open, high, 1, 'x', 3)", 23, "a number expected"),
        ("within(open, high, 1, 2, 1e999)", 26, "not a finite double"),
        ("within(open, high, 1, 1e999D, 3)", 23, "not a finite double"),
        ("within(open, high, -1e999, 2, 3)", 21, "not a finite double"),
        ("within(open, high, 1, 2, 1" + "0" * 400 + ")", 26, "not a finite double"),
        ("volume = 1e999", 10, "not a finite double"),
        ("volume = 1" + "0" * 38, 10, "has more than 38 digits"),
        ("[volume,>,'3']", 11, "a number expected, got the text '3'"),
        ("[symbol,>,'A']", 9, "not for '>'"),
        ("[volume,str-lt,3]", 9, "not for 'str-lt'"),
        ("[volume,isPresent,'']", 19, "volume is of type bigint"),
        ("[symbol,isPresent,0]", 19, "symbol is of type string"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_its_place(text, column, message):
    with pytest.raises(TypeMismatch) as raised:
        Condition.parse(text, STOCK)
    assert message in raised.value.message
    assert (raised.value.fields["line"], raised.value.fields["column"]) == (1, column)


def test_an_attribute_that_cannot_be_compared_has_presence_only():
    attributes = Attributes([Attribute("tags", domain_of("array<string>"))])
    assert Condition.of_sql("tags IS NOT NULL", attributes).matches({"tags": ["a"]})
    with pytest.raises(TypeMismatch, match="cannot be compared"):
        Condition.of_sql("tags = 'a'", attributes)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(f"volume = {n}" for n in range(10_000)),
        f"volume IN ({', '.join(map(str, range(10_000)))})",
        ",".join(["[volume,>,3]"] * 2_000),
        "volume = 1" + " " * 100_000,
        " AND ".join(f"(symbol LIKE '%a{n}b%' OR date LIKE '%a{n}b%')" for n in range(40)),
        " AND ".join(f"(volume <> {n} OR symbol <> '{n}')" for n in range(40)),
        " OR ".join(f"(volume = {n} AND symbol = '{n}')" for n in range(65)),
        "symbol='" + "x" * (64 * 1024 - 9) + "'",  # within the limit, but not as it is written again
    ],
)
def test_a_condition_beyond_a_limit_is_refused(text):
    with pytest.raises(LimitExceeded):
        Condition.parse(text, STOCK)


def test_a_condition_nested_too_deeply_is_refused():
    with pytest.raises(ParseError, match="nested too deeply"):
        Condition.of_sql("NOT (" * 3_000 + "halted" + ")" * 3_000, STOCK)


def test_a_thousand_values_of_one_attribute_are_one_conjunction():
    assert len(Condition.of_sql(" OR ".join(f"volume = {n}" for n in range(1_000)), STOCK).terms) == 1


@pytest.mark.parametrize(
    "text",
    [
        "volume > 3 AND volume < 4",
        "symbol = NULL",
        "volume > 9223372036854775807",
        "symbol LIKE 'a%' AND symbol LIKE 'b%'",
        "symbol LIKE '%a' AND symbol LIKE '%b'",
        "symbol LIKE '%ab%' AND symbol NOT LIKE '%b%'",
        "symbol IN ('a', 'b') AND symbol LIKE '%c'",
        "within(open, high, 1, 2, 30) AND within(open, high, 3, 2, 30)",
        "within(open, high, 91, 2, 30)",
        "within(open, high, 1, 2, 30) AND open IS NULL",
        "NOT (volume IN (1, NULL))",
        "FALSE OR NULL",
    ],
)
def test_a_condition_that_is_never_true_is_accepted_with_a_warning(text):
    condition = Condition.of_sql(text, STOCK)
    assert condition.terms == ()
    assert "never true" in condition.warnings[0]


def test_a_condition_that_may_be_true_has_no_warning():
    assert Condition.of_sql("volume > 3", STOCK).warnings == ()


@pytest.mark.parametrize("text", ["volume > 3 OR open > 3", "NOT volume = 3", "volume IN (1, 2)", "symbol LIKE 'a_c'"])
def test_what_padres_has_no_notation_for_is_refused_when_written(text):
    with pytest.raises(UserError, match="PADRES has no notation"):
        Condition.of_sql(text, STOCK).to_padres()


def test_a_range_is_written_in_padres_notation_as_two_predicates():
    assert Condition.of_sql("volume BETWEEN 1 AND 2", STOCK).to_padres() == "[volume,>=,1],[volume,<=,2]"


@pytest.mark.parametrize(
    ("publication", "message"),
    [
        ({"volum": 3}, "there is no attribute 'volum'"),
        ({"volume": "3"}, "volume: an integer expected"),
        ({"volume": 3, "VOLUME": 4}, "appears twice"),
        ({"open": float("nan")}, "not a finite double"),
    ],
)
def test_a_publication_that_does_not_fit_the_attributes_is_refused(publication, message):
    with pytest.raises(UserError, match=message):
        Condition.of_sql("volume > 3", STOCK).matches(publication)


def test_a_publication_needs_the_attributes_that_are_not_null():
    with pytest.raises(TypeMismatch, match="level: a value is required"):
        ATTRIBUTES.publication({})


def test_an_advertisement_declares_the_types_of_its_attributes():
    advertisement = Advertisement.of_padres("[class,eq,'STOCK'],[open,isPresent,0],[date,isPresent,'00-00-00']")
    assert {each.name: each.domain.type for each in advertisement.attributes} == {
        "class": "string",
        "open": "double",
        "date": "string",
    }
    with pytest.raises(TypeMismatch):
        Condition.of_padres("[open,eq,'high']", advertisement.attributes)


def test_an_advertisement_cannot_give_an_attribute_two_types():
    with pytest.raises(TypeMismatch, match="a number and a text"):
        Advertisement.of_padres("[a,>,3],[a,eq,'x']")


def test_a_publication_against_its_advertisement_is_refused():
    advertisement = Advertisement.of_padres("[class,eq,'STOCK'],[open,>,1]")
    advertisement.check({"class": "STOCK", "open": 30.25})
    for publication in ({"class": "SPORTS", "open": 30.25}, {"class": "STOCK"}, {"class": "STOCK", "open": 1}):
        with pytest.raises(UserError, match="not one that its publisher advertised"):
            advertisement.check(publication)
    with pytest.raises(UserError, match="there is no attribute 'high'"):
        advertisement.check({"class": "STOCK", "open": 30.25, "high": 3})
