"""The demo runs on a local deployment, so its tests use the helpers of tests/local."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "local"))
