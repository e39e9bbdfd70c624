"""Array types used in signatures. Docstrings give the shapes and the meaning."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.signedinteger[Any]]
UIntArray = NDArray[np.uint64]
FloatArray = NDArray[np.floating[Any]]
BoolArray = NDArray[np.bool_]
