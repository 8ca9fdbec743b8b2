"""Options of the calling thread."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from deepgemm._library import ext

_EVERY_DEVICE = -1


def get_options(*, device: int | None = None) -> dict[str, Any]:
    """The options set in this thread for ``device`` (None: for every device); None where unset."""
    found = ext.get_options(_EVERY_DEVICE if device is None else device)
    return {**found, "strict_jit": ext.strict()}


def set_options(
    *,
    num_sms: int | None = None,
    pdl: bool | None = None,
    constant_b: bool | None = None,
    deterministic: bool | None = None,
    strict_jit: bool | None = None,
    device: int | None = None,
) -> None:
    """Set options for this thread until they are set again; those left None stay as they are.

    Args:
        num_sms: SMs that a kernel may occupy; 0 is all of them, and the smaller counts where a
            policy has its own. Products by the persistent kernel, quantisers and scale layouts
            launch no more CTAs than that, and the decode kernel (few rows of a) is not chosen if it
            would. The general kernel, which computes what neither takes (``deepgemm.explain``
            tells), cannot be limited: it has a CTA for each 64 x 64 of out. Grouped products can.
        pdl: launch with programmatic dependent launch, so that a kernel's prologue overlaps the
            end of the one before it in the stream. A kernel reads and writes nothing before that
            one is complete, but for ``constant_b``.
        constant_b: b is written by nothing that the stream still has before a call, as weights
            are. With ``pdl``, a product then loads its first tiles of b before the kernel before
            it is complete. Without ``pdl`` it changes nothing.
        deterministic: forbid kernels whose result depends on the order of atomics. Every kernel
            that exists today gives bit-identical results, whatever this says.
        strict_jit: raise ``deepgemm.Error`` where a kernel would have to be compiled: set it after
            warm-up. Until set, and after a ``with`` block that set it, the environment variable
            ``DEEPGEMM_STRICT_JIT`` decides.
        device: CUDA device that the options are for; None: every device that has none of its own.

    Raises:
        ValueError: ``num_sms`` is negative.
    """
    key = _EVERY_DEVICE if device is None else device
    chosen = ext.get_options(key)
    given = {"num_sms": num_sms, "pdl": pdl, "constant_b": constant_b}
    given["deterministic"] = deterministic
    chosen.update({name: value for name, value in given.items() if value is not None})
    ext.set_options(key, **chosen)
    if strict_jit is not None:
        ext.set_strict(strict_jit)


@contextmanager
def options(
    *,
    num_sms: int | None = None,
    pdl: bool | None = None,
    constant_b: bool | None = None,
    deterministic: bool | None = None,
    strict_jit: bool | None = None,
    device: int | None = None,
) -> Iterator[None]:
    """Set options within a ``with`` block; arguments as for :func:`set_options`.

    The options before it, of this thread, come back at its end, whatever happens inside::

        with deepgemm.options(num_sms=100):
            deepgemm.gemm(a, b)
    """
    key = _EVERY_DEVICE if device is None else device
    before, strict = ext.get_options(key), ext.strict_setting()
    try:
        set_options(
            num_sms=num_sms,
            pdl=pdl,
            constant_b=constant_b,
            deterministic=deterministic,
            strict_jit=strict_jit,
            device=device,
        )
        yield
    finally:
        ext.set_options(key, **before)
        if strict_jit is not None:
            ext.set_strict(strict)
