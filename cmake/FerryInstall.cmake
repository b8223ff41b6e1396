# cmake --install: the libraries and what is needed to link them, the ferry command and what it starts,
# the Python package, manual pages and examples. Each component is what a package of debian/ holds;
# without --component all are installed.
include(CMakePackageConfigHelpers)

# What a distribution has in other folders.
set(FERRY_PROGRAM_DIR ${CMAKE_INSTALL_BINDIR} CACHE STRING "Of the programs that the ferry command starts")
set(FERRY_PYTHON_DIR lib/ferry/python CACHE STRING "Of the Python package")
set(FERRY_ZSH_DIR ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING "Of zsh's completion")
option(FERRY_LABORATORY "Install the commands bench, compare, import, metadata, study and tune" OFF)

# Linking: whatever no other component has.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME development)

# ferry_install_library(target export component [development]): a library for linking.
function(ferry_install_library target export component)
  set(development development)
  if(ARGN)
    set(development ${ARGN})
  endif()
  install(TARGETS ${target} EXPORT ${export}
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${component} NAMELINK_COMPONENT ${development}
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${development})
endfunction()

ferry_install_library(ferry ferry-targets libraries)
install(TARGETS ferry_device EXPORT ferry-targets)
if(TARGET ferry_c)
  ferry_install_library(ferry_c ferry-targets libraries)
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
# Modules bind to a version of the compiler; others compile them again from the sources.
if(TARGET ferry_fortran)
  ferry_install_library(ferry_fortran ferry-targets fortran)
  install(FILES ${PROJECT_BINARY_DIR}/fortran/ferry_fortran/ferry.mod DESTINATION ${FERRY_FORTRAN_MODULES})
  install(DIRECTORY src/bindings/fortran/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ferry/fortran
          FILES_MATCHING PATTERN "*.f90" PATTERN "*.c")
endif()
if(TARGET ferry_mpi_fortran)
  ferry_install_library(ferry_mpi_fortran ferry-mpi-targets mpi mpi_development)
  install(FILES ${PROJECT_BINARY_DIR}/fortran/ferry_mpi_fortran/ferry_mpi.mod
          DESTINATION ${FERRY_FORTRAN_MODULES} COMPONENT mpi_development)
endif()
# What ferry run puts under programs: no library to link.
if(TARGET ferry_run)
  install(TARGETS ferry_run LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry COMPONENT tools)
endif()
foreach(preloaded ferry_mpiio ferry_mpiio_calls)
  if(TARGET ${preloaded})
    install(TARGETS ${preloaded} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry COMPONENT mpi)
  endif()
endforeach()
if(TARGET ferry_hdf5)
  install(TARGETS ferry_hdf5 LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ferry-hdf5 COMPONENT tools)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ferry)
install(EXPORT ferry-targets NAMESPACE ferry:: DESTINATION ${package_dir})
export(EXPORT ferry-targets NAMESPACE ferry::)  # for projects that use the build folder
# Separate, so that users without MPI do not need it: find_package(ferry COMPONENTS mpi).
if(TARGET ferry_mpi)
  ferry_install_library(ferry_mpi ferry-mpi-targets mpi mpi_development)
  install(FILES include/ferry/collective.hpp include/ferry/typemap.hpp
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/ferry COMPONENT mpi_development)
  if(TARGET ferry_mpi_c)
    ferry_install_library(ferry_mpi_c ferry-mpi-targets mpi mpi_development)
    install(FILES include/ferry_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT mpi_development)
  endif()
  install(EXPORT ferry-mpi-targets NAMESPACE ferry:: DESTINATION ${package_dir} COMPONENT mpi_development)
  export(EXPORT ferry-mpi-targets NAMESPACE ferry::)
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
set(FERRY_PC_CACHE_LINE "")
if(NOT FERRY_CACHE_LINE_BYTES EQUAL 64)
  set(FERRY_PC_CACHE_LINE " -DFERRY_CACHE_LINE_BYTES=${FERRY_CACHE_LINE_BYTES}")
endif()
if(BUILD_SHARED_LIBS)
  set(FERRY_PC_CXX_LIBRARY "-L\${libdir} -lferry_cxx")
endif()
set(packages ferry ferry-cxx)
set(mpi_packages "")
if(TARGET ferry_mpi_c)
  list(APPEND mpi_packages ferry-mpi)
endif()
if(TARGET ferry_fortran)
  list(APPEND packages ferry-fortran)
endif()
if(TARGET ferry_mpi_fortran)
  list(APPEND mpi_packages ferry-mpi-fortran)
endif()
foreach(package ${packages} ${mpi_packages})
  set(component development)
  if(package IN_LIST mpi_packages)
    set(component mpi_development)
  endif()
  configure_file(cmake/${package}.pc.in ${package}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${package}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT ${component})
endforeach()

