#include "storage/lustre/attribute.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>

namespace ferry::storage {
namespace {

// All in the byte order of the machine, as the client hands them out and takes them.
constexpr std::uint32_t magic_plain = 0x0BD10BD0;
constexpr std::uint32_t magic_with_pool = 0x0BD30BD0;
constexpr std::uint32_t magic_with_pool_and_servers = 0x0BD50BD0;
constexpr std::uint32_t magic_composite = 0x0BD60BD0;
constexpr std::uint32_t magic_foreign = 0x0BD70BD0;
constexpr std::uint32_t pattern_raid0 = 1;
constexpr std::uint32_t pattern_metadata_server = 0x100;
constexpr std::uint32_t pattern_overstriping = 0x200;
constexpr std::uint32_t pattern_released = 0x80000000;  // its bytes are in an archive
constexpr std::uint32_t component_extension = 0x40;
constexpr std::uint64_t extension_step_bytes = 1024;
constexpr std::uint16_t any_server = 0xffff;
constexpr std::uint16_t all_servers = 0xffff;
constexpr std::uint16_t all_servers_often = 0xffe0;  // from here on, several times

struct [[gnu::packed]] Stripes {
  std::uint32_t magic;
  std::uint32_t pattern;
  std::uint64_t object[2];
  std::uint32_t stripe_bytes;
  std::uint16_t stripe_count;
  std::uint16_t first_server;  // of a file: something else
};
static_assert(sizeof(Stripes) == 32);
constexpr std::size_t pool_name_bytes = 16;  // follows it, where there is one

struct [[gnu::packed]] StripeObject {
  std::uint64_t object[2];
  std::uint32_t generation;
  std::uint32_t server;
};
static_assert(sizeof(StripeObject) == 24);

struct [[gnu::packed]] Composite {
  std::uint32_t magic;
  std::uint32_t bytes;
  std::uint32_t generation;
  std::uint16_t flags;
  std::uint16_t count;
  std::uint8_t rest[16];
};
static_assert(sizeof(Composite) == 32);

struct [[gnu::packed]] Component {
  std::uint32_t number;
  std::uint32_t flags;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t offset;
  std::uint32_t bytes;
  std::uint8_t rest[16];
};
static_assert(sizeof(Component) == 48);

template <class Record>
bool read_at(std::span<const std::byte> bytes, std::size_t offset, Record& record) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof record) return false;
  std::memcpy(&record, bytes.data() + offset, sizeof record);
  return true;
}

void read_count(const Stripes& stripes, Layout& layout) {
  if (stripes.stripe_count < all_servers_often) {
    layout.stripe_count = stripes.stripe_count;
    return;
  }
  layout.extras[all_servers_name] = 1;
  if (stripes.stripe_count != all_servers) layout.extras[overstriping_name] = 1;
}

// `objects`: the offset of the list of the file's servers.
void read_first_server(std::span<const std::byte> bytes, const Stripes& stripes,
                       std::size_t objects, bool is_directory, Layout& layout) {
  StripeObject first{};
  const bool has_objects =
      (stripes.pattern & pattern_released) == 0 && read_at(bytes, objects, first);
  if (has_objects) layout.first_server = static_cast<std::int32_t>(first.server);
  if (!has_objects && is_directory && stripes.first_server != any_server)
    layout.first_server = stripes.first_server;
}

// One that is not composite.
bool read_stripes(std::span<const std::byte> bytes, bool is_directory, Layout& layout) {
  std::uint32_t magic = 0;
  if (!read_at(bytes, 0, magic)) return false;
  if (magic == magic_foreign) {
    layout.extras[foreign_name] = 1;
    return true;
  }
  Stripes stripes{};
  if (!read_at(bytes, 0, stripes)) return false;
  const bool has_pool = magic == magic_with_pool || magic == magic_with_pool_and_servers;
  if (!has_pool && magic != magic_plain) return false;
  std::size_t objects = sizeof stripes;
  if (has_pool) {
    char name[pool_name_bytes] = {};
    if (!read_at(bytes, objects, name)) return false;
    layout.pool.assign(name, strnlen(name, sizeof name));
    objects += sizeof name;
  }
  if ((stripes.pattern & pattern_metadata_server) != 0) {
    layout.extras[metadata_server_name] = 1;
    return true;
  }
  layout.stripe_bytes = stripes.stripe_bytes;
  read_count(stripes, layout);
  if ((stripes.pattern & pattern_overstriping) != 0) layout.extras[overstriping_name] = 1;
  read_first_server(bytes, stripes, objects, is_directory, layout);
  return true;
}

