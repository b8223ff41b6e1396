# cmake --install: the libraries, their headers, a CMake package, pkg-config files and a systemd unit.
include(CMakePackageConfigHelpers)

install(TARGETS ferry ferry_device EXPORT ferry-targets)
if(TARGET ferry_c)
  install(TARGETS ferry_c EXPORT ferry-targets)
  install(FILES include/ferry.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
endif()
install(FILES include/ferry/ferry.hpp include/ferry/buffered_file.hpp include/ferry/bulk.hpp
        include/ferry/byte_order.hpp include/ferry/cuda.hpp include/ferry/device.hpp
        include/ferry/error.hpp include/ferry/gpu.hpp include/ferry/runtime.hpp
        include/ferry/fortran_records.hpp include/ferry/signals.hpp include/ferry/storage_engine.hpp
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry)
install(DIRECTORY include/ferry/device/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry/device
        FILES_MATCHING PATTERN "*.hpp")
install(DIRECTORY include/ferry/nvrtc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry)
if(TARGET ferry-bench)
  install(TARGETS ferry-bench)
endif()
# Modules bind to a version of the compiler; others compile them again from the sources.
if(TARGET ferry_fortran)
  install(TARGETS ferry_fortran EXPORT ferry-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/fortran/ferry_fortran/ferry.mod DESTINATION ${FERRY_FORTRAN_MODULES})
  install(DIRECTORY src/bindings/fortran/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ferry/fortran
          FILES_MATCHING PATTERN "*.f90" PATTERN "*.c")
endif()
if(TARGET ferry_mpi_fortran)
  install(TARGETS ferry_mpi_fortran EXPORT ferry-mpi-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${PROJECT_BINARY_DIR}/fortran/ferry_mpi_fortran/ferry_mpi.mod
          DESTINATION ${FERRY_FORTRAN_MODULES})
endif()
foreach(preloaded ferry_run ferry_mpiio ferry_mpiio_calls)
  if(TARGET ${preloaded})
    install(TARGETS ${preloaded} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endif()
endforeach()
if(TARGET ferry_hdf5)
  install(TARGETS ferry_hdf5 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry-hdf5)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ferry)
install(EXPORT ferry-targets NAMESPACE ferry:: DESTINATION ${package_dir})
# Separate, so that users without MPI do not need it: find_package(ferry COMPONENTS mpi).
if(TARGET ferry_mpi)
  install(TARGETS ferry_mpi EXPORT ferry-mpi-targets)
  install(FILES include/ferry/collective.hpp include/ferry/typemap.hpp
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry)
  if(TARGET ferry_mpi_c)
    install(TARGETS ferry_mpi_c EXPORT ferry-mpi-targets)
    install(FILES include/ferry_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  endif()
  install(EXPORT ferry-mpi-targets NAMESPACE ferry:: DESTINATION ${package_dir})
endif()
configure_package_config_file(cmake/ferry-config.cmake.in ferry-config.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(ferry-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ferry-config.cmake
              ${PROJECT_BINARY_DIR}/ferry-config-version.cmake DESTINATION ${package_dir})
# Relative to this file, so that it works with any --prefix.
file(RELATIVE_PATH FERRY_PC_TO_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
# The archive by its path: -lferry is the library for C.
set(FERRY_PC_CXX_LIBRARY "\${libdir}/libferry.a")
if(BUILD_SHARED_LIBS)
  set(FERRY_PC_CXX_LIBRARY "-L\${libdir} -lferry_cxx")
endif()
set(packages ferry ferry-cxx)
if(TARGET ferry_mpi_c)
  list(APPEND packages ferry-mpi)
endif()
if(TARGET ferry_fortran)
  list(APPEND packages ferry-fortran)
endif()
if(TARGET ferry_mpi_fortran)
  list(APPEND packages ferry-mpi-fortran)
endif()
foreach(package ${packages})
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# The unit names ferryd by its whole path, which the prefix of the installation decides.
if(TARGET ferryd)
  set(unit ${PROJECT_BINARY_DIR}/ferryd.service)
  install(CODE "
    set(ferryd \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}/ferryd\")
    configure_file(\"${PROJECT_SOURCE_DIR}/src/programs/ferryd.service.in\" \"${unit}\" @ONLY)")
  install(FILES ${unit} DESTINATION lib/systemd/user)
endif()

# The ferry command, with the Python packages that it needs where the checkout has them.
if(TARGET ferryd)
  install(PROGRAMS src/programs/ferry-command DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ferry)
  install(DIRECTORY python/ferry DESTINATION lib/ferry/python FILES_MATCHING PATTERN "*.py"
          PATTERN __pycache__ EXCLUDE)
  install(CODE "
    file(GLOB needed
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/click\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/click-*\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/rich\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/rich-*\")
    file(INSTALL \${needed} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/ferry/python\"
         PATTERN __pycache__ EXCLUDE)")
endif()
