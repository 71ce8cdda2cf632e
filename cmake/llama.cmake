# Imports the pinned, separately built llama.cpp (tools/llama.sh build) as targets:
#   llama::llama   libllama + ggml; only engine/llama/, tests/ and bench/ link it
#   llama::common  chat templates, grammars, samplers of the same tree
#   llama::vendor  nlohmann/json from the same tree (headers only), free of libllama
#   llama::httplib cpp-httplib from the same tree; only http/, admin/ and download/ link it
# ggml's own flags belong to its build, not to ours: see tools/llama.sh.
if(NOT SALVAGE_LLAMA_ROOT)
  message(FATAL_ERROR
    "SALVAGE_LLAMA_ROOT is not set. Run `make build`, or `tools/llama.sh build` and pass "
    "-DSALVAGE_LLAMA_ROOT=\"$(tools/llama.sh root)\".")
endif()
set(SALVAGE_LLAMA_SOURCE ${SALVAGE_LLAMA_ROOT}/source)
set(SALVAGE_LLAMA_BUILD ${SALVAGE_LLAMA_ROOT}/build)
if(NOT EXISTS ${SALVAGE_LLAMA_BUILD}/src/libllama.a)
  message(FATAL_ERROR "no llama.cpp build under ${SALVAGE_LLAMA_ROOT}; run `tools/llama.sh build`")
endif()

add_library(llama_vendor INTERFACE)
target_include_directories(llama_vendor SYSTEM INTERFACE ${SALVAGE_LLAMA_SOURCE}/vendor)
add_library(llama::vendor ALIAS llama_vendor)

# Kernels inside, or for the portable directory (tools/llama.sh portable) as modules that the
# program loads, which take the whole of ggml-base from it.
set(ggml ${SALVAGE_LLAMA_BUILD}/ggml/src)
if(EXISTS ${ggml}/libggml-cpu.a)
  set(SALVAGE_CPU_VARIANTS OFF)
  set(ggml_libraries ${ggml}/libggml.a ${ggml}/libggml-cpu.a ${ggml}/libggml-base.a)
else()
  set(SALVAGE_CPU_VARIANTS ON)
  set(ggml_libraries ${ggml}/libggml.a $<LINK_LIBRARY:WHOLE_ARCHIVE,${ggml}/libggml-base.a>)
  set(ggml_exports LINKER:--dynamic-list=${CMAKE_SOURCE_DIR}/cmake/dist/exports.list)
endif()

add_library(llama_llama INTERFACE)
target_include_directories(llama_llama SYSTEM INTERFACE
  ${SALVAGE_LLAMA_SOURCE}/include ${SALVAGE_LLAMA_SOURCE}/ggml/include)
target_link_libraries(llama_llama INTERFACE
  ${SALVAGE_LLAMA_BUILD}/src/libllama.a ${ggml_libraries} Threads::Threads ${CMAKE_DL_LIBS} m)
target_link_options(llama_llama INTERFACE ${ggml_exports})
add_library(llama::llama ALIAS llama_llama)

add_library(llama_common INTERFACE)
target_include_directories(llama_common SYSTEM INTERFACE ${SALVAGE_LLAMA_SOURCE}/common)
target_link_libraries(llama_common INTERFACE
  ${SALVAGE_LLAMA_BUILD}/common/libllama-common.a
  ${SALVAGE_LLAMA_BUILD}/common/libllama-common-base.a
  ${SALVAGE_LLAMA_BUILD}/vendor/cpp-httplib/libcpp-httplib.a
  llama_llama llama_vendor)
add_library(llama::common ALIAS llama_common)

# The HTTP library of the same tree, built with it; plain HTTP only.
add_library(llama_httplib INTERFACE)
target_link_libraries(llama_httplib INTERFACE
  ${SALVAGE_LLAMA_BUILD}/vendor/cpp-httplib/libcpp-httplib.a llama_vendor Threads::Threads)
add_library(llama::httplib ALIAS llama_httplib)
