# The toolchain of the portable directory: this machine's g++, but the C library, headers and static
# libraries of a sysroot that is as old as the oldest machine that is to run it.
# tools/dist_sysroot.sh copies this file to the sysroot's folder, beside root/.
set(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/root)
set(CMAKE_C_COMPILER gcc)
set(CMAKE_CXX_COMPILER g++)

# A path of the sysroot, or none: nothing of this machine may be found by accident.
set(CMAKE_FIND_ROOT_PATH ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# -B: g++ looks in its own machine's folder before it looks in the sysroot.
set(salvage_flags "-B${CMAKE_SYSROOT}/usr/lib/x86_64-linux-gnu -ffile-prefix-map=${CMAKE_SYSROOT}=")
set(CMAKE_C_FLAGS_INIT "${salvage_flags}")
# No unique symbols, so that a CPU variant that was only asked for its score is unloaded again.
set(CMAKE_CXX_FLAGS_INIT "${salvage_flags} -fno-gnu-unique")
set(salvage_link_flags "-static-libgcc -static-libstdc++ -Wl,-z,relro,-z,now -Wl,--build-id=sha1")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${salvage_link_flags}")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${salvage_link_flags}")
# A variant keeps its copy of libstdc++ to itself.
set(CMAKE_MODULE_LINKER_FLAGS_INIT "${salvage_link_flags} -Wl,--exclude-libs,ALL")
