"""HTTP headers with which the data cluster and a broker agree to pipeline notifications.

A broker that sends ``tocsin-unanswered`` handles requests in order, ignores those after one that it refuses, and may
answer several together, in order, if they allow a late answer.
"""

from __future__ import annotations

#: In an answer: the number of requests that may be unanswered on a connection.
UNANSWERED = b"tocsin-unanswered"
#: In a request: the answer may come later, together with others.
ANSWER, LATER = b"tocsin-answer", b"later"
