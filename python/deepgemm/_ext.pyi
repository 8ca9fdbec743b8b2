"""The compiled half of deepgemm; use the deepgemm package."""

from collections.abc import Sequence
from typing import Any

from deepgemm._runtime import Report

class Error(RuntimeError):
    """Something outside the caller's arguments failed: driver, device, compiler."""

class CompileError(Error):
    """NVRTC was not found or refused a kernel; `log` holds its words."""

    log: str

class DriverError(Error):
    """A CUDA driver call failed; `code` is the CUresult, or -1."""

    code: int

def get_options(device: int) -> dict[str, Any]:
    """
    Options of this thread for `device` (-1: every device); None where unset.
    """

def set_options(
    device: int,
    num_sms: int | None,
    pdl: bool | None,
    constant_b: bool | None,
    deterministic: bool | None,
) -> None:
    """Replaces this thread's options for `device` (-1: every device)."""

class Policy:
    """
    Which kernel of a GPU computes a product, and how.

    Fields left None are chosen by the heuristics; an illegal choice is a ValueError that
    names the field or the rule. Each field says which kernels have it, and asks for those.
    The "policy" of each of explain()'s candidates is a set of these fields. Products in
    host memory are computed as if there were none.
    """

    def __init__(
        self,
        *,
        kernel: str | None = None,
        tile_m: int | None = None,
        tile_n: int | None = None,
        stages: int | None = None,
        cluster_m: int | None = None,
        cluster_n: int | None = None,
        consumers: int | None = None,
        consumers_n: int | None = None,
        group: int | None = None,
        stage_blocks: int | None = None,
        cluster_k: int | None = None,
        ctas_per_sm: int | None = None,
        num_sms: int | None = None,
        raster_along_n: bool | None = None,
        ordered: bool | None = None,
    ) -> None: ...
    @property
    def kernel(self) -> str | None:
        """
        "persistent" (tensor cores), "decode" (tensor cores; few rows of a, no groups) or
        "general" (FP32 FMA: takes everything, slowly). None: the fastest that takes the
        product.
        """

    @kernel.setter
    def kernel(self, arg: str | None, /) -> None: ...
    @property
    def tile_m(self) -> int | None:
        """
        persistent: rows of out that a CTA computes at a time. A multiple of 64 for each
        warpgroup along M (consumers / consumers_n of them), at most 256.
        """

    @tile_m.setter
    def tile_m(self, arg: int | None, /) -> None: ...
    @property
    def tile_n(self) -> int | None:
        """
        persistent: columns of out likewise. A multiple of 16 times consumers_n, at most
        256; FP8: at most 192 for each warpgroup along N.
        """

    @tile_n.setter
    def tile_n(self, arg: int | None, /) -> None: ...
    @property
    def stages(self) -> int | None:
        """
        persistent, decode: pieces of K that shared memory holds at once. One is 128 bytes
        of each row of a and b (decode: stage_blocks times that). persistent: 2 or more,
        decode: 1 or more, and as many as fit. None: as many of those measured as fit beside
        the output.
        """

    @stages.setter
    def stages(self, arg: int | None, /) -> None: ...
    @property
    def cluster_m(self) -> int | None:
        """
        persistent, FP8 without groups: CTAs of a cluster along M, which share what they
        read of b. 1 or 2, and one of cluster_m, cluster_n and cluster_k alone above 1.
        None: 1.
        """

    @cluster_m.setter
    def cluster_m(self, arg: int | None, /) -> None: ...
    @property
    def cluster_n(self) -> int | None:
        """
        persistent, FP8 without groups: CTAs of a cluster along N, which share what they
        read of a. 1 or 2. None: 1.
        """

    @cluster_n.setter
    def cluster_n(self, arg: int | None, /) -> None: ...
    @property
    def consumers(self) -> int | None:
        """
        persistent: warpgroups (of 128 threads) of a CTA that multiply, 1 to 3. decode: 1 or
        2, each with 64 rows of b.
        """

    @consumers.setter
    def consumers(self, arg: int | None, /) -> None: ...
    @property
    def consumers_n(self) -> int | None:
        """
        persistent: how many of the consumers lie side by side along N; the others lie along
        M. Divides consumers. None: 1.
        """

    @consumers_n.setter
    def consumers_n(self, arg: int | None, /) -> None: ...
    @property
    def group(self) -> int | None:
        """
        persistent: tiles side by side along M (raster_along_n: along N) that are computed
        before the next ones along the other dimension, so that L2 still holds what they
        share. 1 or more; more than there are counts as all.
        """

    @group.setter
    def group(self, arg: int | None, /) -> None: ...
    @property
    def stage_blocks(self) -> int | None:
        """decode: blocks of K of 128 bytes in a stage: 1, 2 or 4."""

    @stage_blocks.setter
    def stage_blocks(self, arg: int | None, /) -> None: ...
    @property
    def cluster_k(self) -> int | None:
        """
        persistent without groups, decode: CTAs that share a tile of out, each with a part
        of K. 1, 2 or 4; decode: 8 too.
        """

    @cluster_k.setter
    def cluster_k(self, arg: int | None, /) -> None: ...
    @property
    def ctas_per_sm(self) -> int | None:
        """
        decode: CTAs that an SM is to hold at once; with their stages they share its 228 KB.
        1 or more.
        """

    @ctas_per_sm.setter
    def ctas_per_sm(self, arg: int | None, /) -> None: ...
    @property
    def num_sms(self) -> int | None:
        """
        SMs that the kernel may occupy; with that of deepgemm.options the smaller counts. 0
        or None: all. The general kernel takes no notice where there are no groups.
        """

    @num_sms.setter
    def num_sms(self, arg: int | None, /) -> None: ...
    @property
    def raster_along_n(self) -> bool | None:
        """
        persistent without groups: whether group counts tiles along N; else along M.
        """

    @raster_along_n.setter
    def raster_along_n(self, arg: bool | None, /) -> None: ...
    @property
    def ordered(self) -> bool | None:
        """
        persistent, FP8, consumers = 2: the two warpgroups take turns to multiply, so that
        one scales its sums while the other multiplies.
        """

    @ordered.setter
    def ordered(self, arg: bool | None, /) -> None: ...
    def __repr__(self) -> str: ...

