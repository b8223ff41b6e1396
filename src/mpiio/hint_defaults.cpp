#include "mpiio/hint_defaults.hpp"

#include <map>
#include <mutex>

#include "collective/hints.hpp"

namespace ferry::mpiio {
namespace {

using collective::has_hint;

struct Defaults {
  std::mutex mutex;
  std::map<std::string, std::string> values;
};

Defaults& defaults() {
  static Defaults& all = *new Defaults;  // a program may end while a thread opens a file
  return all;
}

}  // namespace

std::string hint_default(const std::string& hint) {
  const std::lock_guard guard(defaults().mutex);
  const auto found = defaults().values.find(hint);
  return found == defaults().values.end() ? "" : found->second;
}

bool set_hint_default(const std::string& hint, const std::string& value) {
  if (!value.empty() && !collective::is_value_of(hint, value)) return false;
  const std::lock_guard guard(defaults().mutex);
  if (value.empty()) {
    defaults().values.erase(hint);
  } else {
    defaults().values[hint] = value;
  }
  return true;
}

InfoWithDefaults::InfoWithDefaults(MPI_Info asked) : asked_(asked), info_(asked) {
  const std::lock_guard guard(defaults().mutex);
  if (defaults().values.empty()) return;
  const int code = asked == MPI_INFO_NULL ? PMPI_Info_create(&info_) : PMPI_Info_dup(asked, &info_);
  if (code != MPI_SUCCESS) {  // an info that is none, which opening finds wrong as well
    info_ = asked;
    return;
  }
  for (const auto& [hint, value] : defaults().values) {
    // That one is both of the others.
    const bool is_there = has_hint(info_, hint) ||
                          (hint == "ferry_method" &&
                           (has_hint(info_, "romio_cb_read") || has_hint(info_, "romio_cb_write")));
    if (!is_there) PMPI_Info_set(info_, hint.c_str(), value.c_str());
  }
}

InfoWithDefaults::~InfoWithDefaults() {
  if (info_ != asked_) PMPI_Info_free(&info_);
}

}  // namespace ferry::mpiio
