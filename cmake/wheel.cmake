# Builds for wheels, by the clang and libc++ of zig, for any Linux with glibc 2.28. scripts/wheels.sh makes
# FERRY_WHEEL_ROOT, a folder named after the architecture: the compiler, and the headers and libraries to
# build with.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES FERRY_WHEEL_ROOT)
set(CMAKE_SYSTEM_NAME Linux)
get_filename_component(CMAKE_SYSTEM_PROCESSOR ${FERRY_WHEEL_ROOT} NAME)
set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
set(CMAKE_CXX_COMPILER ${FERRY_WHEEL_ROOT}/c++)
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES ${FERRY_WHEEL_ROOT}/usr/include)
set(CMAKE_STRIP "")  # it may know this processor alone; the linker strips
# glibc ends threads by libgcc_s unwinding their stacks. zig's own unwinder does not know the state of that
# one, and crashes.
set(libraries ${FERRY_WHEEL_ROOT}/usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
# What no program of a wheel uses of Ferry is left out of it.
set(CMAKE_CXX_FLAGS_INIT "-ffunction-sections -fdata-sections")
# That libgcc_s asks for a newer glibc than 2.28 has.
set(linking "-s -Wl,--gc-sections -Wl,--allow-shlib-undefined -L${libraries} ${FERRY_WHEEL_ROOT}/lib/${CMAKE_LIBRARY_ARCHITECTURE}/libgcc_s.so.1")
set(CMAKE_EXE_LINKER_FLAGS_INIT "${linking}")
foreach(kind SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "${linking} -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/wheel.symbols")
endforeach()
set(NB_HAS_MTLS_GNU2 OFF CACHE INTERNAL "")  # older glibc spoils registers with it
set(CMAKE_FIND_ROOT_PATH ${FERRY_WHEEL_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)  # nanobind is in the Python environment
set(ENV{PKG_CONFIG_LIBDIR} ${libraries}/pkgconfig)
