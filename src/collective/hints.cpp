#include "collective/hints.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string_view>

#include "runtime/tuning.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

constexpr std::int64_t buffer_bytes_max = 1 << 30;
constexpr std::int64_t alignment_bytes_max = 256 << 20;
constexpr int stripe_count_max = 1 << 16;

// MPI libraries know them; method mpiio passes them on, and nothing here uses them.
constexpr std::array<std::string_view, 7> passed_on{
    "access_style",      "cb_block_size",  "cb_config_list",       "nb_proc",
    "romio_no_indep_rw", "start_iodevice", "romio_lustre_co_ratio"};

bool to_number(std::string_view text, std::int64_t maximum, std::int64_t& value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if (number < 1 || number > maximum) return false;
  value = number;
  return true;
}

const char* text_of(Sieving sieving) {
  if (sieving == Sieving::automatic) return "automatic";
  return sieving == Sieving::enabled ? "enable" : "disable";
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

bool to_switch(std::string_view text, bool& value) {
  if (text != "enable" && text != "disable") return false;
  value = text == "enable";
  return true;
}

bool to_sieving(std::string_view text, Sieving& value) {
  for (const Sieving one : {Sieving::automatic, Sieving::enabled, Sieving::disabled}) {
    if (text != text_of(one)) continue;
    value = one;
    return true;
  }
  return false;
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
  } else if (name == "striping_factor") {
    right = to_number(value, stripe_count_max, number);
    if (right) settings.stripe_count = static_cast<int>(number);
  } else if (name == "romio_cb_write") {
    right = to_method(value, settings.write_method);
  } else if (name == "romio_cb_read") {
    right = to_method(value, settings.read_method);
  } else if (name == "ferry_method") {
    right = to_ferry_method(value, settings);
  } else if (name == "ferry_write_out") {
    right = to_switch(value, settings.write_out);
  } else if (name == "romio_ds_read") {
    right = to_sieving(value, settings.read_sieving);
  } else if (name == "romio_ds_write") {
    right = to_sieving(value, settings.write_sieving);
  } else if (name == "ind_rd_buffer_size") {
    right = to_number(value, buffer_bytes_max, settings.read_sieve_bytes);
  } else if (name == "ind_wr_buffer_size") {
    right = to_number(value, buffer_bytes_max, settings.write_sieve_bytes);
  } else if (name == "ferry_node_merge") {
    right = to_switch(value, settings.node_merge);
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
  Settings settings;
  settings.write_method = options.write_method;
  settings.read_method = options.read_method;
  settings.writers = std::max(options.writers, 0);
  settings.buffer_bytes = options.buffer_bytes;
  settings.alignment_bytes = options.alignment_bytes;
  settings.stripe_count = std::clamp(options.stripe_count, 0, stripe_count_max);
  settings.write_out = options.write_out;
  settings.node_merge = options.node_merge;
  settings.read_sieving = options.read_sieving;
  settings.write_sieving = options.write_sieving;
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
                         " is not known; docs/reference/hints.md lists those that are");
    } else if (verdict == Verdict::wrong) {
      warnings.push_back(std::string("hint ") + name.data() + " is ignored: \"" + value.data() +
                         "\" is no value for it; docs/reference/hints.md lists them");
    }
  }
  settings.buffer_bytes = std::clamp(settings.buffer_bytes, std::int64_t{0}, buffer_bytes_max);
  settings.alignment_bytes =
      std::clamp(settings.alignment_bytes, std::int64_t{0}, alignment_bytes_max);
  return settings;
}

void take_profile(Settings& settings, const std::string& path) {
  if (settings.writers > 0) settings.writers_origin = Origin::asked;
  if (settings.buffer_bytes > 0) settings.buffer_origin = Origin::asked;
  const bool asked = settings.writers > 0 && settings.buffer_bytes > 0;
  if (asked || storage::scheme_of(path) != storage::Scheme::posix) return;
  const std::optional<StorageProfile> profile = profile_of(path);
  if (!profile) return;
  if (settings.writers == 0 && profile->writers_per_node) {
    settings.writers_per_node = static_cast<int>(*profile->writers_per_node);
    settings.writers_origin = Origin::profile;
  }
  if (settings.buffer_bytes == 0 && profile->collective_buffer_bytes) {
    settings.buffer_bytes = *profile->collective_buffer_bytes;
    settings.buffer_origin = Origin::profile;
  }
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
  if (settings.stripe_count > 0) set("striping_factor", std::to_string(settings.stripe_count));
  set("romio_cb_write", switch_of(settings.write_method));
  set("romio_cb_read", switch_of(settings.read_method));
  set("ferry_write_out", settings.write_out ? "enable" : "disable");
  set("romio_ds_read", text_of(settings.read_sieving));
  set("romio_ds_write", text_of(settings.write_sieving));
  set("ind_rd_buffer_size", std::to_string(settings.read_sieve_bytes));
  set("ind_wr_buffer_size", std::to_string(settings.write_sieve_bytes));
  set("ferry_node_merge", settings.node_merge ? "enable" : "disable");
  if (settings.write_method == settings.read_method) {
    set("ferry_method", name_of(settings.write_method));
  }
  return info;
}

}  // namespace ferry::collective
