"""Arrays of frameworks that lack float8 or bfloat16."""

from typing import Any

from deepgemm._library import ext

View = ext.View


def view(x: Any, dtype: Any) -> View:
    """Read the memory of ``x`` as another dtype of the same element size; nothing is copied.

    For frameworks without float8 or bfloat16: store the bytes as ``uint8`` (or ``int8``,
    ``uint16``, ``int16``) and say here what they are.

    Args:
        x: an array of any framework, of any shape and strides.
        dtype: a name such as ``"float8_e4m3fn"``, ``"float8_e8m0fnu"`` or ``"bfloat16"``, or a
            dtype object of any framework.

    Returns:
        A light object with ``array``, ``dtype`` and ``shape`` that every operation takes as an
        array, as input and as output.

    Raises:
        TypeError: ``x`` is no array, the dtype is unknown, or the element sizes differ.
    """
    return View(x, dtype)
