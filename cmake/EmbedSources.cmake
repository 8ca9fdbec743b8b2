# embedded_sources.cpp: every file under src/device as (include name, text), for NVRTC's in-memory
# headers, and a hash of them all, which is part of the cache key.
file(GLOB_RECURSE deepgemm_device_sources CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/src/device/*.cuh")
set(DEEPGEMM_EMBEDDED_CPP "${CMAKE_CURRENT_BINARY_DIR}/embedded_sources.cpp")
add_custom_command(
  OUTPUT "${DEEPGEMM_EMBEDDED_CPP}"
  COMMAND ${CMAKE_COMMAND} -DROOT=${CMAKE_CURRENT_SOURCE_DIR}/src/device
          -DOUTPUT=${DEEPGEMM_EMBEDDED_CPP} -P
          ${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedSourcesScript.cmake
  DEPENDS ${deepgemm_device_sources} "${CMAKE_CURRENT_SOURCE_DIR}/cmake/EmbedSourcesScript.cmake"
  VERBATIM)