def gemm(
    a: object,
    b: object,
    out: object = None,
    c: object = None,
    bias: object = None,
    activation: object = None,
    alpha: object = 1.0,
    out_dtype: object = None,
    out_scale: object = None,
    layout: object = "nt",
    granularity: object = None,
    policy: object = None,
    stream: object = None,
    accumulate_in_f64: bool = False,
) -> Any:
    """See deepgemm.gemm."""

def grouped_gemm(
    a: object,
    b: object,
    group_sizes: object = None,
    out: object = None,
    group_offsets: object = None,
    group_ends: object = None,
    alignment: int = 1,
    labels: object = None,
    c: object = None,
    bias: object = None,
    activation: object = None,
    alpha: object = 1.0,
    out_dtype: object = None,
    layout: object = "nt",
    granularity: object = None,
    policy: object = None,
    stream: object = None,
    accumulate_in_f64: bool = False,
) -> Any:
    """See deepgemm.grouped_gemm."""

def masked_gemm(
    a: object,
    b: object,
    rows: object,
    out: object = None,
    expected_rows: int | None = None,
    c: object = None,
    bias: object = None,
    activation: object = None,
    alpha: object = 1.0,
    out_dtype: object = None,
    layout: object = "nt",
    granularity: object = None,
    policy: object = None,
    stream: object = None,
    accumulate_in_f64: bool = False,
) -> Any:
    """See deepgemm.masked_gemm."""

def k_grouped_gemm(
    a: object,
    b: object,
    k_sizes: object,
    out: object = None,
    c: object = None,
    alpha: object = 1.0,
    out_dtype: object = None,
    layout: object = "nt",
    policy: object = None,
    stream: object = None,
    accumulate_in_f64: bool = False,
) -> Any:
    """See deepgemm.k_grouped_gemm."""

class Plan:
    """A prepared call: see deepgemm.plan."""

    def __call__(self, *arrays: object, **named: object) -> Any: ...
    def explain(self) -> Report:
        """Return the deepgemm.Report of what was chosen, and why."""
    @property
    def config(self) -> str:
        """The config of its kernel, in words."""
    @property
    def problem(self) -> dict[str, Any]:
        """What it computes: op, extents, dtypes, layout, ..."""

def plan_gemm(*args: object, **options: object) -> Plan:
    """A Plan of deepgemm.gemm, whose arguments it takes."""

def plan_grouped_gemm(*args: object, **options: object) -> Plan:
    """A Plan of deepgemm.grouped_gemm, whose arguments it takes."""

def plan_masked_gemm(*args: object, **options: object) -> Plan:
    """A Plan of deepgemm.masked_gemm, whose arguments it takes."""

def plan_k_grouped_gemm(*args: object, **options: object) -> Plan:
    """A Plan of deepgemm.k_grouped_gemm, whose arguments it takes."""

