"""Tweets as quadruples (graph, subject, predicate, object), in place of the paper's data, which is not public.

The explanation of the reproduction describes them; it was written before any result was known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from random import Random

from tocsin.overlay.keyspace.can.terms import point
from tocsin.overlay.keyspace.model.item import Item

Quadruple = tuple[str, str, str, str]

EVENTS, TWITTER = "http://events.example.org", "http://twitter.example.org"
DUBLIN, SIOC = "http://purl.org/dc/terms", "http://rdfs.org/sioc"
FIRST_ID, LONGEST_STEP = 463_000_000_000_000_000, 4 * 10**9
AUTHORS, WORDS, TAGS = 2_000, 2_000, 500
LANGUAGES = {"en": 50, "ja": 20, "es": 12, "pt": 10, "ar": 5, "fr": 3}
CLIENTS = [f"http://{name}.example.org/" for name in ("android", "iphone", "web", "ipad", "deck", "bot")]
#: Quadruples of a tweet.
OF_A_TWEET = 10
CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwyz", "aeiou"


class Zipf:
    """One of many, with weights 1/rank."""

    def __init__(self, values: Sequence[str]) -> None:
        self._values = values
        self._weights = list(accumulate(1 / rank for rank in range(1, len(values) + 1)))

    def draw(self, rng: Random) -> str:
        return rng.choices(self._values, cum_weights=self._weights)[0]


def word(rng: Random) -> str:
    return "".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(2, 4)))


def words(rng: Random, count: int) -> list[str]:
    """Different ones."""
    found: dict[str, None] = {}
    while len(found) < count:
        found[word(rng)] = None
    return list(found)


def count(rng: Random) -> str:
    return f'"{int(rng.lognormvariate(5.298, 2))}"'


def generate(tweets: int, seed: int) -> Iterator[Quadruple]:
    rng = Random(f"quadruples {seed}")
    authors, vocabulary = Zipf(words(rng, AUTHORS)), Zipf(words(rng, WORDS))
    tags, clients = Zipf(words(rng, TAGS)), Zipf(CLIENTS)
    id, seconds = FIRST_ID, 0.0
    for _ in range(tweets):
        id += rng.randint(1, LONGEST_STEP)
        seconds += 86_000 / tweets
        yield from tweet(rng, id, clock(seconds), authors.draw(rng), vocabulary.draw, tags.draw(rng), clients.draw(rng))


def clock(seconds: float) -> str:
    whole = int(seconds)
    return f'"2014-05-05T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}Z"'


def tweet(
    rng: Random, id: int, created: str, name: str, draw: Callable[[Random], str], tag: str, client: str
) -> Iterator[Quadruple]:
    graph, author = f"{EVENTS}/twitter/{id}#event", f"{TWITTER}/{name}"
    status = f"{author}/status/{id}"
    language = rng.choices(list(LANGUAGES), weights=list(LANGUAGES.values()))[0]
    text = " ".join(draw(rng) for _ in range(rng.randint(4, 16)))
    yield graph, status, "http://www.w3.org/1999/02/22-rdf-syntax-ns#type", f"{SIOC}/types#MicroblogPost"
    yield graph, status, f"{DUBLIN}/created", created
    yield graph, status, f"{DUBLIN}/language", f'"{language}"'
    yield graph, status, f"{SIOC}/ns#content", f'"{text}"'
    yield graph, status, f"{SIOC}/ns#has_creator", author
    yield graph, status, f"{SIOC}/ns#topic", f"{TWITTER}/search?q=%23{tag}"
    yield graph, status, f"{EVENTS}/types/source", client
    yield graph, author, f"{EVENTS}/types/followersCount", count(rng)
    yield graph, author, f"{EVENTS}/types/friendsCount", count(rng)
    yield graph, author, "http://xmlns.com/foaf/0.1/name", f'"{name.capitalize()}"'


def items(tweets: int, seed: int) -> list[Item]:
    """As a CAN stores them; an item weighs the characters of its terms."""
    return [
        Item(f"q{number}", point(each), None, 1, None, sum(map(len, each)))
        for number, each in enumerate(generate(tweets, seed))
    ]
