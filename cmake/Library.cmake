# libdeepgemm: everything but the Python module. Links nothing from CUDA.
file(GLOB_RECURSE deepgemm_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp")
list(FILTER deepgemm_sources EXCLUDE REGEX "/src/(bindings|device)/")
find_package(Threads REQUIRED)
add_library(deepgemm SHARED ${deepgemm_sources} "${DEEPGEMM_EMBEDDED_CPP}")
add_library(deepgemm::deepgemm ALIAS deepgemm)
target_include_directories(
  deepgemm
  PUBLIC "$<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>" "$<INSTALL_INTERFACE:include>"
  PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src" "${CMAKE_CURRENT_SOURCE_DIR}/src/device")
target_compile_features(deepgemm PUBLIC cxx_std_20)
target_compile_definitions(deepgemm PRIVATE DEEPGEMM_VERSION="${PROJECT_VERSION}")
# Bundles are packed by zlib. Without it the library is built all the same, and takes no bundle.
find_package(ZLIB)
add_library(deepgemm_zlib INTERFACE)
if(ZLIB_FOUND)
  target_link_libraries(deepgemm_zlib INTERFACE ZLIB::ZLIB)
  target_compile_definitions(deepgemm_zlib INTERFACE DEEPGEMM_ZLIB)
else()
  message(WARNING "zlib was not found (apt-get install zlib1g-dev): this build can use no kernel bundle")
endif()
target_link_libraries(deepgemm PRIVATE deepgemm_flags deepgemm_cuda_headers deepgemm_zlib
                                       Threads::Threads ${CMAKE_DL_LIBS})
# Tests reach internal functions by linking the objects, so that the library can hide its symbols.
if(DEEPGEMM_TESTS)
  add_library(deepgemm_internal STATIC ${deepgemm_sources} "${DEEPGEMM_EMBEDDED_CPP}")
  target_include_directories(deepgemm_internal PUBLIC "${CMAKE_CURRENT_SOURCE_DIR}/include"
                                                      "${CMAKE_CURRENT_SOURCE_DIR}/src"
                                                      "${CMAKE_CURRENT_SOURCE_DIR}/src/device")
  target_compile_definitions(deepgemm_internal PRIVATE DEEPGEMM_VERSION="${PROJECT_VERSION}")
  target_link_libraries(deepgemm_internal PUBLIC deepgemm_flags deepgemm_cuda_headers deepgemm_zlib
                                                 Threads::Threads ${CMAKE_DL_LIBS})
endif()

include(GNUInstallDirs)
if(NOT SKBUILD)
  set_target_properties(deepgemm PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
endif()
if(SKBUILD)
  set(deepgemm_lib_dir lib)
  set(deepgemm_include_dir include)
else()
  set(deepgemm_lib_dir ${CMAKE_INSTALL_LIBDIR})
  set(deepgemm_include_dir ${CMAKE_INSTALL_INCLUDEDIR})
endif()
include(CMakePackageConfigHelpers)
write_basic_package_version_file(deepgemm-config-version.cmake COMPATIBILITY SameMinorVersion)
install(TARGETS deepgemm EXPORT deepgemm-targets LIBRARY DESTINATION ${deepgemm_lib_dir})
if(DEEPGEMM_BUNDLE)
  get_filename_component(deepgemm_bundle "${DEEPGEMM_BUNDLE}" ABSOLUTE
                         BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
  if(NOT EXISTS "${deepgemm_bundle}" OR NOT ZLIB_FOUND)
    message(FATAL_ERROR "DEEPGEMM_BUNDLE is ${DEEPGEMM_BUNDLE}: there is no such file, or no zlib")
  endif()
  install(FILES "${deepgemm_bundle}" DESTINATION ${deepgemm_lib_dir} RENAME deepgemm.bundle)
endif()
install(DIRECTORY include/deepgemm DESTINATION ${deepgemm_include_dir})
install(
  EXPORT deepgemm-targets
  NAMESPACE deepgemm::
  DESTINATION ${deepgemm_lib_dir}/cmake/deepgemm)
install(FILES cmake/deepgemm-config.cmake
              "${CMAKE_CURRENT_BINARY_DIR}/deepgemm-config-version.cmake"
        DESTINATION ${deepgemm_lib_dir}/cmake/deepgemm)
