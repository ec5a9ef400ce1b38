"""How the data cluster and a broker agree that tells need not be answered one by one.

A broker that says ``unanswered`` hears requests in their order, nothing behind one that it refuses, and answers those
that ask for no haste together, in their order.
"""

from __future__ import annotations

#: In an answer: so many requests may be unanswered on a connection.
UNANSWERED = b"tocsin-unanswered"
#: In a request: the answer may come later, together with others.
ANSWER, LATER = b"tocsin-answer", b"later"
