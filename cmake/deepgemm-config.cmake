include("${CMAKE_CURRENT_LIST_DIR}/deepgemm-targets.cmake")
