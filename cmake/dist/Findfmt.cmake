# fmt as headers, for the portable directory: Debian has the library as a shared one only.
find_path(SALVAGE_FMT_HEADERS fmt/format.h REQUIRED)
add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt SYSTEM INTERFACE ${SALVAGE_FMT_HEADERS})
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
set(fmt_FOUND TRUE)
