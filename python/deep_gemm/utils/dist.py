"""Helpers of distributed tests and benchmarks."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import distributed


def init_dist(local_rank: int, num_local_ranks: int) -> tuple[int, int, Any]:
    """Join the process group of all nodes, by NCCL, and take the GPU `local_rank`.

    MASTER_ADDR, MASTER_PORT, WORLD_SIZE (nodes) and RANK (this node) say where and who.

    Returns:
        This process's rank, the number of all, and their group.
    """
    address = os.environ.get("MASTER_ADDR", "127.0.0.1")
    port = int(os.environ.get("MASTER_PORT", "8361"))
    nodes, node = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    ranks = nodes * num_local_ranks
    torch.cuda.set_device(local_rank)
    distributed.init_process_group(
        "nccl",
        init_method=f"tcp://{address}:{port}",
        world_size=ranks,
        rank=node * num_local_ranks + local_rank,
    )
    torch.set_default_device("cuda")
    return distributed.get_rank(), distributed.get_world_size(), distributed.new_group(range(ranks))


def uneven_all_gather(tensor: torch.Tensor, dim: int = 0, group: Any = None) -> torch.Tensor:
    """Gather tensors that differ in their extent along `dim`, side by side along it.

    Args:
        tensor: of any shape, the same in every process but for `dim`.
        dim: the dimension.
        group: the process group; None: all.
    """
    count = distributed.get_world_size(group)
    own = torch.tensor([tensor.shape[dim]], device=tensor.device)
    extents = [torch.empty_like(own) for _ in range(count)]
    distributed.all_gather(extents, own, group=group)
    sizes = [int(extent) for extent in extents]
    most = max(sizes)
    rows = tensor.movedim(dim, 0)
    padded = rows.new_zeros((most, *rows.shape[1:]))
    padded[: rows.shape[0]] = rows
    parts = [torch.empty_like(padded) for _ in range(count)]
    distributed.all_gather(parts, padded, group=group)
    gathered = torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])
    return gathered.movedim(0, dim).contiguous()
