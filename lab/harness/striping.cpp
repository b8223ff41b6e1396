#include "harness/striping.hpp"

#include <cerrno>
#include <memory>

#include <fcntl.h>

#include "programs/stored_file.hpp"

namespace ferry::bench {

using storage::checked;

void make_striped(const Cell& cell, const std::string& path) {
  storage::Layout layout;
  layout.stripe_bytes = cell.stripe_bytes;
  layout.stripe_count = cell.stripe_count;
  const std::shared_ptr<storage::Storage> clients = side_storage();
  storage::SyncFile file(*clients);
  checked(file.open(path, O_RDWR | O_CREAT | O_EXCL, 0600, &layout),
          "making " + path + " with its stripes");
  checked(file.close(), "closing " + path);
}

std::optional<storage::Layout> layout_of(const std::string& path) {
  const std::shared_ptr<storage::Storage> clients = side_storage();
  storage::SyncCalls calls(*clients);
  storage::Layout layout;
  const std::int64_t result =
      calls.run({.kind = storage::Kind::path_layout, .path = path.c_str(), .layout = &layout});
  if (result == -EOPNOTSUPP) return std::nullopt;
  checked(result, "the layout of " + path);
  return layout;
}

}  // namespace ferry::bench
