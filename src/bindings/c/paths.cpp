// Names, layouts, and which storage serves a path.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <ferry.h>
#include <sys/stat.h>

#include <ferry/bulk.hpp>

#include "bindings/c/growing_struct.hpp"
#include "bulk/lanes.hpp"
#include "storage/layout.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace ferry::c {
namespace {

using storage::Kind;
using storage::Layout;

constexpr ferry_layout layout_defaults = FERRY_LAYOUT_INIT;

Layout requested(const ferry_layout& asked) {
  if (std::memchr(asked.pool, 0, sizeof asked.pool) == nullptr) {
    refuse("layout: the name of the pool has no end");
  }
  if (asked.parts > 1) refuse("layout: parts are reported and cannot be requested");
  Layout layout;
  layout.stripe_bytes = asked.stripe_bytes;
  layout.stripe_count = asked.stripe_count;
  layout.first_server = asked.first_server;
  layout.pool = asked.pool;
  layout.at_most = asked.at_most != 0;
  if (asked.object_bytes != 0) layout.extras[storage::object_bytes_name] = asked.object_bytes;
  if (asked.all_servers != 0) layout.extras[storage::all_servers_name] = 1;
  if (asked.overstriping != 0) layout.extras[storage::overstriping_name] = 1;
  return layout;
}

ferry_layout reported(const Layout& granted) {
  ferry_layout layout = layout_defaults;
  layout.stripe_bytes = granted.stripe_bytes;
  layout.stripe_count = granted.stripe_count;
  layout.first_server = granted.first_server;
  const auto extra = [&](const char* name) {
    const auto found = granted.extras.find(name);
    return found != granted.extras.end() ? found->second : 0;
  };
  layout.object_bytes = extra(storage::object_bytes_name);
  layout.all_servers = extra(storage::all_servers_name) != 0 ? 1 : 0;
  layout.overstriping = extra(storage::overstriping_name) != 0 ? 1 : 0;
  layout.parts = static_cast<std::uint32_t>(granted.parts.size());
  std::memcpy(layout.pool, granted.pool.c_str(),
              std::min(granted.pool.size(), sizeof layout.pool - 1));
  return layout;
}

// The storages, for calls on one path.
class PathCalls {
 public:
  explicit PathCalls(const char* path)
      : path_(given(path, "path")), storage_(storage::make_router()), calls_(*storage_) {}

  std::int64_t run(storage::Operation& operation) {
    operation.path = path_.c_str();
    return calls_.run(operation);
  }

  Layout layout() {
    Layout layout;
    storage::Operation operation{.kind = Kind::path_layout, .layout = &layout};
    check(run(operation));
    return layout;
  }

  void set_layout(Layout layout) {
    storage::Operation status{.kind = Kind::path_status};
    const std::int64_t found = run(status);
    if (found < 0 && found != -ENOENT) check(found);
    if (found == 0 && !S_ISDIR(status.status.mode)) {
      refuse(path_ + " exists, and only a new file can get a layout", EEXIST);
    }
    if (found == 0) {
      storage::Operation operation{.kind = Kind::set_layout, .layout = &layout};
      check(run(operation));
      return;
    }
    storage::SyncFile file(calls_);
    check(file.open(path_, O_RDWR | O_CREAT | O_EXCL, 0666, &layout));
    check(file.close());
  }

 private:
  void check(std::int64_t result) {
    if (result >= 0) return;
    if (result == -EOPNOTSUPP) refuse(path_ + ": its storage stripes no files", EOPNOTSUPP);
    if (result == -EINVAL) {
      const std::string rules = storage_->describe_path(path_).layout_rules;
      if (!rules.empty()) refuse(path_ + ": " + rules);
    }
    throw bulk::error_on_path(*storage_, result, path_);
  }

  const std::string path_;
  const std::unique_ptr<storage::Storage> storage_;
  storage::SyncCalls calls_;
};

std::string explain(const char* path) {
  const auto storage = storage::make_router();
  const storage::Description found = storage->describe_path(path);
  std::string text = "storage: " + found.name + "\nengine: " + found.engine + "\n";
  const auto add = [&](const char* label, const std::string& line) {
    text += std::string(label) + ": " + line + "\n";
  };
  for (const std::string& note : found.notes)
    add("note", note);
  if (!found.layout_rules.empty()) add("layouts", found.layout_rules);
  if (!found.problem.empty()) {
    add("problem", found.problem);
    return text;
  }
  try {
    const bulk::Explanation read = bulk::Engine::common().explain(path);
    add("route of large reads", read.route);
    for (const std::string& reason : read.reasons)
      add("reason", reason);
  } catch (const Error& error) {
    add("not read now", error.what());
  }
  return text;
}

}  // namespace
}  // namespace ferry::c

using namespace ferry::c;

int ferry_stat(const char* path, ferry_path_status* status) {
  return guarded([&] {
    given(status, "status");
    const auto found = ferry::bulk::Engine::common().status(given(path, "path"));
    *status = {found.size_bytes, found.modified_ns, found.mode, 0};
    return 0;
  });
}

int ferry_unlink(const char* path) {
  return guarded([&] {
    ferry::bulk::Engine::common().unlink(given(path, "path"));
    return 0;
  });
}

int ferry_rename(const char* from, const char* to) {
  return guarded([&] {
    ferry::bulk::Engine::common().rename(given(from, "from"), given(to, "to"));
    return 0;
  });
}

int ferry_layout_get(const char* path, ferry_layout* layout) {
  return guarded([&] {
    size_of_theirs(layout, "layout");
    write_struct(layout, reported(PathCalls(path).layout()), "layout");
    return 0;
  });
}

int ferry_layout_set(const char* path, const ferry_layout* layout) {
  return guarded([&] {
    const Layout wanted = requested(read_struct(layout, layout_defaults, "layout"));
    PathCalls(path).set_layout(wanted);
    return 0;
  });
}

int64_t ferry_explain(const char* path, char* text, uint64_t text_bytes) {
  return guarded([&] {
    if (text_bytes > 0) given(text, "text");
    const std::string found = explain(given(path, "path"));
    if (text_bytes > 0) {
      const std::uint64_t shown = std::min<std::uint64_t>(found.size(), text_bytes - 1);
      std::memcpy(text, found.data(), shown);
      text[shown] = '\0';
    }
    return static_cast<int64_t>(found.size());
  });
}
