"""What counts as reproduced: fixed before any result was known.

The thesis shows one run of its local experiment, and most of its figures are read off curves. So each sentence has a
tolerance, given here beside the thesis' value. Loads are means over a minute, as its curves are smooth at that scale.
"""

from __future__ import annotations

#: Seconds: B1's input ratio first exceeds the higher overload threshold (the thesis: about 200).
OVERLOADED_FROM, OVERLOADED_UNTIL = 100.0, 300.0
#: Input ratios of all edges are within the detection threshold and the noise of a mean over a minute.
WITHIN = 0.12
#: Seconds: balanced from then on until the rates change (1,800), and after the change until the end (3,400 to 3,800).
BALANCED_BY, BALANCED_AGAIN_BY = 2_300.0, 4_200.0
#: Seconds: B1's input queue is empty from then on (1,400).
EMPTY_FROM, EMPTY_BY = 1_010.0, 2_000.0
#: A queue is empty if a publication waits less than this.
EMPTY = 1.0
#: Subscribers of an edge over its share by processor speed (120 : 240 : 490 : 1220 is 0.98 to 1.01 of it).
SHARE_LOW, SHARE_HIGH = 1 / 1.5, 1.5
#: Matching delays at the end (0.018 to 0.022 s), and their largest difference: the delay threshold of 0.01 s.
DELAY_LOW, DELAY_HIGH, DELAY_WITHIN = 0.014, 0.026, 0.011
#: The most subscriptions that B1 ever has (about 600).
MOST_LOW, MOST_HIGH = 300, 1_000
#: Share of the sessions while subscribers join in which B1 takes part (19 of 22).
WITH_B1 = 0.75
#: Mean standard deviation of the ratios when balanced (0.02 to 0.04): as printed, and in direction.
STEADY_DEVIATION, STEADY_DIRECTION = 0.06, 0.1
#: Largest mean error and standard deviation of the estimates in per cent of a ratio, of both sides
#: (3.3 ± 5.4 and -1.6 ± 5.2; 0.12 ± 0.3 and 1.5 ± 1.9), and of the matching delay in seconds.
INPUT_ERROR, INPUT_DEVIATION = 10.0, 10.0
OUTPUT_ERROR, OUTPUT_DEVIATION = 5.0, 5.0
MATCHING_ERROR = 0.0005
#: Control messages over all messages when balanced (0.3 and 0.2 %), and their peak after the change (0.55 %).
STEADY_OVERHEAD, PEAK_OVERHEAD = 0.006, 0.015
#: When the steady state of each phase begins, for means.
STEADY_FROM, STEADY_AGAIN_FROM = 2_300.0, 4_200.0

# The global experiment: four clusters in a chain (section 5.2.2).

#: Mean input ratios of neighbouring clusters differ by at most the global threshold and the noise of a mean.
NEIGHBOURS_WITHIN = 0.2
#: Seconds: so from then on until the rates change (4,700), and after the change until the end (10,500).
CLUSTERS_BY, CLUSTERS_AGAIN_BY = 6_000.0, 11_500.0
#: First and last cluster of the chain (0.2; three thresholds are 0.45).
ENDS_WITHIN = 0.35
#: A cluster further away has no more than this above a nearer one.
THINNER_BY = 0.05
#: Control messages over all messages when balanced (below 0.7 %).
GLOBAL_OVERHEAD = 0.007
