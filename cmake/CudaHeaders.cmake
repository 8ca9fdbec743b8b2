# deepgemm::cuda_headers: cuda.h and nvrtc.h, nothing linked. Both come from one place if any place
# has both: -DDEEPGEMM_CUDA_INCLUDE, a CUDA toolkit, the nvidia-cuda-runtime and nvidia-cuda-nvrtc
# wheels of the Python in use. Else each comes from the first place that has it.
set(deepgemm_places ${DEEPGEMM_CUDA_INCLUDE} $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
                    /usr/local/cuda/include)
find_program(deepgemm_python NAMES python3 python)
if(Python_EXECUTABLE)
  set(deepgemm_python ${Python_EXECUTABLE})
endif()
if(deepgemm_python)
  execute_process(
    COMMAND
      ${deepgemm_python} -c
      "import sys, pathlib; print(';'.join(str(d) for p in sys.path if p for d in pathlib.Path(p).glob('nvidia/*/include')))"
    OUTPUT_VARIABLE deepgemm_wheels
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND deepgemm_places ${deepgemm_wheels})
endif()

foreach(place IN LISTS deepgemm_places)
  if(NOT DEEPGEMM_CUDA_H_DIR AND NOT DEEPGEMM_NVRTC_H_DIR AND EXISTS "${place}/cuda.h"
     AND EXISTS "${place}/nvrtc.h")
    set(DEEPGEMM_CUDA_H_DIR "${place}" CACHE PATH "Directory of cuda.h")
    set(DEEPGEMM_NVRTC_H_DIR "${place}" CACHE PATH "Directory of nvrtc.h")
  endif()
endforeach()
find_path(DEEPGEMM_CUDA_H_DIR cuda.h HINTS ${deepgemm_places} NO_CMAKE_FIND_ROOT_PATH)
find_path(DEEPGEMM_NVRTC_H_DIR nvrtc.h HINTS ${deepgemm_places} NO_CMAKE_FIND_ROOT_PATH)
set(deepgemm_missing)
if(NOT DEEPGEMM_CUDA_H_DIR)
  list(APPEND deepgemm_missing "cuda.h")
endif()
if(NOT DEEPGEMM_NVRTC_H_DIR)
  list(APPEND deepgemm_missing "nvrtc.h")
endif()
if(deepgemm_missing)
  list(JOIN deepgemm_missing " and " deepgemm_missing)
  message(
    FATAL_ERROR
      "${deepgemm_missing} not found. Use the headers of a CUDA toolkit (set CUDA_HOME), or\n"
      "  pip install \"nvidia-cuda-runtime>=13,<14\" \"nvidia-cuda-nvrtc>=13,<14\"\n"
      "in the Python that CMake finds (${deepgemm_python}; -DPython_EXECUTABLE=... names another), "
      "or -DDEEPGEMM_CUDA_INCLUDE=<directory>.")
endif()
message(STATUS "deepgemm: cuda.h from ${DEEPGEMM_CUDA_H_DIR}, nvrtc.h from ${DEEPGEMM_NVRTC_H_DIR}")
add_library(deepgemm_cuda_headers INTERFACE)
add_library(deepgemm::cuda_headers ALIAS deepgemm_cuda_headers)
target_include_directories(deepgemm_cuda_headers SYSTEM
                           INTERFACE ${DEEPGEMM_CUDA_H_DIR} ${DEEPGEMM_NVRTC_H_DIR})
# NVTX, for ranges that profilers show (DEEPGEMM_NVTX): of a toolkit or of the nvidia-nvtx wheel.
# Without it the library is whole but for them.
find_path(DEEPGEMM_NVTX_H_DIR nvtx3/nvToolsExt.h HINTS ${deepgemm_places} NO_CMAKE_FIND_ROOT_PATH)
if(DEEPGEMM_NVTX_H_DIR)
  target_include_directories(deepgemm_cuda_headers SYSTEM INTERFACE ${DEEPGEMM_NVTX_H_DIR})
else()
  message(STATUS "deepgemm: no nvtx3/nvToolsExt.h, so no NVTX ranges (pip install nvidia-nvtx)")
endif()
