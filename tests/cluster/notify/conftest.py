"""An outbox, brokers and the notifier between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from outbox_lab import OutboxLab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[OutboxLab]:
    lab = OutboxLab(tmp_path)
    yield lab
    lab.close()
