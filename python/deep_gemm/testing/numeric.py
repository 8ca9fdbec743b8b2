"""Comparing tensors and counting their bytes."""

from __future__ import annotations

from typing import Any

import torch


def calc_diff(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Return 1 - 2<x,y> / (<x,x> + <y,y>) in FP64, a scalar tensor; 0 of two zeros."""
    x, y = x.double(), y.double()
    total = (x * x + y * y).sum()
    difference: torch.Tensor = 1 - 2 * (x * y).sum() / total
    return torch.where(total == 0, torch.zeros_like(difference), difference)


def count_bytes(*tensors: Any) -> int:
    """Return the bytes of all tensors in nested tuples and lists; None counts 0."""
    total = 0
    for item in tensors:
        if isinstance(item, (tuple, list)):
            total += count_bytes(*item)
        elif item is not None:
            total += item.numel() * item.element_size()
    return total


def assert_bitwise_equal(x: torch.Tensor, y: torch.Tensor) -> None:
    """Raise AssertionError unless x and y have one shape, one dtype and the same bytes."""
    found, need = (f"{t.dtype} {tuple(t.shape)}" for t in (x, y))
    if found != need:
        raise AssertionError(f"found {found}, need {need}")
    left, right = (t.contiguous().reshape(-1).view(torch.uint8) for t in (x, y))
    if not torch.equal(left, right):
        places = (left != right).view(-1, x.element_size()).any(dim=1)
        first = int(places.nonzero()[0])
        raise AssertionError(
            f"{int(places.sum())} of {x.numel()} elements differ; the first is number {first}: "
            f"{x.reshape(-1)[first].item()} and {y.reshape(-1)[first].item()}"
        )