# The ferry command, and the unit, which names ferryd by its whole path: the prefix decides it.
if(TARGET ferryd)
  install(PROGRAMS src/programs/ferry-command DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME ferry COMPONENT tools)
  set(unit ${PROJECT_BINARY_DIR}/ferryd.service)
  install(CODE "
    set(ferryd \"\${CMAKE_INSTALL_PREFIX}/${FERRY_PROGRAM_DIR}/ferryd\")
    configure_file(\"${PROJECT_SOURCE_DIR}/src/programs/ferryd.service.in\" \"${unit}\" @ONLY)"
          COMPONENT tools)
  install(FILES ${unit} DESTINATION lib/systemd/user COMPONENT tools)
  install(TARGETS ferry-copy ferry-info ferry-layout ferry-mount ferryd
          RUNTIME DESTINATION ${FERRY_PROGRAM_DIR} COMPONENT tools)
endif()
if(TARGET ferry-bench)
  install(TARGETS ferry-bench RUNTIME DESTINATION ${FERRY_PROGRAM_DIR} COMPONENT laboratory)
endif()
if(TARGET ferry-bench-mpi)
  install(TARGETS ferry-bench-mpi RUNTIME DESTINATION ${FERRY_PROGRAM_DIR} COMPONENT laboratory_mpi)
endif()

# The Python package, with what it needs of others where the checkout has them.
if(TARGET ferryd OR TARGET ferry_python)
  install(DIRECTORY python/ferry DESTINATION ${FERRY_PYTHON_DIR} COMPONENT python
          FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
endif()
if(TARGET ferryd AND FERRY_PYTHON_DIR STREQUAL "lib/ferry/python")
  install(CODE "
    file(GLOB needed
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/click\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/click-*\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/rich\"
         \"${PROJECT_SOURCE_DIR}/.ferry/venv/lib/python3*/site-packages/rich-*\")
    file(INSTALL \${needed} DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/ferry/python\"
         PATTERN __pycache__ EXCLUDE)"
          COMPONENT python)
endif()
# What importlib.metadata finds of it: fsspec's protocols.
if(TARGET ferry_python)
  set(dist_info ${PROJECT_BINARY_DIR}/ferry_io-${PROJECT_VERSION}.dist-info)
  execute_process(COMMAND ${FERRY_PYTHON_INTERPRETER} scripts/write_dist_info.py pyproject.toml ${PROJECT_VERSION}
                          ${dist_info}
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} COMMAND_ERROR_IS_FATAL ANY)
  install(DIRECTORY ${dist_info} DESTINATION ${FERRY_PYTHON_DIR} COMPONENT python)
  install(TARGETS ferry_python LIBRARY DESTINATION ${FERRY_PYTHON_DIR}/ferry COMPONENT python)
endif()
if(TARGET ferry_python_collective)
  install(TARGETS ferry_python_collective LIBRARY DESTINATION ${FERRY_PYTHON_DIR}/ferry COMPONENT python_mpi)
endif()
if(FERRY_LABORATORY)  # for the ferry command alone
  install(DIRECTORY lab/ferry_lab DESTINATION lib/ferry/python COMPONENT laboratory
          PATTERN __pycache__ EXCLUDE)
endif()

# Manual pages and completion, made of the commands' own definitions.
if(TARGET ferryd AND TARGET ferry_python)
  file(GLOB_RECURSE definitions python/ferry/*.py)
  set(search_path ${PROJECT_SOURCE_DIR}/python)
  if(FERRY_LABORATORY)
    file(GLOB_RECURSE laboratory_definitions lab/ferry_lab/commands/*.py)
    list(APPEND definitions ${laboratory_definitions})
    list(APPEND search_path ${PROJECT_SOURCE_DIR}/lab)
  endif()
  list(JOIN search_path ":" search_path)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${pages}/man1/ferry.1
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${pages}
    COMMAND ${CMAKE_COMMAND} -E env --modify PYTHONPATH=path_list_prepend:${search_path}
            PYTHONDONTWRITEBYTECODE=1 ${FERRY_PYTHON_INTERPRETER} -m ferry.man_pages ${pages}
    DEPENDS ${definitions}
    COMMENT "Writing the manual pages and completion" VERBATIM)
  add_custom_target(ferry_man_pages ALL DEPENDS ${pages}/man1/ferry.1)
  set(laboratory_pages "/ferry-(bench|compare|import|metadata|study|tune)\\.1$")
  install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tools
          REGEX ${laboratory_pages} EXCLUDE)
  if(FERRY_LABORATORY)
    install(DIRECTORY ${pages}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT laboratory
            FILES_MATCHING REGEX ${laboratory_pages})
  endif()
  install(FILES ${pages}/completions/bash RENAME ferry COMPONENT tools
          DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${pages}/completions/zsh RENAME _ferry COMPONENT tools DESTINATION ${FERRY_ZSH_DIR})
  install(FILES ${pages}/completions/fish RENAME ferry.fish COMPONENT tools
          DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()

install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT licence)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation
        PATTERN CMakeLists.txt EXCLUDE PATTERN __pycache__ EXCLUDE)
# As in the checkout, because they link to each other.
install(FILES CHANGELOG.md CONTRIBUTING.md Containerfile README.md SECURITY.md
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation
        FILES_MATCHING PATTERN "*.md" PATTERN "*.png" PATTERN "*.svg" PATTERN site EXCLUDE)
