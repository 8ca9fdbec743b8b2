# deepgemm::cuda_headers: cuda.h and nvrtc.h, nothing linked. Each is taken from a CUDA toolkit if
# there is one, else from the nvidia-cuda-runtime / nvidia-cuda-nvrtc wheels of the Python in use.
set(hints ${DEEPGEMM_CUDA_INCLUDE} $ENV{CUDA_HOME}/include $ENV{CUDA_PATH}/include
          /usr/local/cuda/include)
find_program(deepgemm_python NAMES ${Python_EXECUTABLE} python3 python)
if(Python_EXECUTABLE)
  set(deepgemm_python ${Python_EXECUTABLE})
endif()
if(deepgemm_python)
  execute_process(
    COMMAND
      ${deepgemm_python} -c
      "import sys, pathlib; print(';'.join(str(d) for p in sys.path if p for d in pathlib.Path(p).glob('nvidia/*/include')))"
    OUTPUT_VARIABLE wheel_hints
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
find_path(DEEPGEMM_CUDA_H_DIR cuda.h HINTS ${hints} ${wheel_hints} NO_CMAKE_FIND_ROOT_PATH)
find_path(DEEPGEMM_NVRTC_H_DIR nvrtc.h HINTS ${hints} ${wheel_hints} NO_CMAKE_FIND_ROOT_PATH)
foreach(header CUDA_H NVRTC_H)
  if(NOT DEEPGEMM_${header}_DIR)
    message(FATAL_ERROR "${header} not found: install a CUDA toolkit, or the wheels "
                        "nvidia-cuda-runtime and nvidia-cuda-nvrtc (13.x), or set "
                        "-DDEEPGEMM_CUDA_INCLUDE=<dir>")
  endif()
endforeach()
message(STATUS "deepgemm: cuda.h from ${DEEPGEMM_CUDA_H_DIR}, nvrtc.h from ${DEEPGEMM_NVRTC_H_DIR}")
add_library(deepgemm_cuda_headers INTERFACE)
add_library(deepgemm::cuda_headers ALIAS deepgemm_cuda_headers)
target_include_directories(deepgemm_cuda_headers SYSTEM
                           INTERFACE ${DEEPGEMM_CUDA_H_DIR} ${DEEPGEMM_NVRTC_H_DIR})
