"""Parses scripts: statements by hand, and the queries in them with sqlglot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, get_args

from msgspec import Struct

from tocsin.cluster.statements import ast as st
from tocsin.cluster.statements.ast import Statement
from tocsin.cluster.statements.ddl_parser import Definitions
from tocsin.cluster.statements.grant_parser import read_grant, read_show
from tocsin.cluster.statements.lexer import Token, split
from tocsin.cluster.statements.token_cursor import QUERY_STARTS, RESERVED_COLUMNS, is_word, quote
from tocsin.errors import ParseError
from tocsin.sql.script import Script
from tocsin.wire.feed_name import channel_of

Format = Literal["json", "csv", "parquet"]
FORMATS: tuple[Format, ...] = get_args(Format)


class Parsed(Struct, frozen=True):
    """A statement and where it starts; ``index``, ``line`` and ``column`` count from 1 within the script."""

    index: int
    line: int
    column: int
    text: str
    statement: Statement


def iter_statements(text: str) -> Iterator[Parsed]:
    """Yields the statements one by one, so that those before a syntax error can run before it is raised."""
    script = Script(text)
    for index, tokens in split(script):
        line, column = script.locate(tokens[0].start)
        statement = _StatementParser(script, tokens, index).statement()
        yield Parsed(index, line, column, text[tokens[0].start : tokens[-1].end], statement)


def parse_one(text: str) -> Statement:
    """The only statement of a text."""
    found = list(iter_statements(text))
    if not found:
        raise ParseError("the text has no statement")
    if len(found) > 1:
        raise ParseError(
            "expected one statement, found another", line=found[1].line, column=found[1].column, statement=2
        )
    return found[0].statement


class _StatementParser(Definitions):
    """Each method parses the rest of its statement."""

    def __init__(self, script: Script, tokens: list[Token], index: int) -> None:
        super().__init__(script, tokens, index)
        self._leading: dict[str, Callable[[], Statement]] = {
            "CREATE": self.create,
            "CONNECT": self._connect,
            "DISCONNECT": lambda: st.DisconnectFeed(self._feed()),
            "START": lambda: st.StartFeed(self._feed()),
            "STOP": lambda: st.StopFeed(self._feed()),
            "LOAD": self._load,
            "REPAIR": self._repair,
            "INSERT": lambda: self._insert(upsert=False),
            "UPSERT": lambda: self._insert(upsert=True),
            "DELETE": self._delete,
            "SUBSCRIBE": self._subscribe,
            "UNSUBSCRIBE": self._unsubscribe,
            "CHANGE": self._change,
            "EXECUTE": self._execute,
            "DROP": self.drop,
            "GRANT": lambda: read_grant(self),
            "REVOKE": lambda: read_grant(self, revoke=True),
            "SHOW": lambda: read_show(self),
        }

    def statement(self) -> Statement:
        first = self.peek()
        if first.text == "(" or any(self.at(word) for word in QUERY_STARTS):
            return st.Query(self.query(self.rest(), "the query"))
        parse = self._leading.get(first.text.upper()) if first.kind == "word" else None
        if parse is None:
            known = [*self._leading, *QUERY_STARTS]
            self.unknown("a statement", f"there is no statement {quote(first)}", known)
        self.next()
        statement = parse()
        self.expect_end()
        return statement

    def _feed(self) -> str:
        self.expect("FEED")
        return self.name("the feed")

    def _connect(self) -> Statement:
        feed = self._feed()
        self.expect("TO", "DATASET")
        return st.ConnectFeed(feed, self.name("the dataset"))

    def _repair(self) -> Statement:
        self.expect("DATASET")
        dataset = self.name("the dataset")
        with_loss = self.accept("WITH")
        if with_loss:
            self.expect("LOSS")
        return st.RepairDataset(dataset, bool(with_loss))

    def _load(self) -> Statement:
        self.expect("DATASET")
        dataset = self.name("the dataset")
        if self.accept("USING"):
            return self._load_localfs(dataset)
        self.expect("FROM", hint=f"write LOAD DATASET {dataset} FROM 'path' FORMAT json")
        path = self.string("the path")
        form = self._format() if self.accept("FORMAT") else None
        options: dict[str, str] = {}
        if self.accept("OPTIONS"):
            self.expect("(")
            options = dict(self.items(self._option))
        return st.LoadDataset(dataset, path, form, options)

    def _load_localfs(self, dataset: str) -> Statement:
        """The syntax of AsterixDB: ``USING localfs (("path"="…"),("format"="json"))``."""
        self.expect("localfs", hint=f"write LOAD DATASET {dataset} FROM 'path' FORMAT json")
        opening = self.peek()
        self.expect("(")
        form: Format | None = None

        def pair() -> tuple[str, str]:
            nonlocal form
            self.expect("(")
            token = self.peek(2)
            name, value = self._option()
            if name == "format":
                form = self._known_format("csv" if value == "delimited-text" else value, token)
            self.expect(")")
            return name, value

        options = dict(self.items(pair))
        options.pop("format", None)
        path = options.pop("path", None)
        if path is None:
            self.fail('localfs needs a "path"', at=opening, hint='(("path"="…"),("format"="json"))')
        for host in ("localhost://", "127.0.0.1://"):
            path = path.removeprefix(host)
        return st.LoadDataset(dataset, path, form, options)

    def _option(self) -> tuple[str, str]:
        """``'name' = value``"""
        name = self.string("the name of an option")
        self.expect("=")
        token = self.peek()
        if token.kind == "string":
            value = self.string("the value of an option")
        elif token.kind == "number" or self.at("TRUE") or self.at("FALSE"):
            value = self.next().text.lower()
        else:
            self.fail_expected("the value of an option: a string, a number, TRUE or FALSE")
        return name, value

    def _format(self) -> Format:
        token = self.peek()
        text = self.string("the format") if token.kind == "string" else self.next().text
        return self._known_format(text, token)

    def _known_format(self, text: str, token: Token) -> Format:
        known = next((known for known in FORMATS if text.lower() == known), None)
        if known is None:
            self.fail(f"expected one of the formats {', '.join(FORMATS)}, found {quote(token)}", at=token)
        return known

    def _insert(self, upsert: bool) -> Statement:
        self.expect("INTO")
        dataset = self.name("the dataset")
        columns: tuple[str, ...] = ()
        if self.at("(") and not self._starts(1, *QUERY_STARTS, "(", "{", "["):
            opening = self.next()
            columns = tuple(self.items(self._column))
            if len({column.lower() for column in columns}) < len(columns):
                self.fail("a column appears twice", at=opening)
            if not columns:
                self.fail_expected("the name of a column", hint="leave out the () for all columns")
        if self.at("(", "{") or self.at("(", "["):
            if columns:
                self.fail("JSON records name their own columns", hint="leave out the list of columns")
            piece = self.bracketed("the list of records")
            value = self.json(piece, "what is inserted")
            if not isinstance(value, dict) and not all(isinstance(item, dict) for item in value):
                self.fail("expected JSON objects in the array, found another value", at=piece.start)
            return st.Insert(dataset, columns, upsert, records=piece.text)
        if not self._starts(0, *QUERY_STARTS, "("):
            self.fail_expected("VALUES, SELECT or ({ … }) with JSON records")
        return st.Insert(dataset, columns, upsert, query=self._inserted_query())

    def _inserted_query(self) -> str:
        start = self.position
        if self.at("("):
            piece = self.bracketed("the query")
            if self.peek().kind == "end":
                return self.query(piece, "the query")
            self.position = start  # (SELECT …) UNION (SELECT …)
        return self.query(self.rest(), "the query")

    def _starts(self, ahead: int, *words: str) -> bool:
        return any(is_word(self.peek(ahead), word) for word in words)

    def _column(self) -> str:
        return self.name("a column", RESERVED_COLUMNS)

    def _delete(self) -> Statement:
        self.expect("FROM")
        dataset = self.name("the dataset")
        alias: str | None = None
        if self.accept("AS") or self.peek().kind == "quoted" or (self.peek().kind == "word" and not self.at("WHERE")):
            alias = self.name("the alias")
        where: str | None = None
        if self.accept("WHERE"):
            if self.peek().kind == "end":
                self.fail_expected("a condition")
            where = self.condition(self.rest(), "the condition")
        return st.Delete(dataset, alias, where)

    def _subscribe(self) -> Statement:
        self.expect("TO")
        if self.at("FEED") and self.peek(1).text != "(":  # else a channel of this name
            return self._subscribe_feed()
        channel = self.name("the channel")
        args = self.arguments()
        self.expect("ON", hint="name the broker: ON b")
        return st.Subscribe(channel, args, self.name("the broker"))

    def _subscribe_feed(self) -> Statement:
        """``FEED f [WHERE condition] [ON broker]``: the condition is read when the feed's columns are known."""
        feed = self._feed()
        if not self.accept("WHERE"):
            return st.SubscribeFeed(feed, None, self.name("the broker") if self.accept("ON") else None)
        last = len(self.tokens) - 2
        on = last > self.position and is_word(self.tokens[last], "ON")
        first, end = self.position, last if on else len(self.tokens)
        if first >= end:
            self.fail_expected("a condition", hint="leave out WHERE for all publications")
        start = self.tokens[first].start
        line, column = self.script.locate(start)
        where = self.script.text[start : self.tokens[end - 1].end]
        self.position = end
        broker = self.name("the broker") if self.accept("ON") else None
        return st.SubscribeFeed(feed, where, broker, line, column)

    def _source(self) -> str:
        """A channel, or ``FEED f``."""
        if self.at("FEED") and self.peek(1).kind in ("word", "quoted") and not self._starts(1, "ON"):
            return channel_of(self._feed())
        return self.name("the channel")

    def _subscription(self) -> str:
        if self.peek().kind == "number":
            return str(self.integer("the subscription's id"))
        return self.string("the subscription's id")

    def _unsubscribe(self) -> Statement:
        subscription = self._subscription()
        self.expect("FROM")
        channel = self._source()
        return st.Unsubscribe(subscription, channel, self.name("the broker") if self.accept("ON") else None)

    def _change(self) -> Statement:
        self.expect("SUBSCRIPTION")
        subscription = self._subscription()
        self.expect("ON")
        channel = self.name("the channel")
        args = self.arguments()
        from_broker = self.name("the broker") if self.accept("FROM") else None
        self.expect("TO")
        return st.ChangeSubscription(subscription, channel, args, self.name("the broker"), from_broker)

    def _execute(self) -> Statement:
        self.accept("PROCEDURE")
        return st.ExecuteProcedure(self.name("the procedure"), self.arguments())
