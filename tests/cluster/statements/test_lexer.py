from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tocsin.cluster.statements.lexer import split
from tocsin.errors import ParseError
from tocsin.sql.dialect import TocsinSpark
from tocsin.sql.script import Script


def texts(script: str) -> list[list[str]]:
    return [[token.text for token in tokens] for _, tokens in split(Script(script))]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; -- nothing\n ; /* ; */", []),
        ("a b; c", [["a", "b"], ["c"]]),
        ("a;", [["a"]]),
        ("a 'x;y' \"x;y\" `x;y` b", [["a", "'x;y'", '"x;y"', "`x;y`", "b"]]),
        ("f { a; (b; [c;]) } ; d", [["f", "{", "a", ";", "(", "b", ";", "[", "c", ";", "]", ")", "}"], ["d"]]),
        ("a -- x; y 'z\nb", [["a", "b"]]),
        ("a -- x\rb", [["a", "b"]]),
        ("a /* ; ' /* nested */ \" */ b", [["a", "b"]]),
        (r"'it''s' 'it\'s' '\\' r'\' b", [["'it''s'", r"'it\'s'", r"'\\'", r"r'\'", "b"]]),
        ("`a``b`", [["`a``b`"]]),
        ("f@12 1.5e-3 2L .5 1x", [["f", "@", "12", "1.5e-3", "2L", ".5", "1x"]]),
        ("a<=>b", [["a", "<", "=", ">", "b"]]),
        ("{ '}' -- }\n /* } */ }", [["{", "'}'", "}"]]),
    ],
)
def test_a_script_is_split_at_semicolons_outside_brackets_strings_and_comments(
    script: str, expected: list[list[str]]
) -> None:
    assert texts(script) == expected


@pytest.mark.parametrize(
    ("script", "line", "column", "message"),
    [
        ("a;\n b 'c", 2, 4, "has no closing '"),
        ('"', 1, 1, 'has no closing "'),
        ("'a''b", 1, 1, "has no closing '"),
        ("'a\\'", 1, 1, "has no closing '"),
        ("x\n\n  `abc\n", 3, 3, "backquoted name that starts here"),
        ("x /* /* */", 1, 3, "comment that starts here"),
        ("a)", 1, 2, "')' has no opening bracket"),
        ("{\n (a}", 2, 4, "expected ')' for the '(' at line 2, column 2, found '}'"),
        ("a;b {\n(c)", 1, 5, "'{' is never closed"),
        ("(" * 201, 1, 201, "nested deeper"),
        ("é 'ü' ]", 1, 7, "has no opening bracket"),
        ("a\r\nb\rc\n )", 4, 2, "has no opening bracket"),
        ("a;\n'x \ud800'", 2, 4, "surrogate"),
    ],
)
def test_a_script_that_cannot_be_split_is_refused_with_its_place(
    script: str, line: int, column: int, message: str
) -> None:
    with pytest.raises(ParseError) as caught:
        list(split(Script(script)))
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)
    assert caught.value.fields["statement"] == script[: script.find(";") + 1].count(";") + 1


def test_statements_before_an_error_come_first() -> None:
    statements = split(Script("a; b; 'c"))
    assert [next(statements)[0], next(statements)[0]] == [1, 2]
    with pytest.raises(ParseError):
        next(statements)


@given(some.text(alphabet="ab'\"`\\r-*/ \n;(){}[]@.1e"))
def test_tokens_are_in_order_and_only_space_and_comments_are_between_them(text: str) -> None:
    script = Script(text)
    position = 0
    try:
        for _, tokens in split(script):
            for token in tokens:
                assert text[token.start : token.end] == token.text
                between = text[position : token.start].replace(";", " ").strip()
                assert between == "" or between.startswith(("--", "/*"))
                position = token.end
    except ParseError as error:
        assert script.text == "" or 1 <= error.line <= text.count("\n") + 1


@given(some.text(alphabet="ab'\"\\n \n"), some.sampled_from("'\""))
def test_a_string_ends_where_sqlglot_ends_it(inside: str, mark: str) -> None:
    text = f"{mark}{inside}{mark}"
    try:
        [(_, tokens)] = split(Script(text))
    except ParseError:
        return
    if tokens[0].kind == "string":
        first = TocsinSpark().tokenize(text)[0]
        assert (first.start, first.end + 1) == (tokens[0].start, tokens[0].end)
