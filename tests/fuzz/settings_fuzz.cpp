// The environment of `ferry run`: which files are buffered and how.
#include <cstdint>
#include <string>

#include "fuzz/bytes.hpp"
#include "interpose/settings.hpp"

namespace ferry::fuzz {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string text(reinterpret_cast<const char*>(data), bytes);
  const iobuf::BufferingSettings settings = iobuf::parse_settings(text);
  require(settings.error.empty() || settings.rules.empty(), "rules beside an error");
  for (const iobuf::Rule& rule : settings.rules) {
    require(rule.options.buffer_bytes > 0 && rule.options.buffer_bytes % 4096 == 0,
            "a buffer of another size than is allowed");
    require(rule.options.buffers > 0 && rule.options.buffers <= 1024, "too many buffers");
  }
  static_cast<void>(settings.rule_for("/scratch/run/output.dat"));
  static_cast<void>(settings.rule_for(text.c_str()));
  return 0;
}

}  // namespace ferry::fuzz
