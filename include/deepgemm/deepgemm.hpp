// The whole C++ interface.
#pragma once

#include "deepgemm/cache.hpp"
#include "deepgemm/device_memory.hpp"
#include "deepgemm/dtype.hpp"
#include "deepgemm/error.hpp"
#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/plan.hpp"
#include "deepgemm/problem.hpp"
#include "deepgemm/quantize.hpp"
#include "deepgemm/runtime.hpp"
#include "deepgemm/scale_layout.hpp"
#include "deepgemm/scaling.hpp"
#include "deepgemm/tensor.hpp"
#include "deepgemm/tma.hpp"
