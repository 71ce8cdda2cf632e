# One function a kind of target, so that every module's CMakeLists.txt is a list of its files.

find_program(SALVAGE_CCACHE ccache)
if(SALVAGE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${SALVAGE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SALVAGE_CCACHE})
endif()

# salvage_module(<name> SOURCES a.cc ... DEPENDS base ...): one static library a folder of src/. The
# sanitizer presets compile a target's sources as one (CMAKE_UNITY_BUILD, five times less work), so
# local helpers of one module have different names. But each file may have its logger kLog.
function(salvage_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PUBLIC ${arg_DEPENDS})
  salvage_unity(${name})
  salvage_warnings(${name})
endfunction()

function(salvage_unity name)
  set_target_properties(${name} PROPERTIES UNITY_BUILD_UNIQUE_ID SALVAGE_FILE
    UNITY_BUILD_CODE_BEFORE_INCLUDE "#undef kLog\n#define kLog SALVAGE_FILE")
endfunction()

# Labels say how much a test needs (docs/testing.md). Each has a target tests_<label>, so that a
# sanitizer build compiles only what it will run.
set(SALVAGE_TEST_LABELS unit golden transport engine pipeline conformance e2e load net
  clients)
foreach(label ${SALVAGE_TEST_LABELS})
  add_custom_target(tests_${label})
endforeach()

# salvage_test(<name> SOURCES x_test.cc ... DEPENDS module ... [LABEL unit] [TIMEOUT seconds])
function(salvage_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;TIMEOUT" "SOURCES;DEPENDS")
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  if(NOT arg_LABEL IN_LIST SALVAGE_TEST_LABELS)
    message(FATAL_ERROR "${name}: unknown label ${arg_LABEL}; known: ${SALVAGE_TEST_LABELS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 60)
  endif()
  add_executable(${name} ${arg_SOURCES})
  add_dependencies(tests_${arg_LABEL} ${name})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest_main)
  salvage_warnings(${name})
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

# salvage_fuzzer(<name> SOURCES x_fuzz.cc DEPENDS module ...): only under the preset `fuzz`, where
# the target `fuzzers` builds all of them into <build>/fuzzers. Seeds: fuzz/corpus/<name>/.
if(SALVAGE_FUZZ)
  add_custom_target(fuzzers)
endif()
function(salvage_fuzzer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPENDS")
  if(NOT SALVAGE_FUZZ)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
  add_dependencies(fuzzers ${name})
endfunction()

# Without missing-field-initializers: a designated initialiser leaves fields out on purpose, and g++
# warns about each.
function(salvage_warnings name)
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wconversion -Wshadow
    -Wno-missing-field-initializers
    $<$<BOOL:${SALVAGE_WERROR}>:-Werror>)
endfunction()
