#include "interpose/settings.hpp"

#include <cstring>
#include <string_view>

#include <fnmatch.h>

namespace ferry::iobuf {
namespace {

constexpr std::uint64_t size_unit = 4096;
constexpr std::uint64_t size_max = std::uint64_t{1} << 30;
constexpr std::uint64_t count_max = 1024;

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Digits with an optional unit; 0 for anything else.
std::uint64_t number(std::string_view text, bool has_unit) {
  std::uint64_t value = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value <= size_max; ++at)
    value = 10 * value + static_cast<std::uint64_t>(text[at] - '0');
  const std::string_view unit = text.substr(at);
  if (unit.empty()) return value;
  if (!has_unit || unit.size() != 1) return 0;
  switch (unit[0]) {
    case 'k':
    case 'K':
      return value << 10;
    case 'm':
    case 'M':
      return value << 20;
    case 'g':
    case 'G':
      return value << 30;
    default:
      return 0;
  }
}

std::string read_option(const std::string& option, BufferOptions& options) {
  const std::size_t equals = option.find('=');
  const std::string key = option.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
  if (key == "size") {
    const std::uint64_t bytes = number(value, true);
    if (bytes == 0 || bytes > size_max || bytes % size_unit != 0) {
      return "size is '" + value + "'; it must be a multiple of 4k, at most 1g";
    }
    options.buffer_bytes = bytes;
    return {};
  }
  if (key == "count") {
    const std::uint64_t count = number(value, false);
    if (count == 0 || count > count_max) {
      return "count is '" + value + "'; it must be from 1 to 1024";
    }
    options.buffers = static_cast<unsigned>(count);
    return {};
  }
  return "'" + key + "' is not an option; use size or count";
}

}  // namespace

const Rule* BufferingSettings::rule_for(const char* path) const {
  const char* slash = std::strrchr(path, '/');
  const char* name = slash != nullptr ? slash + 1 : path;
  for (const Rule& rule : rules) {
    const bool whole = rule.pattern.find('/') != std::string::npos;
    if (fnmatch(rule.pattern.c_str(), whole ? path : name, 0) == 0) return &rule;
  }
  return nullptr;
}

BufferingSettings parse_settings(const std::string& text) {
  BufferingSettings settings;
  if (text.empty()) return settings;
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> words = split(part, ':');
    Rule rule{words[0], {}};
    std::string error = rule.pattern.empty() ? "a pattern is missing" : "";
    for (std::size_t i = 1; i < words.size() && error.empty(); ++i)
      error = read_option(words[i], rule.options);
    if (!error.empty()) return {{}, error};
    settings.rules.push_back(std::move(rule));
  }
  return settings;
}

}  // namespace ferry::iobuf
