from __future__ import annotations

import sys
from pathlib import Path

# For the helpers of the broker's tests.
sys.path.append(str(Path(__file__).parent.parent / "broker"))
