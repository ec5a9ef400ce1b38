"""The strategies for conditions are those of the tests of conditions."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent.parent / "content"))
