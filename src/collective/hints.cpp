#include "collective/hints.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace ferry::collective {
namespace {

constexpr std::int64_t buffer_bytes_max = 1 << 30;
constexpr std::int64_t alignment_bytes_max = 256 << 20;

// Known to MPI libraries, and handed to theirs by method mpiio; nothing here depends on them.
constexpr std::array<std::string_view, 12> passed_on{
    "access_style",       "cb_block_size",  "cb_config_list",  "ind_rd_buffer_size",
    "ind_wr_buffer_size", "nb_proc",        "romio_ds_read",   "romio_ds_write",
    "romio_no_indep_rw",  "start_iodevice", "striping_factor", "romio_lustre_co_ratio"};

bool to_number(std::string_view text, std::int64_t maximum, std::int64_t& value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (number < 1 || number > maximum) return false;
  value = number;
  return true;
}

bool to_method(std::string_view text, Method& method) {
  if (text == "enable") {
    method = Method::aggregate;
  } else if (text == "disable") {
    method = Method::independent;
  } else if (text == "automatic") {
    method = Method::automatic;
  } else {
    return false;
  }
  return true;
}

bool to_ferry_method(std::string_view text, Settings& settings) {
  for (const Method method :
       {Method::automatic, Method::independent, Method::serial, Method::aggregate, Method::mpiio}) {
    if (text != name_of(method)) continue;
    settings.write_method = settings.read_method = method;
    return true;
  }
  return false;
}

enum class Verdict { taken, wrong, unknown };

Verdict take(const std::string& name, std::string_view value, Settings& settings) {
  std::int64_t number = 0;
  bool right = true;
  if (name == "cb_nodes") {
    right = to_number(value, 1 << 30, number);
    if (right) settings.writers = static_cast<int>(number);
  } else if (name == "cb_buffer_size") {
    right = to_number(value, buffer_bytes_max, settings.buffer_bytes);
  } else if (name == "striping_unit") {
    right = to_number(value, alignment_bytes_max, settings.alignment_bytes);
  } else if (name == "romio_cb_write") {
    right = to_method(value, settings.write_method);
  } else if (name == "romio_cb_read") {
    right = to_method(value, settings.read_method);
  } else if (name == "ferry_method") {
    right = to_ferry_method(value, settings);
  } else if (name == "ferry_write_out") {
    right = value == "enable" || value == "disable";
    if (right) settings.write_out = value == "enable";
  } else if (std::find(passed_on.begin(), passed_on.end(), name) == passed_on.end()) {
    return Verdict::unknown;
  }
  return right ? Verdict::taken : Verdict::wrong;
}

}  // namespace

const char* name_of(Method method) {
  switch (method) {
    case Method::automatic:
      return "automatic";
    case Method::independent:
      return "independent";
    case Method::serial:
      return "serial";
    case Method::aggregate:
      return "aggregate";
    case Method::mpiio:
      return "mpiio";
  }
  return "unknown";
}

Settings settings_of(const Options& options, std::vector<std::string>& warnings) {
  Settings settings{options.write_method, options.read_method,     std::max(options.writers, 0),
                    options.buffer_bytes, options.alignment_bytes, options.write_out};
  int count = 0;
  if (options.hints != MPI_INFO_NULL) MPI_Info_get_nkeys(options.hints, &count);
  for (int i = 0; i < count; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> name{};
    MPI_Info_get_nthkey(options.hints, i, name.data());
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int found = 0;
    MPI_Info_get(options.hints, name.data(), MPI_MAX_INFO_VAL, value.data(), &found);
    const Verdict verdict = take(name.data(), value.data(), settings);
    if (verdict == Verdict::unknown) {
      warnings.push_back(std::string("hint ") + name.data() +
                         " is not known; docs/collective.md lists those that are");
    } else if (verdict == Verdict::wrong) {
      warnings.push_back(std::string("hint ") + name.data() + " is ignored: \"" + value.data() +
                         "\" is no value for it; docs/collective.md lists them");
    }
  }
  settings.buffer_bytes = std::clamp(settings.buffer_bytes, std::int64_t{0}, buffer_bytes_max);
  settings.alignment_bytes =
      std::clamp(settings.alignment_bytes, std::int64_t{0}, alignment_bytes_max);
  return settings;
}

MPI_Info hints_of(const Settings& settings) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  const auto set = [&](const char* name, const std::string& value) {
    MPI_Info_set(info, name, value.c_str());
  };
  const auto switch_of = [](Method method) {
    if (method == Method::aggregate) return "enable";
    return method == Method::independent ? "disable" : "automatic";
  };
  set("cb_nodes", std::to_string(settings.writers));
  set("cb_buffer_size", std::to_string(settings.buffer_bytes));
  set("striping_unit", std::to_string(settings.alignment_bytes));
  set("romio_cb_write", switch_of(settings.write_method));
  set("romio_cb_read", switch_of(settings.read_method));
  set("ferry_write_out", settings.write_out ? "enable" : "disable");
  if (settings.write_method == settings.read_method) {
    set("ferry_method", name_of(settings.write_method));
  }
  return info;
}

}  // namespace ferry::collective
