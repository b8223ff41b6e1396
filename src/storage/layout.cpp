#include "storage/layout.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace ferry::storage {
namespace {

constexpr std::uint64_t ceph_step_bytes = 64 << 10;
// The library takes an int.
constexpr std::uint64_t ceph_bytes_max = std::numeric_limits<std::int32_t>::max();

constexpr std::uint64_t lustre_step_bytes = 64 << 10;
constexpr std::uint64_t lustre_bytes_max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t lustre_count_max = 2000;
constexpr std::int32_t lustre_server_max = 0xfffe;  // 0xffff: any
constexpr std::size_t lustre_pool_name_max = 15;
constexpr std::uint32_t pvfs2_count_max = 1024;
constexpr std::uint64_t pvfs2_bytes_max = std::numeric_limits<std::int64_t>::max();

// The largest multiple of `step` up to `bytes` and `most`; 0 if there is none.
std::uint64_t rounded_bytes(std::uint64_t bytes, std::uint64_t step, std::uint64_t most) {
  return std::min(bytes, most) / step * step;
}

std::uint64_t fitted_bytes(std::uint64_t bytes, std::uint64_t step, bool at_most) {
  const std::uint64_t fits = rounded_bytes(bytes, step, ceph_bytes_max);
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
    "multiples of the stripe size, the pool is a data pool of the file system, the first server "
    "cannot be chosen, and a file has one layout all along, not parts";

Layout fitted_to_ceph(Layout asked) {
  const bool knows_all = asked.extras.empty() ||
                         (asked.extras.size() == 1 && asked.extras.count(object_bytes_name) == 1);
  if (!asked.at_most && (asked.first_server >= 0 || !knows_all || !asked.parts.empty())) {
    throw std::invalid_argument(ceph_layout_rules);
  }
  asked.first_server = -1;
  asked.parts.clear();
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

const char* const lustre_layout_rules =
    "in Lustre stripe sizes are multiples of 64 KiB below 4 GiB, the stripe count is at most 2000 "
    "and, without overstriping, at most the number of OSTs, the pool and the first server are ones "
    "of the file system, there is no object size, and parts follow each other to the end of the "
    "file, each up to a multiple of 64 KiB and of its stripe size";

namespace {

void refuse_if(bool wrong) {
  if (wrong) throw std::invalid_argument(lustre_layout_rules);
}

// One part is a layout without parts.
Layout fitted_parts_to_lustre(const Layout& asked) {
  std::vector<LayoutPart> parts;
  std::uint64_t asked_begin = 0;
  std::uint64_t begin = 0;
  for (const LayoutPart& part : asked.parts) {
    refuse_if(part.begin_bytes != 0 && part.begin_bytes != asked_begin);
    asked_begin = part.end_bytes;
    Layout one = as_layout(part);
    one.at_most = asked.at_most;
    one = fitted_to_lustre(one);
    std::uint64_t end = part.end_bytes;
    refuse_if((end == to_the_end) != (&part == &asked.parts.back()));
    if (end != to_the_end) {
      end = rounded_bytes(end, std::max(lustre_step_bytes, one.stripe_bytes), end);
      refuse_if(end <= begin || (end != part.end_bytes && !asked.at_most));
    }
    parts.push_back(as_part(one, begin, end));
    begin = end;
  }
  Layout fitted = as_layout(parts.front());
  fitted.at_most = asked.at_most;
  if (parts.size() > 1) fitted.parts = std::move(parts);
  return fitted;
}

}  // namespace

Layout fitted_to_lustre(Layout asked) {
  if (!asked.parts.empty()) {
    Layout above = asked;
    above.parts.clear();
    refuse_if(!grants(as_layout(asked.parts.front()), above));
    return fitted_parts_to_lustre(asked);
  }
  const std::size_t unknown = std::erase_if(asked.extras, [](const auto& extra) {
    return extra.first != overstriping_name && extra.first != all_servers_name;
  });
  refuse_if(asked.stripe_count > 0 && has_extra(asked, all_servers_name));
  refuse_if(unknown > 0 && !asked.at_most);
  if (asked.stripe_bytes > 0) {
    const std::uint64_t fits =
        rounded_bytes(asked.stripe_bytes, lustre_step_bytes, lustre_bytes_max);
    refuse_if(fits == 0 || (fits != asked.stripe_bytes && !asked.at_most));
    asked.stripe_bytes = fits;
  }
  refuse_if(asked.stripe_count > lustre_count_max && !asked.at_most);
  asked.stripe_count = std::min(asked.stripe_count, lustre_count_max);
  refuse_if(asked.pool.size() > lustre_pool_name_max || asked.first_server > lustre_server_max);
  return asked;
}

const char* const pvfs2_layout_rules =
    "in PVFS2 the stripe size is that of the distribution simple_stripe, the stripe count is that "
    "of the data files, at most 1024 and the number of servers, and there are no pools, object "
    "sizes, parts or first servers to choose";

Layout fitted_to_pvfs2(Layout asked) {
  const bool knows_all = asked.extras.empty() && asked.parts.empty() && asked.pool.empty() &&
                         asked.first_server < 0 && asked.stripe_count <= pvfs2_count_max &&
                         asked.stripe_bytes <= pvfs2_bytes_max;
  if (!knows_all && !asked.at_most) throw std::invalid_argument(pvfs2_layout_rules);
  asked.extras.clear();
  asked.parts.clear();
  asked.pool.clear();
  asked.first_server = -1;
  asked.stripe_count = std::min(asked.stripe_count, pvfs2_count_max);
  asked.stripe_bytes = std::min(asked.stripe_bytes, pvfs2_bytes_max);
  return asked;
}

bool has_extra(const Layout& layout, const char* name) {
  const auto found = layout.extras.find(name);
  return found != layout.extras.end() && found->second > 0;
}

Layout as_layout(const LayoutPart& part) {
  Layout layout;
  layout.stripe_bytes = part.stripe_bytes;
  layout.stripe_count = part.stripe_count;
  layout.first_server = part.first_server;
  layout.pool = part.pool;
  if (part.overstriping) layout.extras[overstriping_name] = 1;
  if (part.all_servers) layout.extras[all_servers_name] = 1;
  if (part.metadata_server) layout.extras[metadata_server_name] = 1;
  if (part.foreign) layout.extras[foreign_name] = 1;
  if (part.extension_bytes > 0) layout.extras[extension_bytes_name] = part.extension_bytes;
  if (part.mirror > 0) layout.extras[mirror_name] = part.mirror;
  return layout;
}

LayoutPart as_part(const Layout& layout, std::uint64_t begin_bytes, std::uint64_t end_bytes) {
  const auto extra = [&](const char* name) {
    const auto found = layout.extras.find(name);
    return found == layout.extras.end() ? 0 : found->second;
  };
  return {begin_bytes,
          end_bytes,
          layout.stripe_bytes,
          layout.stripe_count,
          layout.first_server,
          layout.pool,
          has_extra(layout, overstriping_name),
          has_extra(layout, all_servers_name),
          has_extra(layout, metadata_server_name),
          has_extra(layout, foreign_name),
          extra(extension_bytes_name),
          static_cast<std::uint32_t>(extra(mirror_name))};
}

namespace {

bool grants_part(const LayoutPart& granted, LayoutPart asked) {
  if (granted.begin_bytes > 0 && granted.first_server < 0) asked.first_server = -1;
  return granted.end_bytes == asked.end_bytes && grants(as_layout(granted), as_layout(asked));
}

}  // namespace

bool grants(const Layout& granted, const Layout& asked) {
  const auto grants_extra = [&](const auto& extra) {
    const auto found = granted.extras.find(extra.first);
    // Of all servers, a file reports their number; and it reports overstriping only if one server
    // has several of its stripes.
    return extra.second == 0 || extra.first == all_servers_name ||
           extra.first == overstriping_name ||
           (found != granted.extras.end() && found->second == extra.second);
  };
  const bool grants_parts =
      asked.parts.empty() || std::equal(granted.parts.begin(), granted.parts.end(),
                                        asked.parts.begin(), asked.parts.end(), grants_part);
  return (asked.stripe_bytes == 0 || granted.stripe_bytes == asked.stripe_bytes) &&
         (asked.stripe_count == 0 || granted.stripe_count == asked.stripe_count) &&
         (asked.first_server < 0 || granted.first_server == asked.first_server) &&
         (asked.pool.empty() || granted.pool == asked.pool) &&
         std::all_of(asked.extras.begin(), asked.extras.end(), grants_extra) && grants_parts;
}

namespace {

// Whether a layout states the number of servers.
bool has_count(const Layout& layout) {
  return layout.stripe_count > 0 || has_extra(layout, all_servers_name);
}

// The options of lfs setstripe for one part. Omits what is left to Lustre: -S 0 and -c 0 are
// refused.
std::string lustre_options(const Layout& layout, const Layout& before) {
  std::string options;
  if (layout.stripe_bytes > 0) options += " -S " + std::to_string(layout.stripe_bytes);
  const bool all = has_extra(layout, all_servers_name);
  if (has_count(layout)) {
    options += has_extra(layout, overstriping_name) ? " -C " : " -c ";
    options += all ? "-1" : std::to_string(layout.stripe_count);
  }
  if (layout.first_server >= 0) options += " -i " + std::to_string(layout.first_server);
  if (!layout.pool.empty()) options += " -p " + quoted(layout.pool);
  if (layout.pool.empty() && !before.pool.empty()) options += " -p ignore";
  return options;
}

}  // namespace

std::string lustre_command(const Layout& layout, const std::string& path) {
  std::string command = "lfs setstripe";
  if (layout.parts.empty()) command += lustre_options(layout, Layout{});
  Layout before;
  for (const LayoutPart& part : layout.parts) {
    const Layout one = as_layout(part);
    command += " -E " + (part.end_bytes == to_the_end ? "-1" : std::to_string(part.end_bytes));
    command += lustre_options(one, before);
    before = one;
  }
  return command + " " + quoted(path);
}

std::string lustre_command_note(const Layout& layout) {
  std::string note;
  Layout so_far;
  for (std::size_t i = 0; i < layout.parts.size(); ++i) {
    const Layout one = as_layout(layout.parts[i]);
    const auto inherits = [&](bool is_given, bool was_given, const char* what) {
      if (is_given || !was_given) return;
      note += (note.empty() ? "" : ", ") + std::string(what) + " of part " + std::to_string(i + 1);
    };
    inherits(one.stripe_bytes > 0, so_far.stripe_bytes > 0, "the stripe size");
    inherits(has_count(one), has_count(so_far), "the stripe count");
    if (one.stripe_bytes > 0) so_far.stripe_bytes = one.stripe_bytes;
    if (has_count(one)) so_far.stripe_count = 1;
  }
  if (note.empty()) return "";
  return "lfs takes from the part before it what is left to Lustre here: " + note;
}

}  // namespace ferry::storage
