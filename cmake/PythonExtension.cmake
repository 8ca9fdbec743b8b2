# deepgemm._ext: the nanobind module, beside lib/libdeepgemm.so in the wheel.
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
find_package(nanobind CONFIG REQUIRED)
file(GLOB deepgemm_binding_sources CONFIGURE_DEPENDS
     "${CMAKE_CURRENT_SOURCE_DIR}/src/bindings/*.cpp")
# NOMINSIZE: nanobind would compile with -Os, which costs a third of a call.
nanobind_add_module(_ext NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS ${deepgemm_binding_sources})
target_include_directories(_ext PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}/src")
target_link_libraries(_ext PRIVATE deepgemm deepgemm_flags)
# Why: to clear the hundred bytes of a view, g++ 12 writes `rep stos`, which takes longer to start
# than plain stores take; a call has ten of them.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(_ext PRIVATE -mmemset-strategy=vector_loop:256:noalign,libcall:-1:noalign)
endif()
set_target_properties(_ext PROPERTIES INSTALL_RPATH "$ORIGIN/lib")
install(TARGETS _ext LIBRARY DESTINATION .)
