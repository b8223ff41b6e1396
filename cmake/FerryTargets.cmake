# What every target of the project shares.
if(FERRY_SANITIZER STREQUAL "fuzz")
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
                      -fsanitize-ignorelist=${PROJECT_SOURCE_DIR}/tests/fuzz/ignored.txt
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(FERRY_SANITIZER)
  add_compile_options(-fsanitize=${FERRY_SANITIZER} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FERRY_SANITIZER})
  # ThreadSanitizer guesses the extent of a thread's variables in a library that was loaded while the
  # program ran, and now and then takes what lies in front of them for it. So no library has such.
  if(FERRY_SANITIZER STREQUAL "thread")
    add_compile_options(-ftls-model=initial-exec)
  endif()
  # Checks that are calls compile in less time than those in place, and here run as fast.
  if(FERRY_SANITIZER STREQUAL "address" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(--param=asan-instrumentation-with-call-threshold=0)
  endif()
endif()

find_program(FERRY_CCACHE ccache)
if(FERRY_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FERRY_CCACHE})
endif()

function(ferry_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
    -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast -Wno-psabi
    $<$<OR:$<BOOL:${FERRY_WERROR}>,$<BOOL:${FERRY_TESTS}>>:-Werror>)
endfunction()

# ferry_unity(target): compiles its sources in batches of ten, which share headers and template
# instances. Sources of one batch share a scope: put clashing names into a namespace of their own.
option(FERRY_UNITY "Compile in batches of sources; OFF compiles faster after a change of one" ON)
function(ferry_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FERRY_UNITY} UNITY_BUILD_BATCH_SIZE 10)
endfunction()

# ferry_unity_by_room(target): the same with one batch per folder of src and per storage.
function(ferry_unity_by_room target)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    string(REGEX MATCH "^src/(storage/[a-z0-9]+|[a-z]+)(/|$)" room ${source})
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP "${room}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${FERRY_UNITY} UNITY_BUILD_MODE GROUP)
endfunction()

# A program of this project: ferry_program(name source... LINK library...)
function(ferry_program name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  ferry_warnings(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/lab)
  target_link_libraries(${name} PRIVATE ferry Threads::Threads ${ARG_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  ferry_unity(${name})
endfunction()

# ferry_parts(name source... LINK library...): a library shared by programs and tests.
function(ferry_parts name)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  ferry_warnings(${name})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/lab)
  target_compile_definitions(${name} PRIVATE FERRY_VERSION="${PROJECT_VERSION}")
  target_link_libraries(${name} PUBLIC Threads::Threads nlohmann_json::nlohmann_json ${ARG_LINK})
  ferry_unity(${name})
endfunction()

# ferry_c_library(name file exported version_script): lib<file>.so.0, with the functions in C of
# <name>_objects and none of the names of C++. In a folder of its own, so that `-l<file>` finds the
# archive beside it. It stays loaded: its threads outlast the program's use of it.
function(ferry_c_library name file exported symbols)
  add_library(${name} SHARED)
  add_library(ferry::${exported} ALIAS ${name})
  target_include_directories(${name} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(${name} PRIVATE -Wl,--version-script=${symbols} -Wl,-z,nodelete)
  if(NOT BUILD_SHARED_LIBS)  # else it shares exceptions with the library for C++
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX LINK_DEPENDS ${symbols}
    OUTPUT_NAME ${file} EXPORT_NAME ${exported} VERSION ${PROJECT_VERSION} SOVERSION 0
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/c
    INSTALL_RPATH "$<$<BOOL:${BUILD_SHARED_LIBS}>:$ORIGIN>")
endfunction()
