"""Calls prepared ahead."""

from typing import Any

from deepgemm._library import Plan, ext

_OPERATIONS = {
    "gemm": ext.plan_gemm,
    "grouped_gemm": ext.plan_grouped_gemm,
    "masked_gemm": ext.plan_masked_gemm,
    "k_grouped_gemm": ext.plan_k_grouped_gemm,
}


def plan(op: str, *operands: Any, **options: Any) -> Plan:
    """Prepare an operation for arrays like these: check, choose, load, encode. Launches nothing.

    The plan is called with arrays of the same dtypes, devices, shapes and strides, and on a GPU of
    the same alignment (address modulo 16), any number of times and from any number of threads::

        p = deepgemm.plan("gemm", a, b, out)
        p(a, b, out=out)

    ``p(a, b, out=None, *, c, bias, stream)`` returns ``out``, or a new one; of the other operations
    it is ``p(a, b, groups, out=None, ...)`` with the array that says whose rows, or how much of K,
    are whose. ``c`` and ``bias`` are given where they were given here, and ``c`` is ``out`` where
    it was. A pair (values, sf) has the granularity of the plan. Everything else is the plan's, the
    options of the thread (``num_sms``, ``pdl``, ``constant_b``) too. The plan keeps no array alive
    and holds no address.

    ``p.explain()`` is a :class:`Report`, ``p.config`` its config in words, ``p.problem`` a dict of
    what is computed.

    Args:
        op: ``"gemm"``, ``"grouped_gemm"``, ``"masked_gemm"`` or ``"k_grouped_gemm"``.
        operands: examples of the arrays, as for the operation; what they hold is not read.
        options: the keywords of the operation, all but ``stream``.

    Raises:
        ValueError: unknown ``op``; what the operation itself would raise, as its TypeError and
            deepgemm.Error. A call of the plan raises ValueError or TypeError with the operand that
            differs, what was found, and what the plan needs.
    """
    make = _OPERATIONS.get(op) if isinstance(op, str) else None
    if make is None:
        known = ", ".join(f'"{name}"' for name in _OPERATIONS)
        found = repr(op) if isinstance(op, str) else f"an object of type {type(op).__name__}"
        raise ValueError(f"op: found {found}, need one of {known}")
    made: Plan = make(*operands, **options)
    return made
