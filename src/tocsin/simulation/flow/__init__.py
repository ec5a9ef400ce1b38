"""The flow simulation: the same decisions as in production, and deliveries counted instead of carried out.

Between two changes of who wants what where, an execution of a channel is one multiplication: of the results' sizes
with the counts of FE subscriptions. So half an hour of ten thousand subscribers takes seconds, and every delivery and
byte is in the account.

work = debs_simulation(seed=1)                          who comes when, wants what, and what the channels find
run = simulate(work, settings(strategy="ldm", placement="nearest"))
run.samples.cov, run.deliveries, run.migrations
"""

from tocsin.simulation.flow.flow import simulate
from tocsin.simulation.flow.results import Migration, Run
from tocsin.simulation.flow.settings import PAPER, settings
from tocsin.simulation.flow.workload import Execution, Workload

__all__ = ["PAPER", "Execution", "Migration", "Run", "Workload", "settings", "simulate"]