// Space to grow has the size of its steps in place of a stripe size, and no servers.
Layout extension(const Layout& read) {
  Layout layout;
  layout.extras[extension_bytes_name] = read.stripe_bytes * extension_step_bytes;
  return layout;
}

bool read_component(std::span<const std::byte> bytes, const Component& component, bool is_directory,
                    Layout& layout) {
  if (component.offset > bytes.size() || component.bytes > bytes.size() - component.offset)
    return false;
  if (!read_stripes(bytes.subspan(component.offset, component.bytes), is_directory, layout))
    return false;
  if ((component.flags & component_extension) != 0) layout = extension(layout);
  return true;
}

// A mirror begins with each component that begins the file.
void number_mirrors(Layout& layout) {
  std::uint32_t mirrors = 0;
  for (LayoutPart& part : layout.parts) {
    if (part.begin_bytes == 0) ++mirrors;
    part.mirror = mirrors;
  }
  if (mirrors > 1) {
    layout.extras[mirrors_name] = mirrors;
    return;
  }
  for (LayoutPart& part : layout.parts)
    part.mirror = 0;
}

bool read_composite(std::span<const std::byte> bytes, bool is_directory, Layout& layout) {
  Composite head{};
  if (!read_at(bytes, 0, head) || head.count == 0) return false;
  std::vector<LayoutPart> parts;
  for (std::size_t i = 0; i < head.count; ++i) {
    Component component{};
    if (!read_at(bytes, sizeof head + i * sizeof component, component)) return false;
    Layout part;
    if (!read_component(bytes, component, is_directory, part)) return false;
    parts.push_back(as_part(part, component.begin, component.end));
  }
  layout = as_layout(parts.front());
  if (parts.size() == 1 && parts.front().end_bytes == to_the_end) return true;
  layout.parts = std::move(parts);
  number_mirrors(layout);
  return true;
}

}  // namespace

int layout_of_attribute(std::span<const std::byte> attribute, bool is_directory, Layout& layout) {
  std::uint32_t magic = 0;
  Layout found;
  if (!read_at(attribute, 0, magic)) return -EIO;
  const bool understood = magic == magic_composite ? read_composite(attribute, is_directory, found)
                                                   : read_stripes(attribute, is_directory, found);
  if (!understood) return -EIO;
  layout = std::move(found);
  return 0;
}

std::vector<std::byte> stripes_request(const Layout& layout) {
  Stripes stripes{};
  stripes.magic = layout.pool.empty() ? magic_plain : magic_with_pool;
  stripes.pattern = pattern_raid0;
  if (has_extra(layout, overstriping_name)) stripes.pattern |= pattern_overstriping;
  stripes.stripe_bytes = static_cast<std::uint32_t>(layout.stripe_bytes);
  stripes.stripe_count = has_extra(layout, all_servers_name)
                             ? all_servers
                             : static_cast<std::uint16_t>(layout.stripe_count);
  stripes.first_server =
      layout.first_server < 0 ? any_server : static_cast<std::uint16_t>(layout.first_server);
  std::vector<std::byte> request(sizeof stripes + (layout.pool.empty() ? 0 : pool_name_bytes));
  std::memcpy(request.data(), &stripes, sizeof stripes);
  std::memcpy(request.data() + sizeof stripes, layout.pool.data(),
              std::min(layout.pool.size(), pool_name_bytes - 1));
  return request;
}

unsigned long set_stripes_number() {
  return _IOW('f', 154, long);
}

int open_without_layout() {
  return O_NOCTTY | O_ASYNC;
}

}  // namespace ferry::storage
