#include "storage/lustre_attribute.hpp"

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
constexpr std::uint32_t pattern_raid0 = 1;
constexpr std::uint32_t pattern_overstriping = 0x200;
constexpr std::uint16_t any_server = 0xffff;
constexpr std::uint16_t all_servers = 0xffff;

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

// One that is not composite.
bool read_stripes(std::span<const std::byte> bytes, Layout& layout) {
  Stripes stripes{};
  if (!read_at(bytes, 0, stripes)) return false;
  const bool has_pool =
      stripes.magic == magic_with_pool || stripes.magic == magic_with_pool_and_servers;
  if (!has_pool && stripes.magic != magic_plain) return false;
  std::size_t objects = sizeof stripes;
  if (has_pool) {
    char name[pool_name_bytes] = {};
    if (!read_at(bytes, objects, name)) return false;
    layout.pool.assign(name, strnlen(name, sizeof name));
    objects += sizeof name;
  }
  layout.stripe_bytes = stripes.stripe_bytes;
  if (stripes.stripe_count == all_servers) {
    layout.extras[all_servers_name] = 1;
  } else {
    layout.stripe_count = stripes.stripe_count;
  }
  if ((stripes.pattern & pattern_overstriping) != 0) layout.extras[overstriping_name] = 1;
  StripeObject first{};
  if (read_at(bytes, objects, first)) {  // of a file
    layout.first_server = static_cast<std::int32_t>(first.server);
  } else if (stripes.first_server != any_server) {
    layout.first_server = stripes.first_server;
  }
  return true;
}

bool read_composite(std::span<const std::byte> bytes, Layout& layout) {
  Composite head{};
  if (!read_at(bytes, 0, head) || head.count == 0) return false;
  for (std::size_t i = 0; i < head.count; ++i) {
    Component component{};
    if (!read_at(bytes, sizeof head + i * sizeof component, component)) return false;
    if (component.offset > bytes.size() || component.bytes > bytes.size() - component.offset)
      return false;
    Layout part;
    if (!read_stripes(bytes.subspan(component.offset, component.bytes), part)) return false;
    layout.parts.push_back(as_part(part, component.begin, component.end));
    if (i > 0) continue;
    part.parts = std::move(layout.parts);
    layout = std::move(part);
  }
  return true;
}

}  // namespace

int layout_of_attribute(std::span<const std::byte> attribute, Layout& layout) {
  std::uint32_t magic = 0;
  Layout found;
  if (!read_at(attribute, 0, magic)) return -EIO;
  const bool understood =
      magic == magic_composite ? read_composite(attribute, found) : read_stripes(attribute, found);
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
