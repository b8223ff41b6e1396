// What the environment says about files that ferryd may serve.
#pragma once

#include <string>
#include <vector>

namespace ferry::run {

struct ServingSettings {
  std::string socket;
  std::vector<std::string> prefixes;  // without a slash at the end; none: see has_map
  bool has_map = false;               // without one: all but the system's folders
  bool wants_summary = false;
  std::string summary;  // a path, or "-"
  std::string error;    // one line, if something is wrong

  // Null: nothing is served. Never freed.
  static const ServingSettings* from_environment();
  // FERRY_RUN_MAP: absolute prefixes between colons.
  void read_map(const std::string& text);
  // Of an absolute path without links. Safe in signal handlers.
  bool takes(const char* path) const;
};

}  // namespace ferry::run
