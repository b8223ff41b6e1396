# -Dpackage= -Dgit= -Dsource= -Doutput= -Dcompiler= -Dbuilt_in=: writes ferry-build.txt.
set(commit "")
if(git)
  execute_process(COMMAND ${git} rev-parse --short=12 HEAD WORKING_DIRECTORY ${source}
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(package)
  set(built_from "package ${package}")
elseif(commit)
  set(built_from "commit ${commit}")
else()
  set(built_from "commit unknown")  # not built from a checkout
endif()
string(REPLACE " | " "; " built_in "${built_in}")
file(WRITE ${output} "${built_from}\ncompiler ${compiler}\nbuilt in: ${built_in}\n")
