#include "storage/layout.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ferry::storage {
namespace {

constexpr std::uint64_t ceph_step_bytes = 64 << 10;
// The library takes an int.
constexpr std::uint64_t ceph_bytes_max = std::numeric_limits<std::int32_t>::max();

// The multiple of `step` next below `bytes`.
std::uint64_t fitted_bytes(std::uint64_t bytes, std::uint64_t step, bool at_most) {
  const std::uint64_t fits = std::min(bytes, ceph_bytes_max) / step * step;
  if (fits == bytes) return bytes;
  if (!at_most || fits == 0) throw std::invalid_argument(ceph_layout_rules);
  return fits;
}

// As the shell takes it for one word.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word)
    text += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  return text + "'";
}

}  // namespace

const char* const ceph_layout_rules =
    "in CephFS stripe and object sizes are multiples of 64 KiB below 2 GiB, object sizes are "
    "multiples of the stripe size, the pool is a data pool of the file system, and the first "
    "server "
    "cannot be chosen";

Layout fitted_to_ceph(Layout asked) {
  const bool knows_all = asked.extras.empty() ||
                         (asked.extras.size() == 1 && asked.extras.count(object_bytes_name) == 1);
  if (!asked.at_most && (asked.first_server >= 0 || !knows_all)) {
    throw std::invalid_argument(ceph_layout_rules);
  }
  asked.first_server = -1;
  std::erase_if(asked.extras, [](const auto& extra) {
    return extra.first != object_bytes_name || extra.second == 0;
  });
  if (asked.stripe_bytes > 0) {
    asked.stripe_bytes = fitted_bytes(asked.stripe_bytes, ceph_step_bytes, asked.at_most);
  }
  if (const auto object = asked.extras.find(object_bytes_name); object != asked.extras.end()) {
    object->second = fitted_bytes(object->second, ceph_step_bytes, asked.at_most);
    if (asked.at_most) asked.stripe_bytes = std::min(asked.stripe_bytes, object->second);
    if (asked.stripe_bytes > 0) {
      object->second = fitted_bytes(object->second, asked.stripe_bytes, asked.at_most);
    }
  }
  if (asked.stripe_count > ceph_bytes_max) throw std::invalid_argument(ceph_layout_rules);
  return asked;
}

std::string ceph_layout_text(const Layout& layout) {
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
  };
  if (layout.stripe_bytes > 0) add("stripe_unit", std::to_string(layout.stripe_bytes));
  if (layout.stripe_count > 0) add("stripe_count", std::to_string(layout.stripe_count));
  if (const auto object = layout.extras.find(object_bytes_name); object != layout.extras.end()) {
    add("object_size", std::to_string(object->second));
  }
  if (!layout.pool.empty()) add("pool", layout.pool);
  return text;
}

std::string lustre_command(const Layout& layout, const std::string& path) {
  std::string command = "lfs setstripe";
  if (layout.stripe_bytes > 0) command += " -S " + std::to_string(layout.stripe_bytes);
  if (layout.stripe_count > 0) command += " -c " + std::to_string(layout.stripe_count);
  if (layout.first_server >= 0) command += " -i " + std::to_string(layout.first_server);
  if (!layout.pool.empty()) command += " -p " + quoted(layout.pool);
  return command + " " + quoted(path);
}

}  // namespace ferry::storage
