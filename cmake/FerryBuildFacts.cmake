# ferry-build.txt: the commit or the package, the compiler and what is built in, which `ferry --version` prints. Made
# again after each commit.
set(FERRY_PACKAGE_VERSION "" CACHE STRING "Of the package that is built; empty: the commit says it")
find_package(Git QUIET)
set(commit_log "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path logs/HEAD
                  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE commit_log
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  get_filename_component(commit_log "${commit_log}" ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(NOT EXISTS "${commit_log}" OR IS_DIRECTORY "${commit_log}")
    set(commit_log "")
  endif()
endif()

set(built_in "devices cpu, cuda" "storages posix, nfs, ceph, pvfs2")
set(languages "C++")
foreach(language ferry_c=C ferry_fortran=Fortran ferry_python=Python)
  string(REPLACE "=" ";" language ${language})
  list(GET language 0 target)
  list(GET language 1 name)
  if(TARGET ${target})
    list(APPEND languages ${name})
  endif()
endforeach()
list(JOIN languages ", " languages)
list(APPEND built_in "languages ${languages}")
if(TARGET ferry_mpi AND MPI_CXX_LIB_NAMES)
  list(GET MPI_CXX_LIB_NAMES -1 mpi)
  list(APPEND built_in "collective I/O with lib${mpi}")
elseif(TARGET ferry_mpi)  # the compiler is that of the MPI library, and adds it unasked
  list(APPEND built_in "collective I/O")
elseif(TARGET ferry_mpi_mpich)
  list(APPEND built_in "collective I/O with MPICH, Open MPI")
endif()
if(NOT FERRY_CACHE_LINE_BYTES EQUAL 64)
  list(APPEND built_in "cache lines of ${FERRY_CACHE_LINE_BYTES} bytes")
endif()
list(JOIN built_in " | " built_in)

set(build_facts ${PROJECT_BINARY_DIR}/ferry-build.txt)
add_custom_command(OUTPUT ${build_facts}
  COMMAND ${CMAKE_COMMAND} "-Dpackage=${FERRY_PACKAGE_VERSION}" "-Dgit=${GIT_EXECUTABLE}" "-Dsource=${PROJECT_SOURCE_DIR}"
          "-Doutput=${build_facts}" "-Dbuilt_in=${built_in}"
          "-Dcompiler=${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, ${CMAKE_BUILD_TYPE}"
          -P ${CMAKE_CURRENT_LIST_DIR}/write_build_facts.cmake
  DEPENDS ${CMAKE_CURRENT_LIST_DIR}/write_build_facts.cmake ${commit_log}
  COMMENT "Writing ferry-build.txt" VERBATIM)
add_custom_target(ferry_build_facts ALL DEPENDS ${build_facts})
if(SKBUILD)
  install(FILES ${build_facts} DESTINATION ferry COMPONENT python)
else()
  install(FILES ${build_facts} DESTINATION ${CMAKE_INSTALL_DATADIR}/ferry COMPONENT python)
endif()
