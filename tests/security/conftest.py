"""The attack suite uses the real brokers and coordinators of other tests."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent.parent / name) for name in ("broker", "coordinator")]
