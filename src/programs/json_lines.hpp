// How programs answer: one JSON object per line on standard output, errors among them.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

namespace ferry::bench {

inline constexpr int exit_failed = 1;
inline constexpr int exit_wrong_arguments = 2;

// Flushes the line. Throws ferry::Error when standard output is gone.
void print_line(const nlohmann::ordered_json& line);

// `cell` is empty where the error belongs to none.
void print_error(const std::string& cell, int error_number, const std::string& message);

// What a program's main() returns: the status of `run`. What that throws becomes an error line, or
// goes to standard error with the program's name where standard output is gone, too.
int run_reporting_errors(const char* name, const std::function<int()>& run);

}  // namespace ferry::bench
