// Layouts of PVFS2: a file's from its attributes, a folder's from the hints that the library reads
// for new files.
#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <span>
#include <string_view>

#include <sys/stat.h>

#include "storage/pvfs2/call.hpp"

namespace ferry::storage {
namespace {

// The attribute that has the distribution of a file as it travels between client and servers.
constexpr const char* file_distribution_name = "system.pvfs2.md";
constexpr const char* count_name = "user.pvfs2.num_dfiles";
constexpr const char* distribution_name = "user.pvfs2.dist_name";
constexpr const char* settings_name = "user.pvfs2.dist_params";

// From "strip_size:65536\n"; 0 if it has none.
std::uint64_t strip_bytes_of(std::string_view settings) {
  constexpr std::string_view name = "strip_size:";
  const std::size_t at = settings.find(name);
  if (at == std::string_view::npos) return 0;
  settings.remove_prefix(at + name.size());
  std::uint64_t bytes = 0;
  std::from_chars(settings.data(), settings.data() + settings.size(), bytes);
  return bytes;
}

// From an encoded distribution: the length of its name, the name, and from the next multiple of
// eight bytes on its settings. 0 for another one.
std::uint64_t strip_bytes_of_encoded(std::span<const char> encoded) {
  constexpr std::string_view name = "simple_stripe";
  constexpr std::size_t settings_at = 24;
  std::uint32_t length = 0;
  std::uint64_t bytes = 0;
  if (encoded.size() < settings_at + sizeof bytes) return 0;
  std::memcpy(&length, encoded.data(), sizeof length);
  if (length != name.size()) return 0;
  if (std::string_view(encoded.data() + sizeof length, name.size()) != name) return 0;
  std::memcpy(&bytes, encoded.data() + settings_at, sizeof bytes);
  return bytes;
}

}  // namespace

int Pvfs2Call::layout_of(const pvfs2::Reference& reference, Layout& layout) {
  bool is_folder = false;
  int error = ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Attributes found;
    const int result = library.getattr(reference, pvfs2::mask_all, who, &found, nullptr);
    if (result != 0) return result;
    is_folder = found.type == pvfs2::type_directory;
    layout = Layout{};
    if (found.data_files > 0) layout.stripe_count = static_cast<std::uint32_t>(found.data_files);
    library.release_attributes(&found);
    return 0;
  });
  if (error != 0) return error;
  if (is_folder) return layout_of_folder(reference, layout);
  std::string distribution;
  error = get_value(reference, file_distribution_name, distribution);
  layout.stripe_bytes = strip_bytes_of_encoded(distribution);
  return error;
}

int Pvfs2Call::layout_of_folder(const pvfs2::Reference& reference, Layout& layout) {
  std::string count;
  std::string settings;
  if (const int error = get_value(reference, count_name, count); error != 0) return error;
  if (const int error = get_value(reference, settings_name, settings); error != 0) return error;
  std::from_chars(count.data(), count.data() + count.size(), layout.stripe_count);
  layout.stripe_bytes = strip_bytes_of(settings);
  return 0;
}

int Pvfs2Call::set_layout(const pvfs2::Reference& reference) {
  const Layout fitted = fitted_to_pvfs2(layout_);
  Status status;
  if (const int error = status_of(reference, status); error != 0) return error;
  if (!S_ISDIR(status.mode)) return -ENOTDIR;
  if (fitted.stripe_count > 0) {
    const int error = set_value(reference, count_name, std::to_string(fitted.stripe_count));
    if (error != 0) return error;
  }
  if (fitted.stripe_bytes == 0) return 0;
  if (const int error = set_value(reference, distribution_name, "simple_stripe"); error != 0)
    return error;
  return set_value(reference, settings_name, "strip_size:" + std::to_string(fitted.stripe_bytes));
}

// Empty where it is not set.
int Pvfs2Call::get_value(const pvfs2::Reference& reference, const char* name, std::string& value) {
  std::array<char, 1024> found{};
  std::int32_t bytes = 0;
  std::string key = name;
  const int error = ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Value key_bytes{key.data(), static_cast<std::int32_t>(key.size() + 1), 0};
    pvfs2::Value got{found.data(), static_cast<std::int32_t>(found.size()), 0};
    const int result = library.geteattr(reference, who, &key_bytes, &got, nullptr);
    bytes = std::clamp(got.size, 0, got.room);
    return result;
  });
  if (error == 0) value.assign(found.data(), static_cast<std::size_t>(bytes));
  return error == -ENODATA || error == -ENOENT ? 0 : error;
}

int Pvfs2Call::set_value(const pvfs2::Reference& reference, const char* name,
                         const std::string& text) {
  std::string key = name;
  std::string value = text;
  return ask([&](const Pvfs2Library& library, const pvfs2::Credential* who) {
    pvfs2::Value key_bytes{key.data(), static_cast<std::int32_t>(key.size() + 1), 0};
    pvfs2::Value bytes{value.data(), static_cast<std::int32_t>(value.size() + 1), 0};
    return library.seteattr(reference, who, &key_bytes, &bytes, 0, nullptr);
  });
}

}  // namespace ferry::storage
