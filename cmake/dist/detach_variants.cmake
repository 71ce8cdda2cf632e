# For ggml's build of its CPU variants (tools/llama.sh variants), which includes this file behind
# its project() line: the variants don't link libggml-base.so. They are modules, loaded into a
# program that has ggml-base inside and exports it (cmake/llama.cmake), so there is one ggml a
# process and one file less beside it. ggml's sources stay as they are.
function(salvage_detach_variants)
  if(NOT GGML_BACKEND_DL)
    return()
  endif()
  get_target_property(headers ggml-base INTERFACE_INCLUDE_DIRECTORIES)
  get_target_property(definitions ggml-base INTERFACE_COMPILE_DEFINITIONS)
  foreach(variant IN LISTS GGML_AVAILABLE_BACKENDS)
    get_target_property(libraries ${variant} LINK_LIBRARIES)
    list(REMOVE_ITEM libraries ggml-base)
    # Where a C library keeps threads and mathematics apart. Without these a name such as
    # pthread_cond_wait would carry no version, and mean what it meant to the oldest programs.
    list(APPEND libraries pthread m)
    set_target_properties(${variant} PROPERTIES LINK_LIBRARIES "${libraries}")
    target_include_directories(${variant} PRIVATE ${headers})
    target_compile_definitions(${variant} PRIVATE ${definitions})
  endforeach()
  # All of them and nothing else.
  add_custom_target(variants DEPENDS ${GGML_AVAILABLE_BACKENDS})
endfunction()
cmake_language(DEFER CALL salvage_detach_variants)
