"""Array types used in signatures; shapes and meaning stand in the docstrings."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.signedinteger[Any]]
UIntArray = NDArray[np.uint64]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
