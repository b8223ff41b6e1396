#include "programs/json_lines.hpp"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include <nlohmann/json.hpp>

#include <ferry/error.hpp>

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// The bytes of the character of UTF-8 that a text begins with; 0: it begins with none.
std::size_t character_bytes(std::string_view text) {
  const auto at = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  const std::size_t bytes = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const unsigned two = first << 8 | at(1);
  const bool is_long_form = (first == 0xe0 && two < 0xe0a0) || (first == 0xf0 && two < 0xf090);
  const bool is_surrogate = first == 0xed && two > 0xed9f;
  return is_long_form || is_surrogate || two > 0xf48f ? 0 : bytes;
}

void append_text(std::string_view text, std::string& to) {
  to += '"';
  while (!text.empty()) {
    std::size_t whole = 0;
    while (whole < text.size() && character_bytes(text.substr(whole)) > 0)
      whole += character_bytes(text.substr(whole));
    const std::string quoted = Json(text.substr(0, whole)).dump();
    to.append(quoted, 1, quoted.size() - 2);
    text.remove_prefix(whole);
    if (text.empty()) break;
    char escape[sizeof "\\udc80"];
    std::snprintf(escape, sizeof escape, "\\udc%02x", static_cast<unsigned char>(text[0]));
    to += escape;
    text.remove_prefix(1);
  }
  to += '"';
}

// Paths need not be UTF-8. A byte that is not becomes the escape from which Python's json and
// os.fsencode make it again.
void append_value(const Json& value, std::string& to) {
  if (value.is_string()) {
    append_text(value.get_ref<const std::string&>(), to);
  } else if (value.is_structured()) {
    to += value.is_object() ? '{' : '[';
    bool is_first = true;
    for (const auto& [key, member] : value.items()) {
      if (!is_first) to += ',';
      is_first = false;
      if (value.is_object()) {
        append_text(key, to);
        to += ':';
      }
      append_value(member, to);
    }
    to += value.is_object() ? '}' : ']';
  } else {
    to += value.dump();
  }
}

std::string text_of(const Json& line) {
  try {
    return line.dump();
  } catch (const Json::type_error&) {  // something is not UTF-8
    std::string text;
    append_value(line, text);
    return text;
  }
}

int run_with_error_lines(const std::function<int()>& run) {
  try {
    return run();
  } catch (const Error& error) {
    // Why a device cannot be used is a sentence of its own.
    const int number = error.code().value();
    const bool is_sentence = number == ENODEV || number == ENOSYS;
    print_error("", number, is_sentence ? error.reason() : error.what());
  } catch (const std::system_error& error) {
    print_error("", error.code().value(), error.what());
  } catch (const std::bad_alloc&) {
    print_error("", ENOMEM, "out of memory");
  }
  return exit_failed;
}

}  // namespace

void print_line(const Json& line) {
  const std::string text = text_of(line) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(errno, "standard output");
  }
}

void print_error(const std::string& cell, int error_number, const std::string& message) {
  Json line = {{"type", "error"}, {"cell", nullptr}, {"errno", error_number}};
  if (!cell.empty()) line["cell"] = cell;
  line["message"] = message;
  print_line(line);
}

int run_reporting_errors(const char* name, const std::function<int()>& run) {
  try {
    return run_with_error_lines(run);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return exit_failed;
  }
}

}  // namespace ferry::bench
