#include "runtime/profile.hpp"

#include <set>
#include <utility>

namespace ferry {
[[noreturn]] void refuse_toml();
}  // namespace ferry
// Some texts that are no TOML fail toml++'s own assertions.
#define TOML_ASSERT(holds) ((holds) ? static_cast<void>(0) : ferry::refuse_toml())
#include <toml++/toml.h>

#include <ferry/device/cache/layout.hpp>

namespace ferry {

void refuse_toml() {
  throw ProfileError("line unknown: no TOML");
}

namespace {

constexpr const char* schema = "ferry.profile/1";
constexpr std::int64_t threads_max = 4096;
constexpr std::int64_t queue_depth_max = 63;
constexpr std::int64_t readahead_bytes_most = std::int64_t{1} << 30;
constexpr std::int64_t crossover_bytes_most = std::int64_t{1} << 40;
constexpr std::int64_t bypasses_most = 255;
constexpr std::int64_t collective_buffer_bytes_most = std::int64_t{1} << 30;

// One table being read: knows its position, for messages, and the keys used.
class Fields {
 public:
  Fields(const toml::table& table, std::string where) : table_(table), where_(std::move(where)) {}

  std::string text(const char* key) {
    const toml::node* node = find(key);
    if (node == nullptr) return "";
    const auto value = node->value_exact<std::string>();
    if (!value) fail(*node, key, "must be a text");
    return *value;
  }
  std::string required_text(const char* key) {
    std::string found = text(key);
    if (found.empty()) fail(table_, key, "is missing");
    return found;
  }

