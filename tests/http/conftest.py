"""Makes the helpers for brokers and the coordinator importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent.parent / folder) for folder in ("broker", "coordinator")]
