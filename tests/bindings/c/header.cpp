// ferry.h is C++ as well, from C++11 on.
#include <ferry.h>

int main() {
  const ferry_runtime_options options = FERRY_RUNTIME_OPTIONS_INIT;
  const ferry_layout layout = FERRY_LAYOUT_INIT;
  const ferry_runtime_statistics statistics = FERRY_RUNTIME_STATISTICS_INIT;
  return options.struct_bytes == sizeof options && layout.first_server == -1 &&
                 statistics.struct_bytes == sizeof statistics
             ? 0
             : 1;
}
