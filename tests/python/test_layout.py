"""deepgemm.layout of NumPy, torch and JAX arrays: results in their framework, and what is refused.

The values are held by test_gpu_layout.py, in host memory too.
"""

from __future__ import annotations

import numpy as np
import pytest

import deepgemm

layout = deepgemm.layout


def test_sf_fast(rng):
    sf = rng.standard_normal((10, 3)).astype(np.float32)
    fast = layout.sf_fast(sf)
    assert fast.strides == (4, 48)
    assert np.array_equal(fast, sf)
    assert layout.sf_fast(fast) is fast
    stack = layout.sf_fast(np.stack([sf, -sf]))
    assert stack.strides == (144, 4, 48)
    assert np.array_equal(stack[1], -sf)
    assert layout.sf_fast(stack) is stack
    assert layout.sf_fast(stack[0]) is not fast
    with pytest.raises(TypeError, match="sf: found an object of type list"):
        layout.sf_fast([[1.0]])
    with pytest.raises(ValueError, match=r"sf: .*need rank 2"):
        layout.sf_fast(sf[0])
    with pytest.raises(TypeError, match="sf: found float64, need float32 or int32"):
        layout.sf_fast(sf.astype(np.float64))
    with pytest.raises(TypeError, match="out: found int32, need float32"):
        layout.sf_fast(sf, np.zeros((10, 3), np.int32))
    with pytest.raises(ValueError, match=r"out: found shape \[3, 10\]"):
        layout.sf_fast(sf, np.zeros((3, 10), np.float32))
    with pytest.raises(ValueError, match=r"out: .*overlap"):
        layout.sf_fast(sf, sf)


def test_an_input_in_the_layout_is_copied_if_an_output_is_given(rng):
    fast = layout.sf_fast(rng.standard_normal((10, 3)).astype(np.float32))
    out = np.zeros((10, 3), np.float32)
    assert layout.sf_fast(fast, out) is out
    assert np.array_equal(out, fast)


def test_empty_arrays():
    for shape in ((0, 3), (3, 0), (2, 0, 4)):
        sf = np.ones(shape, np.float32)
        assert layout.sf_fast(sf).shape == shape
        packed = layout.pack_ue8m0(sf)
        assert packed.shape == (*shape[:-1], -(-shape[-1] // 4))
        assert layout.unpack_ue8m0(packed, k_blocks=shape[-1]).shape == shape
    ends = np.zeros(0, np.int32)
    assert not layout.pack_ue8m0(np.ones((3, 4), np.float32), group_ends=ends).any()


@pytest.mark.parametrize("bad", [3.0, -2.0, float("nan"), 1e-45])
def test_packing_takes_powers_of_two_only(bad):
    sf = np.ones((4, 5), np.float32)
    sf[2, 1] = bad
    with pytest.raises(ValueError, match=r"sf: found .* at row 2, K block 1, .*no power of two"):
        layout.pack_ue8m0(sf)
    ends = np.array([2], np.int32)
    assert not layout.pack_ue8m0(sf, group_ends=ends)[2].any()


def test_packing_refusals():
    sf, ends = np.ones((8, 5), np.float32), np.array([8], np.int32)
    sizes = np.array([128, 512], np.int32)
    with pytest.raises(TypeError, match="sf: found int32, need float32"):
        layout.pack_ue8m0(sf.astype(np.int32))
    with pytest.raises(ValueError, match=r"out: found shape \[8, 3\], need \[8, 2\]"):
        layout.pack_ue8m0(sf, np.zeros((8, 3), np.int32))
    with pytest.raises(ValueError, match="host_k_sizes: found sizes, need None without k_sizes"):
        layout.pack_ue8m0(np.ones((8, 8), np.float32), host_k_sizes=[1024])
    with pytest.raises(ValueError, match="group_ends, k_sizes: found both"):
        layout.pack_ue8m0(sf, group_ends=ends, k_sizes=sizes, host_k_sizes=[128, 512])
    with pytest.raises(ValueError, match="group_ends: found 9 at 0, need 8 at most"):
        layout.pack_ue8m0(sf, group_ends=ends + 1)
    with pytest.raises(ValueError, match="alignment: found 0"):
        layout.pack_ue8m0(sf, group_ends=ends, alignment=0)
    with pytest.raises(TypeError, match="group_ends: found float32"):
        layout.pack_ue8m0(sf, group_ends=ends.astype(np.float32))
    with pytest.raises(ValueError, match="host_k_sizes: found None"):
        layout.pack_ue8m0(sf, k_sizes=sizes)
    with pytest.raises(ValueError, match="k_sizes: found -1"):
        layout.pack_ue8m0(sf, k_sizes=sizes, host_k_sizes=[-1])
    with pytest.raises(ValueError, match="k_per_scale: found 0"):
        layout.pack_ue8m0(sf, k_sizes=sizes, host_k_sizes=[128], k_per_scale=0)
    with pytest.raises(ValueError, match="sf: found 5 columns, need 10 or more"):
        layout.pack_ue8m0(sf, k_sizes=sizes * 2 - 128, host_k_sizes=[128, 896], k_per_scale=112)
    with pytest.raises(ValueError, match="out: found 1 columns, need 2 or more"):
        layout.pack_ue8m0(sf, k_sizes=sizes, host_k_sizes=[128])


def test_unpacking_refusals():
    packed, sizes = np.zeros((8, 2), np.int32), np.array([128, 512], np.int32)
    with pytest.raises(TypeError, match="packed: found float32, need int32"):
        layout.unpack_ue8m0(packed.astype(np.float32))
    for wrong in (-1, 9):
        with pytest.raises(ValueError, match=f"k_blocks: found {wrong}, need 0 to 8"):
            layout.unpack_ue8m0(packed, k_blocks=wrong)
    with pytest.raises(ValueError, match="out: found 4 K blocks, need 5 to 8"):
        layout.unpack_ue8m0(packed, k_blocks=4)
    with pytest.raises(ValueError, match="packed: found 2 columns, need 3 or more"):
        layout.unpack_ue8m0(packed, k_blocks=3, k_sizes=np.full(3, 128))
    with pytest.raises(ValueError, match="out: found 4 columns, need 5 or more"):
        layout.unpack_ue8m0(packed, k_blocks=4, k_sizes=sizes)


@pytest.mark.torch
def test_torch(torch):
    sf = torch.arange(30.0).reshape(10, 3)
    fast = layout.sf_fast(sf)
    assert fast.stride() == (1, 12)
    assert torch.equal(fast, sf)
    assert layout.sf_fast(fast) is fast
    stack = layout.sf_fast(sf.reshape(2, 5, 3))
    assert stack.stride() == (24, 1, 8)
    assert torch.equal(stack, sf.reshape(2, 5, 3))
    assert layout.sf_fast(stack) is stack
    packed = layout.pack_ue8m0(torch.full((10, 3), 2.0))
    assert packed.dtype == torch.int32
    assert packed.stride() == (1, 12)
    assert bool((packed == 0x808080).all())
    assert bool((layout.unpack_ue8m0(packed, k_blocks=3) == 2).all())


@pytest.mark.jax
def test_jax(jnp):
    sf = jnp.full((10, 3), 2.0)
    with pytest.raises(TypeError, match="sf: found a jax array"):
        layout.sf_fast(sf)
    packed = layout.pack_ue8m0(sf)
    assert packed.shape == (10, 1)
    assert bool((packed == 0x808080).all())
    assert bool((layout.unpack_ue8m0(packed, k_blocks=3) == sf).all())
