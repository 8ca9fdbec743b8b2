"""PyTorch and JAX on a GPU: their streams, their arrays, CUDA graphs."""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm
import oracle

pytestmark = pytest.mark.gpu
BLOCKS = ((1, 128), (128, 128))


def torch_pair(torch, rng, m=129, n=136, k=640):
    a = oracle.exact_operand(rng, m, k, BLOCKS[0])
    b = oracle.exact_operand(rng, n, k, BLOCKS[1])

    def up(x):
        raw = torch.from_numpy(np.ascontiguousarray(x).view(np.uint8)).cuda()
        return raw.view(getattr(torch, str(x.dtype))).reshape(x.shape)

    want = torch.from_numpy(oracle.product(a.real, b.real).astype(np.float32))
    return (up(a.values), up(a.sf)), (up(b.values), up(b.sf)), want


@pytest.mark.torch
def test_torch(torch, rng):
    a, b, want = torch_pair(torch, rng)
    out = deepgemm.gemm(a, b, granularity=BLOCKS)
    assert (out.dtype, out.device) == (torch.bfloat16, a[0].device)
    assert torch.equal(out.cpu(), want.bfloat16())
    with pytest.raises(ValueError, match="on cpu, need cuda:0"):
        deepgemm.gemm(a, b, torch.empty(129, 136), granularity=BLOCKS)


@pytest.mark.torch
def test_torch_current_stream(torch, rng):
    """The inputs are still being made on a side stream when gemm is called."""
    a, b, want = torch_pair(torch, rng)
    late = torch.zeros_like(a[0].view(torch.uint8))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    for explicit in (None, side):
        late.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(200_000_000)
            late.copy_(a[0].view(torch.uint8))
            values = late.view(torch.float8_e4m3fn)
            out = deepgemm.gemm((values, a[1]), b, granularity=BLOCKS, stream=explicit)
        side.synchronize()
        assert torch.equal(out.cpu(), want.bfloat16())


@pytest.mark.torch
def test_torch_graph(torch, rng):
    a, b, want = torch_pair(torch, rng)
    out = torch.empty(129, 136, dtype=torch.float32, device="cuda")
    deepgemm.gemm(a, b, out, granularity=BLOCKS)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deepgemm.gemm(a, b, out, granularity=BLOCKS)
    for _ in range(3):
        out.fill_(7)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out.cpu(), want)


@pytest.mark.torch
def test_torch_graph_of_groups(torch, rng):
    """The counts of rows change from one replay of a graph to the next."""
    x, w = (
        torch.from_numpy(rng.integers(-2, 3, shape).astype(np.float32)).cuda()
        for shape in ((4, 70, 64), (4, 40, 64))
    )
    rows = torch.zeros(4, dtype=torch.int32, device="cuda")
    out = torch.empty(4, 70, 40, device="cuda")
    deepgemm.masked_gemm(x, w, rows, out)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        deepgemm.masked_gemm(x, w, rows, out)
    for counts in ([1, 0, 70, 3], [70] * 4, [0] * 4):
        rows.copy_(torch.tensor(counts, dtype=torch.int32))
        out.fill_(7)
        graph.replay()
        torch.cuda.synchronize()
        want = torch.full((4, 70, 40), 7.0)
        for g, count in enumerate(counts):
            want[g, :count] = x[g, :count].cpu() @ w[g].cpu().T
        assert torch.equal(out.cpu(), want), counts


@pytest.mark.torch
def test_torch_checked_groups(torch, monkeypatch):
    """DEEPGEMM_CHECK_GROUPS waits for the call's stream, and leaves every capture as it was."""
    x, w = (torch.ones(shape, device="cuda") for shape in ((4, 70, 64), (4, 40, 64)))
    rows = torch.zeros(4, dtype=torch.int32, device="cuda")
    out, apart = (torch.zeros(4, 70, 40, device="cuda") for _ in range(2))
    deepgemm.masked_gemm(x, w, rows, out)
    side = torch.cuda.Stream()
    monkeypatch.setenv("DEEPGEMM_CHECK_GROUPS", "1")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.fill_(3)
        with pytest.raises(deepgemm.Error, match="stream: found one that a CUDA graph captures"):
            deepgemm.masked_gemm(x, w, rows, out)
        out.add_(1)
        deepgemm.masked_gemm(x, w, rows, apart, stream=side)  # not captured: checked and launched
    graph.replay()
    torch.cuda.synchronize()
    assert (out == 4).all()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)
        rows.fill_(71)
        with pytest.raises(ValueError, match="rows: found 71 for group 0, need 0 to 70"):
            deepgemm.masked_gemm(x, w, rows, out)
        rows.fill_(70)
        deepgemm.masked_gemm(x, w, rows, out)
    side.synchronize()
    assert (out == 64).all()
    assert (apart == 0).all()


@pytest.mark.torch
def test_torch_quantize(torch, rng):
    x = rng.standard_normal((129, 577)).astype(np.float32)
    q = deepgemm.quantize(torch.from_numpy(x).cuda())
    values, sf = oracle.quantize(x, (1, 128))
    assert np.array_equal(q.values.view(torch.uint8).cpu().numpy(), values.view(np.uint8))
    assert np.array_equal(q.sf.cpu().numpy(), sf)


@pytest.mark.jax
def test_jax(jnp, rng):
    a = oracle.exact_operand(rng, 33, 256, BLOCKS[0])
    b = oracle.exact_operand(rng, 24, 256, BLOCKS[1])
    x, sfx, y, sfy = (jnp.asarray(v) for v in (a.values, a.sf, b.values, b.sf))
    if next(iter(x.devices())).platform not in ("gpu", "cuda"):
        pytest.skip("this JAX has no GPU backend")
    out = deepgemm.gemm((x, sfx), (y, sfy), granularity=BLOCKS)
    want = oracle.cast(oracle.product(a.real, b.real), "bfloat16")
    assert oracle.same_bits(np.asarray(out), want)
    assert out.devices() == x.devices()
