"""The demo runs on a local deployment: its tests use the helpers of those tests too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "local"))
