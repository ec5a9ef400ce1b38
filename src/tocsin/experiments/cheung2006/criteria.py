"""What counts as reproduced. Tolerances of the local experiment were fixed before the simulation existed, those of
four clusters before their first run, those of the micro experiments before theirs.

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

# The local micro experiments (section 5.3.1). Each is the local set-up until 3,000 s, with one thing changed.

#: Standard deviation of the input ratios, whatever the share of subscribers without traffic or the number of edges.
SWEEP_DEVIATION = 0.1
#: Of the matching delays, in seconds (0.001 to 0.002).
SWEEP_MATCHING_DEVIATION = 0.004
#: Delivery delay with the most edges, over that with the fewest: below this (it falls).
FASTER_DELIVERY = 0.9
#: The mean of the absolute error of the input estimates with 10 to 50 samples, over that with one: at most this.
BETTER_ESTIMATE = 1.0
#: Sessions with a threshold of 0.08 or more (40), and how many more there are with 0.04 or less.
FEW_SESSIONS, MORE_SESSIONS = 40, 1.5
#: Standard deviation of the input ratios even with a threshold of 0.7.
LOOSE_DEVIATION = 0.25
#: Overhead with a PIE period of 20 s over that with 120 s: at least this (0.6 and 0.1 %).
PIE_OVERHEAD = 2.0
