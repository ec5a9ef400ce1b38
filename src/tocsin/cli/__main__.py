"""``python -m tocsin.cli`` is ``tocsin``."""

from tocsin.cli.main import run

run()
