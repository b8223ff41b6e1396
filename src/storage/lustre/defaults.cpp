#include "storage/lustre/defaults.hpp"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

struct Defaults {
  std::optional<std::int64_t> stripe_bytes;
  std::optional<std::int64_t> stripe_count;  // -1: all servers
};

std::optional<std::int64_t> number_in(const fs::path& path) {
  std::int64_t value = 0;
  if (std::ifstream(path) >> value) return value;
  return std::nullopt;
}

// A client has one folder for each file system: its name, a dash and more.
Defaults defaults_of(const std::vector<std::string>& folders, const std::string& name) {
  Defaults found;
  for (const std::string& folder : folders) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
      if (entry.path().filename().string().rfind(name + "-", 0) != 0) continue;
      if (!found.stripe_bytes) found.stripe_bytes = number_in(entry.path() / "stripesize");
      if (!found.stripe_count) found.stripe_count = number_in(entry.path() / "stripecount");
    }
  }
  return found;
}

bool has_stripes(const Layout& layout) {
  return !has_extra(layout, metadata_server_name) && !has_extra(layout, foreign_name) &&
         !has_extra(layout, extension_bytes_name);
}

void fill_in(const Defaults& defaults, Layout& layout) {
  if (!has_stripes(layout)) return;
  if (layout.stripe_bytes == 0 && defaults.stripe_bytes.value_or(0) > 0)
    layout.stripe_bytes = static_cast<std::uint64_t>(*defaults.stripe_bytes);
  if (layout.stripe_count > 0 || has_extra(layout, all_servers_name)) return;
  const std::int64_t count = defaults.stripe_count.value_or(0);
  if (count > 0) layout.stripe_count = static_cast<std::uint32_t>(count);
  if (count < 0) layout.extras[all_servers_name] = 1;
}

}  // namespace

std::string lustre_name(const std::string& source) {
  const std::size_t colon = source.rfind(":/");
  if (colon == std::string::npos) return "";
  const std::size_t begin = colon + 2;
  return source.substr(begin, source.find('/', begin) - begin);
}

void fill_in_lustre_defaults(const std::vector<std::string>& folders, const std::string& name,
                             Layout& layout) {
  if (name.empty()) return;
  const Defaults defaults = defaults_of(folders, name);
  fill_in(defaults, layout);
  for (LayoutPart& part : layout.parts) {
    Layout one = as_layout(part);
    fill_in(defaults, one);
    part = as_part(one, part.begin_bytes, part.end_bytes);
  }
}

}  // namespace ferry::storage
