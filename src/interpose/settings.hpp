// Parses FERRY_IOBUF: which files to buffer, and how.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ferry/buffered_file.hpp>

namespace ferry::iobuf {

struct Rule {
  std::string pattern;  // a shell pattern; without a slash it matches the file's name
  BufferOptions options;
};

struct BufferingSettings {
  std::vector<Rule> rules;
  std::string error;  // the error; then there are no rules

  // The first rule that matches, if any.
  const Rule* rule_for(const char* path) const;
};

// "PATTERN[:size=BYTES][:count=NUMBER],...": sizes take k, m and g as powers of 1024.
BufferingSettings parse_settings(const std::string& text);

}  // namespace ferry::iobuf
