"""What the compiled module asks of NumPy: dtypes and new arrays."""

from typing import Any

import numpy as np

empty = np.empty


def numpy_dtype(name: str) -> Any:
    """The NumPy dtype of this name, from ml_dtypes if need be; None where that is not installed."""
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        return None
    scalar = getattr(ml_dtypes, name, None)
    return None if scalar is None else np.dtype(scalar)
