# One interface target that carries warnings and sanitizers to every target of the project.
add_library(deepgemm_flags INTERFACE)
target_compile_options(deepgemm_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(DEEPGEMM_WERROR)
  target_compile_options(deepgemm_flags INTERFACE -Werror)
endif()
if(DEEPGEMM_SANITIZE)
  target_compile_options(deepgemm_flags INTERFACE -fsanitize=${DEEPGEMM_SANITIZE}
                                                  -fno-omit-frame-pointer)
  target_link_options(deepgemm_flags INTERFACE -fsanitize=${DEEPGEMM_SANITIZE})
endif()
