"""The array types of this package, and the grouped sum that all of it uses."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def summed(groups: NDArray[np.signedinteger], weights: Floats, count: int) -> Floats:
    """The sum of the weights of each group 0, 1, …, count - 1."""
    return np.bincount(groups, weights, count).astype(np.float64, copy=False)