  std::optional<std::int64_t> number(const char* key, std::int64_t least, std::int64_t most) {
    const toml::node* node = find(key);
    if (node == nullptr) return std::nullopt;
    const auto value = node->value_exact<std::int64_t>();
    if (!value) fail(*node, key, "must be a whole number");
    if (*value < least || *value > most) {
      fail(*node, key, "must be from " + std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
  }
  template <class T>
  void number(const char* key, T& value, std::int64_t least, std::int64_t most) {
    if (const auto found = number(key, least, most)) value = static_cast<T>(*found);
  }
  template <class T>
  void number(const char* key, std::optional<T>& value, std::int64_t least, std::int64_t most) {
    if (const auto found = number(key, least, most)) value = static_cast<T>(*found);
  }

  // A size, or "never".
  void crossover(const char* key, std::uint64_t& bytes) {
    const toml::node* node = find(key);
    if (node == nullptr) return;
    if (node->value_exact<std::string>() == "never") {
      bytes = device::Crossovers::never;
    } else if (!node->is_integer()) {
      fail(*node, key, "must be a number of bytes or \"never\"");
    } else {
      number(key, bytes, 0, crossover_bytes_most);
    }
  }

  const toml::table& table(const char* key) {
    static const toml::table none;
    const toml::node* node = find(key);
    if (node == nullptr) return none;
    if (!node->is_table()) fail(*node, key, "must be a table");
    return *node->as_table();
  }

  // Only people and `ferry tune` read it.
  void ignore(const char* key) { find(key); }

  void refuse_unknown() const {
    for (const auto& [key, node] : table_) {
      if (used_.count(std::string(key.str())) == 0) fail(node, key.str(), "is not known");
    }
  }

  [[noreturn]] void fail(const toml::node& node, std::string_view key,
                         const std::string& what) const {
    throw ProfileError("line " + std::to_string(node.source().begin.line) + ": " + where_ +
                       std::string(key) + " " + what);
  }

 private:
  const toml::node* find(const char* key) {
    used_.insert(key);
    return table_.get(key);
  }

  const toml::table& table_;
  std::string where_;
  std::set<std::string, std::less<>> used_;
};

device::Crossovers read_crossovers(const toml::table& table) {
  Fields fields(table, "crossovers.");
  device::Crossovers crossovers;
  fields.crossover("host_read_bytes_min", crossovers.host_read_bytes_min);
  fields.crossover("host_stream_read_bytes_min", crossovers.host_stream_read_bytes_min);
  fields.crossover("host_write_bytes_min", crossovers.host_write_bytes_min);
  fields.crossover("service_read_bytes_min", crossovers.service_read_bytes_min);
  fields.crossover("service_write_bytes_min", crossovers.service_write_bytes_min);
  fields.number("bypasses_max", crossovers.bypasses_max, 0, bypasses_most);
  fields.refuse_unknown();
  return crossovers;
}

void read_collective(const toml::table& table, StorageProfile& storage) {
  Fields fields(table, "collective.");
  fields.number("writers_per_node", storage.writers_per_node, 1, threads_max);
  fields.number("buffer_bytes", storage.collective_buffer_bytes, 1, collective_buffer_bytes_most);
  fields.refuse_unknown();
}

StorageProfile read_storage(const toml::table& table) {
  Fields fields(table, "");
  StorageProfile storage;
  storage.device = fields.required_text("device");
  storage.measured = fields.required_text("measured");
  storage.name.file_system = fields.required_text("file_system");
  storage.name.block_device = fields.text("block_device");
  fields.number("block_device_bytes", storage.name.block_device_bytes, 0, INT64_MAX);
  storage.name.mount_point = fields.text("mount_point");
  if (storage.name.block_device.empty() && storage.name.mount_point.empty()) {
    fields.fail(table, "block_device", "or mount_point is needed");
  }
  fields.number("page_bytes", storage.page_bytes, device::cache::page_bytes_min,
                device::cache::page_bytes_max);
  if (const std::uint32_t page = storage.page_bytes.value_or(1); (page & (page - 1)) != 0) {
    fields.fail(*table.get("page_bytes"), "page_bytes", "must be a power of two");
  }
  fields.number("readahead_bytes", storage.readahead_bytes, 0, readahead_bytes_most);
  fields.number("server_threads", storage.server_threads, 1, threads_max);
  fields.number("queue_depth", storage.queue_depth, 1, queue_depth_max);
  storage.crossovers = read_crossovers(fields.table("crossovers"));
  read_collective(fields.table("collective"), storage);
  for (const char* key : {"kernel", "ferry_version", "settings", "workloads"})
    fields.ignore(key);
  fields.refuse_unknown();
  return storage;
}

Profile read_document(const toml::table& document) {
  Fields fields(document, "");
  const std::string found = fields.required_text("schema");
  if (found != schema) {
    fields.fail(*document.get("schema"), "schema",
                "is " + found + ", and this version of Ferry reads " + schema);
  }
  Profile profile;
  Fields machine(fields.table("machine"), "machine.");
  profile.cpu_model = machine.text("cpu_model");
  machine.number("cpus_usable", profile.cpus_usable, 1, threads_max);
  machine.refuse_unknown();
  fields.ignore("storages");
  if (const toml::node* storages = document.get("storages")) {
    if (!storages->is_array_of_tables()) fields.fail(*storages, "storages", "must be tables");
    for (const toml::node& storage : *storages->as_array())
      profile.storages.push_back(read_storage(*storage.as_table()));
  }
  fields.refuse_unknown();
  return profile;
}

}  // namespace

Profile parse_profile(std::string_view text) {
  try {
    return read_document(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw ProfileError("line " + std::to_string(error.source().begin.line) +
                       ": no TOML: " + std::string(error.description()));
  }
}

StorageName storage_name(const Mount& mount) {
  StorageName name;
  name.file_system = mount.type;
  name.mount_point = mount.point;
  const std::filesystem::path folder = block_device_folder(mount.device, mount.source);
  if (!folder.empty()) {
    name.block_device = folder.filename().string();
    name.block_device_bytes = block_device_bytes(folder);
  }
  return name;
}

bool is_same_storage(const StorageName& in_profile, const StorageName& here) {
  if (in_profile.file_system != here.file_system) return false;
  if (in_profile.block_device != here.block_device) return false;
  if (in_profile.block_device.empty()) return in_profile.mount_point == here.mount_point;
  return in_profile.block_device_bytes == 0 ||
         in_profile.block_device_bytes == here.block_device_bytes;
}

std::string describe(const StorageName& name) {
  if (!name.block_device.empty()) return name.file_system + " on " + name.block_device;
  return name.file_system + " at " + name.mount_point;
}

}  // namespace ferry
