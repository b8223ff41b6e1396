# Finds a Fortran compiler, and adds the Fortran modules where there is one. They need the shared
# libraries for C, which a sanitizer does not have.
if(NOT FERRY_FORTRAN OR NOT TARGET ferry_c)
  return()
endif()
include(CheckLanguage)
if(NOT CMAKE_Fortran_COMPILER)
  unset(CMAKE_Fortran_COMPILER CACHE)  # it may have been installed since
endif()
check_language(Fortran)
if(CMAKE_Fortran_COMPILER)
  enable_language(Fortran)
elseif(FERRY_FORTRAN STREQUAL "AUTO")
  message(STATUS "no Fortran compiler (Debian: gfortran): its modules are not built")
  return()
else()
  message(FATAL_ERROR "no Fortran compiler, which FERRY_FORTRAN=${FERRY_FORTRAN} needs (Debian: gfortran)")
endif()
# Modules bind to a compiler: other versions of it may not read them. The folder is Debian's.
set(modules ${CMAKE_Fortran_COMPILER_ID}-${CMAKE_Fortran_COMPILER_VERSION})
if(CMAKE_Fortran_COMPILER_ID STREQUAL "GNU")
  set(modules gfortran-mod-15)  # GCC 8 to 14
  if(CMAKE_Fortran_COMPILER_VERSION VERSION_GREATER_EQUAL 15)
    set(modules gfortran-mod-16)
  endif()
endif()
set(FERRY_FORTRAN_MODULES ${CMAKE_INSTALL_LIBDIR}/fortran/${modules})
enable_language(C)
add_subdirectory(src/bindings/fortran)