class View:
    """An array read as another dtype of the same element size."""

    def __init__(self, array: object, dtype: object) -> None: ...
    @property
    def array(self) -> Any:
        """The array given."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    def __repr__(self) -> str: ...

def inspect(array: object) -> dict[str, Any]:
    """
    How an array is read: pointer, dtype, device, shape, strides (elements), read_only.
    """

def import_five(a: object, b: object, c: object, d: object, e: object) -> None:
    """Imports five arrays and drops them: what `deepgemm bench` times."""

class DeviceArray:
    """
    Memory on CUDA device `device` (host memory if it is -1), for use without a framework.

    It speaks DLPack, so torch, cupy and jax can adopt it. Operations on DeviceArrays run on
    the default stream unless given another; to_numpy() waits for the default stream.
    """

    def __init__(self, shape: Sequence[int], dtype: object, device: int = 0) -> None: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...]:
        """In elements."""

    @property
    def dtype(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def data_ptr(self) -> int: ...
    @staticmethod
    def from_numpy(array: object, dtype: object | None = None, device: int = 0) -> DeviceArray:
        """
        Copies a C-contiguous array; `dtype` re-reads elements of the same size.
        """

    def to_numpy(self) -> Any:
        """Copies to a NumPy array (ml_dtypes for bfloat16 and float8)."""

    def fill(self, byte: int) -> None:
        """Sets every byte."""

    def strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> DeviceArray:
        """Another shape over the same memory; strides and offset in elements."""

    def synchronize(self) -> None:
        """Waits for all work of the device."""

    def __repr__(self) -> str: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __dlpack__(
        self,
        *,
        stream: object | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: object | None = None,
        copy: bool | None = None,
    ) -> object: ...

def quantize(
    x: object,
    granularity: object,
    dtype: object,
    power_of_two: bool,
    amax_floor: float,
    stream: object,
) -> tuple[Any, Any, tuple[int | None, int | None]]:
    """(values, sf, granularity); see deepgemm.quantize."""

def dequantize(
    q: object, out: object, out_dtype: object, granularity: object, stream: object
) -> Any:
    """See deepgemm.dequantize."""

def sf_fast(sf: object, out: object, stream: object) -> Any:
    """See deepgemm.layout.sf_fast."""

def pack_ue8m0(
    sf: object,
    out: object,
    group_ends: object,
    alignment: int,
    k_sizes: object,
    host_k_sizes: object,
    k_per_scale: int,
    stream: object,
) -> Any:
    """See deepgemm.layout.pack_ue8m0."""

def unpack_ue8m0(
    packed: object, out: object, k_blocks: object, k_sizes: object, k_per_scale: int, stream: object
) -> Any:
    """See deepgemm.layout.unpack_ue8m0."""

def runtime_info() -> dict[str, Any]:
    """
    Looks at driver, devices, NVRTC and cache; creates no context, never raises.
    """

def device_count() -> int:
    """Usable CUDA devices; 0 without a driver. Creates no context."""

def synchronize(device: int = 0) -> None:
    """Waits for all work of the device."""

def report_gemm(
    a: object,
    b: object,
    out: object,
    c: object,
    bias: object,
    activation: object,
    alpha: float,
    out_dtype: object,
    out_scale: object,
    layout: object,
    granularity: object,
    policy: object,
    device: int | None,
    compile: bool,
) -> dict[str, Any]:
    """
    How gemm would compute this on `device` (None: the arrays', else 0 if it is a Hopper
    GPU; -1: the figures of an H200). With `compile` the kernel is prepared too, and loaded
    on a named device.
    """

def report_shape(
    m: int,
    n: int,
    k: int,
    a_dtype: object,
    b_dtype: object,
    out_dtype: object,
    a_granularity: object,
    b_granularity: object,
    layout: object,
    activation: object,
    c: bool,
    bias: bool,
    policy: object,
    device: int | None,
    compile: bool,
) -> dict[str, Any]:
    """
    The same for aligned arrays of these shapes; a granularity of None means no sf.
    """

def measure_call(
    a: object, b: object, out: object, stream: object, calls: int, samples: int
) -> dict[str, float]:
    """
    What one gemm costs the CPU from C++, and the driver's launch in it: microseconds.
    """

def dtype_name(dtype: object) -> str:
    """The name of a dtype of any framework, or of a name."""

def selectable_kernels() -> list[dict[str, Any]]:
    """Every config that the heuristics can select."""

def compile_selectable(index: int) -> dict[str, Any]:
    """Compiles one of them with ptxas -v, touching no cache."""

def report_problem(
    problem: dict[str, Any],
    policy: object,
    device: int | None,
    compile: bool,
    candidates: bool = True,
) -> dict[str, Any]:
    """
    How a recorded problem would be computed; `device` and `compile` as in report_gemm.
    """

def describe_array(array: object, operand: str) -> tuple[dict[str, Any], int]:
    """An array as a recorded problem has it, and its address."""

def describe_operands(
    a: object, b: object, layout: object, granularity: object
) -> tuple[dict[str, Any], dict[str, Any], float, int]:
    """
    The operands of a product likewise, what factors given as numbers make, and the
    CUDA device of a (-1: host memory).
    """

def cache_info() -> dict[str, Any]:
    """
    Directory, its entries and bytes, and this process's hits and compiles.
    """

def clear_cache() -> int:
    """Removes this library's entries; returns how many."""

def list_cache(verify: bool = False) -> list[dict[str, Any]]:
    """
    The entries of the directory, with the config in words of those that this version
    would choose; `verify` recomputes their checksums.
    """

def kernel_for_bundle(index: int) -> dict[str, Any]:
    """One of selectable_kernels(), from the disk cache or compiled into it."""

def write_bundle(path: str, kernels: list[dict[str, Any]]) -> dict[str, int]:
    """Writes what kernel_for_bundle() returned to one compressed file."""

def set_strict(strict: bool | None) -> None:
    """
    Whether a compile is an Error in this thread; None: as the environment says.
    """

def strict_setting() -> bool | None:
    """What set_strict() was last given here."""

def strict() -> bool:
    """Whether strict mode is on."""

def set_nvrtc_search_path(directories: Sequence[str]) -> None:
    """Directories that may hold libnvrtc."""
