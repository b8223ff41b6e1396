#include "programs/json_lines.hpp"

#include <cerrno>
#include <cstdio>
#include <exception>
#include <new>
#include <system_error>

#include <nlohmann/json.hpp>

#include <ferry/error.hpp>

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

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
  // Paths need not be UTF-8.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
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
