"""Content subscriptions: conditions on the attributes of publications, how they relate, and which of many match.

attributes = Attributes.of_columns(dataset.columns)
condition = Condition.parse("kind = 'fire' AND severity >= 3", attributes)
condition.covers(other)                         exact for conjunctions of comparisons, else on the safe side
index = MatchIndex(attributes)
index.add(1, condition)
index.match({"kind": "fire", "severity": 4})    array([1], dtype=int32)
poset = Poset(attributes)
poset.insert("subscription 1", condition)
poset.css                                       the subscriptions that no other covers
"""

from tocsin.content.advertisement import Advertisement
from tocsin.content.condition import Condition
from tocsin.content.index.match_index import MatchIndex
from tocsin.content.language.attributes import Attribute, Attributes
from tocsin.content.language.record_reader import record_reader
from tocsin.content.poset import Poset

__all__ = ["Advertisement", "Attribute", "Attributes", "Condition", "MatchIndex", "Poset", "record_reader"]
