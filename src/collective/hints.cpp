#include "collective/hints.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <string_view>

#include "collective/mpiio.hpp"
#include "runtime/tuning.hpp"
#include "storage/uri.hpp"

namespace ferry::collective {
namespace {

constexpr std::int64_t buffer_bytes_max = 1 << 30;
constexpr std::int64_t alignment_bytes_max = 256 << 20;
constexpr int stripe_count_max = 1 << 16;

// MPI libraries know them; method mpiio passes them on, and nothing here uses them.
constexpr std::array<std::string_view, 8> passed_on{
    "access_style",      "cb_block_size",  "cb_config_list",        "nb_proc",
    "romio_no_indep_rw", "start_iodevice", "romio_lustre_co_ratio", mpiio_hint};

// The names of an enumeration's values. name_of() is by value.
constexpr std::array methods{"automatic", "independent", "serial", "aggregate", "mpiio"};
constexpr std::array choices{"automatic", "enable", "disable"};
constexpr std::array switches{"disable", "enable"};
// What ROMIO calls them: some methods have no name there.
constexpr std::array collective_buffering{"automatic", "disable", "", "enable", ""};

template <class Value>
bool take_name(const auto& names, std::string_view text, Value& value) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (text.empty() || found == names.end()) return false;
  value = static_cast<Value>(found - names.begin());
  return true;
}

// A hint: takes a valid value, and shows the one in force; empty: none is.
struct Hint {
  const char* name;
  std::function<bool(std::string_view, Settings&)> take;
  std::function<std::string(const Settings&)> show;
};

template <class Number>
Hint number(const char* name, Number Settings::*member, std::int64_t maximum, bool is_shown_at_0) {
  return {name,
          [=](std::string_view text, Settings& settings) {
            Number value = 0;
            const char* const last = text.data() + text.size();
            const auto [end, error] = std::from_chars(text.data(), last, value);
            const bool is_right =
                error == std::errc() && end == last && value >= 1 && value <= maximum;
            if (is_right) settings.*member = value;
            return is_right;
          },
          [=](const Settings& settings) {
            const Number value = settings.*member;
            return value == 0 && !is_shown_at_0 ? "" : std::to_string(value);
          }};
}

template <class Value>
Hint choice(const char* name, Value Settings::*member, const auto& names) {
  return {name,
          [=](std::string_view text, Settings& settings) {
            return take_name(names, text, settings.*member);
          },
          [=](const Settings& settings) {
            const std::string text = names[static_cast<std::size_t>(settings.*member)];
            return text.empty() ? "automatic" : text;
          }};
}

const std::vector<Hint>& all_hints() {
  static const std::vector<Hint> hints{
      number("cb_nodes", &Settings::writers, 1 << 30, true),
      number("cb_buffer_size", &Settings::buffer_bytes, buffer_bytes_max, true),
      number("striping_unit", &Settings::alignment_bytes, alignment_bytes_max, true),
      number("striping_factor", &Settings::stripe_count, stripe_count_max, false),
      choice("romio_cb_write", &Settings::write_method, collective_buffering),
      choice("romio_cb_read", &Settings::read_method, collective_buffering),
      choice("ferry_write_out", &Settings::write_out, choices),
      choice("romio_ds_read", &Settings::read_sieving, choices),
      choice("romio_ds_write", &Settings::write_sieving, choices),
      number("ind_rd_buffer_size", &Settings::read_sieve_bytes, buffer_bytes_max, true),
      number("ind_wr_buffer_size", &Settings::write_sieve_bytes, buffer_bytes_max, true),
      choice("ferry_node_merge", &Settings::node_merge, switches),
      {"ferry_method",
       [](std::string_view text, Settings& settings) {
         if (!take_name(methods, text, settings.write_method)) return false;
         settings.read_method = settings.write_method;
         return true;
       },
       [](const Settings& settings) -> std::string {
         return settings.write_method == settings.read_method ? name_of(settings.write_method) : "";
       }},
  };
  return hints;
}

// A line for a hint that is unknown or invalid; empty: it is taken.
std::string take(const std::string& name, const std::string& value, Settings& settings) {
  const auto& hints = all_hints();
  const auto hint =
      std::find_if(hints.begin(), hints.end(), [&](const Hint& one) { return one.name == name; });
  if (hint != hints.end()) {
    if (hint->take(value, settings)) return "";
    return "hint " + name + " is ignored: \"" + value +
           "\" is no value for it; docs/reference/hints.md lists them";
  }
  if (std::find(passed_on.begin(), passed_on.end(), name) != passed_on.end()) return "";
  return "hint " + name + " is not known; docs/reference/hints.md lists those that are";
}

}  // namespace

const char* name_of(Method method) {
  return methods.at(static_cast<std::size_t>(method));
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
  for (const auto& [name, value] : options.default_hints) {
    if (has_hint(options.hints, name)) continue;
    const std::string warning = take(name, value, settings);
    if (!warning.empty()) warnings.push_back(warning);
  }
  int count = 0;
  if (options.hints != MPI_INFO_NULL) MPI_Info_get_nkeys(options.hints, &count);
  for (int i = 0; i < count; ++i) {
    std::array<char, MPI_MAX_INFO_KEY + 1> name{};
    MPI_Info_get_nthkey(options.hints, i, name.data());
    std::array<char, MPI_MAX_INFO_VAL + 1> value{};
    int found = 0;
    MPI_Info_get(options.hints, name.data(), MPI_MAX_INFO_VAL, value.data(), &found);
    const std::string warning = take(name.data(), value.data(), settings);
    if (!warning.empty()) warnings.push_back(warning);
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

std::vector<std::string> hint_names() {
  std::vector<std::string> names{mpiio_hint};
  for (const Hint& hint : all_hints())
    names.emplace_back(hint.name);
  return names;
}

bool has_hint(MPI_Info info, const std::string& name) {
  if (info == MPI_INFO_NULL || name.size() > MPI_MAX_INFO_KEY) return false;
  int bytes = 0;
  int found = 0;
  MPI_Info_get_valuelen(info, name.c_str(), &bytes, &found);
  return found != 0;
}

bool is_value_of(const std::string& name, const std::string& value) {
  if (name == mpiio_hint) return value == switches[0] || value == switches[1];
  Settings settings;
  return take(name, value, settings).empty();
}

MPI_Info hints_of(const Settings& settings) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  for (const Hint& hint : all_hints())
    if (const std::string value = hint.show(settings); !value.empty())
      MPI_Info_set(info, hint.name, value.c_str());
  return info;
}

}  // namespace ferry::collective
