# Tests that are Python files. -B: no compiled files beside the sources.
find_program(SALVAGE_PYTHON NAMES python3 REQUIRED)

# salvage_script_test(NAME LABEL label TIMEOUT seconds QUARTERS count [ALONE]
#                     ENVIRONMENT NAME=value ... COMMAND file [argument])
# Most of them wait more than they compute, so they run beside each other: QUARTERS of a core are
# what one takes, and `ctest -j` says how many there are (tools/run_tests.sh). ALONE: it measures.
function(salvage_script_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "ALONE" "LABEL;TIMEOUT;QUARTERS" "ENVIRONMENT;COMMAND")
  list(POP_FRONT arg_COMMAND file)
  add_test(NAME ${name}
    COMMAND ${SALVAGE_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file} ${arg_COMMAND})
  # The longest first.
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
    COST ${arg_TIMEOUT} PROCESSORS ${arg_QUARTERS} RUN_SERIAL ${arg_ALONE}
    ENVIRONMENT "${arg_ENVIRONMENT}")
endfunction()

# salvage_scenarios(PREFIX FILE LABEL label ENVIRONMENT NAME=value ...)
# Each scenario of a file is a test of its own; the file knows which there are and what each needs
# (tests/net/scenarios.py).
function(salvage_scenarios prefix file)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "LABEL" "ENVIRONMENT")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${file} ${CMAKE_SOURCE_DIR}/tests/net/scenarios.py)
  execute_process(COMMAND ${SALVAGE_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${file} --list
    OUTPUT_VARIABLE listed COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[^\n]+" lines "${listed}")
  foreach(line IN LISTS lines)
    separate_arguments(words UNIX_COMMAND "${line}")
    list(GET words 0 scenario)
    list(GET words 1 limit)
    list(GET words 2 quarters)
    list(GET words 3 company)
    # The program's own limit comes first, and says more.
    math(EXPR limit "${limit} + 60")
    set(alone "")
    if(company STREQUAL "alone")
      set(alone ALONE)
    endif()
    salvage_script_test(${prefix}_${scenario} LABEL ${arg_LABEL} TIMEOUT ${limit}
      QUARTERS ${quarters} ${alone} ENVIRONMENT ${arg_ENVIRONMENT} COMMAND ${file} ${scenario})
  endforeach()
endfunction()
