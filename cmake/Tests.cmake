# One executable per tests/cpp/<name>_test.cpp, registered with CTest under that name.
find_package(doctest REQUIRED)
add_library(deepgemm_test_main OBJECT tests/cpp/main.cpp)
target_link_libraries(deepgemm_test_main PUBLIC doctest::doctest)
# A libcuda and an NVRTC without a GPU and without a compiler: loaded by path, never linked.
foreach(fake IN ITEMS cuda nvrtc)
  string(REPLACE cuda driver folder fake_${fake})
  add_library(fake_${fake} MODULE tests/cpp/${folder}/${folder}.cpp)
  target_link_libraries(fake_${fake} PRIVATE deepgemm_flags deepgemm_cuda_headers)
endforeach()
target_compile_definitions(fake_cuda PRIVATE FAKE_DRIVER_PATH="")
# A profiler, where NVTX is known.
if(DEEPGEMM_NVTX_H_DIR)
  add_library(fake_nvtx MODULE tests/cpp/fake_nvtx/fake_nvtx.cpp)
  target_link_libraries(fake_nvtx PRIVATE deepgemm_flags deepgemm_cuda_headers)
endif()
file(GLOB deepgemm_tests CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp/*_test.cpp")
foreach(source IN LISTS deepgemm_tests)
  get_filename_component(test_name "${source}" NAME_WE)
  add_executable(${test_name} "${source}")
  target_include_directories(${test_name} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp")
  target_link_libraries(${test_name} PRIVATE deepgemm_test_main deepgemm_internal)
  add_dependencies(${test_name} fake_cuda fake_nvrtc)
  target_compile_definitions(${test_name} PRIVATE FAKE_DRIVER_PATH="$<TARGET_FILE:fake_cuda>"
                                                  FAKE_NVRTC_PATH="$<TARGET_FILE:fake_nvrtc>")
  if(TARGET fake_nvtx)
    add_dependencies(${test_name} fake_nvtx)
    target_compile_definitions(${test_name} PRIVATE FAKE_NVTX_PATH="$<TARGET_FILE:fake_nvtx>")
  endif()
  add_test(NAME ${test_name} COMMAND ${test_name})
  set_tests_properties(${test_name} PROPERTIES TIMEOUT 300)
endforeach()
# What valgrind counts the instructions of (tests/python/test_call_cost.py).
add_executable(repeated_call tests/cpp/repeated_call.cpp)
target_include_directories(repeated_call PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp")
target_link_libraries(repeated_call PRIVATE deepgemm_internal)
add_dependencies(repeated_call fake_cuda fake_nvrtc)
target_compile_definitions(repeated_call PRIVATE FAKE_DRIVER_PATH="$<TARGET_FILE:fake_cuda>"
                                                 FAKE_NVRTC_PATH="$<TARGET_FILE:fake_nvrtc>")
# 32 threads pose as a warp there.
target_include_directories(warp_lanes_test BEFORE
                           PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/tests/cpp/fake_warp")
# A modelled SM90: a libcuda that runs kernels on it and an NVRTC that is g++ (docs/sm90-model.md).
file(GLOB model_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/model/machine/*.cpp"
     "${CMAKE_CURRENT_SOURCE_DIR}/model/driver/*.cpp")
add_library(sm90_driver MODULE ${model_sources})
add_library(sm90_nvrtc MODULE model/compiler/compiler.cpp)
foreach(part IN ITEMS sm90_driver sm90_nvrtc)
  target_link_libraries(${part} PRIVATE deepgemm_flags deepgemm_cuda_headers ${CMAKE_DL_LIBS})
  target_include_directories(${part} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/model"
                                             "${CMAKE_CURRENT_SOURCE_DIR}/src/device")
  # Why: g++ 12 warns of overlapping copies in any sum of strings (its bug 105651).
  target_compile_options(${part} PRIVATE -Wno-restrict)
endforeach()
# Its machine by itself.
file(GLOB machine_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/model/machine/*.cpp")
foreach(machine_test IN ITEMS sm90_wgmma_test sm90_instructions_test)
  target_sources(${machine_test} PRIVATE ${machine_sources})
  target_include_directories(${machine_test} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/model"
                                                     "${CMAKE_CURRENT_SOURCE_DIR}/src/device")
  target_compile_options(${machine_test} PRIVATE -Wno-restrict)
  target_link_libraries(${machine_test} PRIVATE ${CMAKE_DL_LIBS})
endforeach()
# Kernels are shared objects that find the machine's functions here.
set_target_properties(sm90_driver PROPERTIES CXX_VISIBILITY_PRESET default)
target_compile_definitions(sm90_nvrtc
                           PRIVATE SM90_MODEL_ROOT="${CMAKE_CURRENT_SOURCE_DIR}/model")
