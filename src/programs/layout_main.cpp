// ferry-layout: shows and sets how files are striped. `get PATH`, or `set PATH JSON` with the
// members that layout_facts() reports, and at_most. One JSON object on standard output; exit status
// 0, 1 (failed), 2 (wrong arguments).
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <ferry/error.hpp>

#include "programs/json_lines.hpp"
#include "programs/layout_facts.hpp"
#include "storage/mounted_layout.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;
using storage::Kind;
using storage::Layout;

struct Arguments {
  bool set = false;
  std::string path;
  Layout layout;
};

// A failure, as a line that says what to do.
[[noreturn]] void fail(std::int64_t error, const std::string& line) {
  throw Error(static_cast<int>(-error), line);
}

class Session {
 public:
  explicit Session(const Arguments& arguments)
      : arguments_(arguments), storage_(storage::make_router()), calls_(*storage_) {}

  Json run() {
    const storage::Description description = storage_->describe_path(arguments_.path);
    if (!description.problem.empty()) fail(-EIO, description.problem);
    rules_ = description.layout_rules;
    Json line = {{"type", "layout"}, {"path", arguments_.path}, {"storage", description.name}};
    std::uint32_t mode = 0;
    const bool there = is_there(mode);
    bool made = false;
    if (arguments_.set) {
      made = !S_ISDIR(mode);
      if (made && there) {
        fail(-EEXIST, arguments_.path +
                          " exists, and only a new file can get a layout; name a new file, or a "
                          "directory whose new files get it");
      }
      if (made) {
        make_file();
      } else {
        Layout wanted = arguments_.layout;
        call(Kind::set_layout, wanted);
      }
    } else if (!there) {
      fail(-ENOENT, arguments_.path + ": No such file or directory; name a path that exists");
    }
    Layout granted;
    if (const std::int64_t error = try_call(Kind::path_layout, granted); error < 0) {
      if (made) calls_.run({.kind = Kind::unlink, .path = arguments_.path.c_str()});
      refuse(error);
    }
    line["kind"] = S_ISDIR(mode) ? "directory" : "file";
    line["made"] = made;
    line["layout"] = layout_facts(granted);
    line["reduced"] = reduced_facts(arguments_.layout, granted);
    return line;
  }

 private:
  bool is_there(std::uint32_t& mode) {
    storage::Operation status{.kind = Kind::path_status, .path = arguments_.path.c_str()};
    const std::int64_t result = calls_.run(status);
    if (result < 0 && result != -ENOENT) refuse(result);
    mode = status.status.mode;
    return result == 0;
  }

  std::int64_t try_call(Kind kind, Layout& layout) {
    return calls_.run({.kind = kind, .path = arguments_.path.c_str(), .layout = &layout});
  }

  void call(Kind kind, Layout& layout) {
    if (const std::int64_t result = try_call(kind, layout); result < 0) refuse(result);
  }

  void make_file() {
    Layout layout = arguments_.layout;
    storage::SyncFile file(calls_);
    std::int64_t result = file.open(arguments_.path, O_RDWR | O_CREAT | O_EXCL, 0666, &layout);
    if (result == 0) result = file.close();
    if (result < 0) refuse(result);
  }

  // What to do by hand if Lustre does not show or take layouts here.
  std::string lustre_line() const {
    const std::string refusal =
        "Lustre's kernel client alone cannot " + std::string(arguments_.set ? "set " : "report ") +
        (arguments_.layout.parts.empty() ? "" : "composite ") + "layouts here; run: ";
    if (!arguments_.set) return refusal + "lfs getstripe " + arguments_.path;
    const Layout fitted = storage::fitted_to_lustre(arguments_.layout);
    const std::string note = storage::lustre_command_note(fitted);
    return refusal + storage::lustre_command(fitted, arguments_.path) +
           (note.empty() ? "" : " (" + note + ")");
  }

  [[noreturn]] void refuse(std::int64_t error) const {
    std::string line = arguments_.path + ": " + std::strerror(static_cast<int>(-error));
    if (error == -EINVAL && !rules_.empty()) line += "; " + rules_;
    if (error == -EOPNOTSUPP) {
      line = arguments_.path +
             " is not on a storage whose striping Ferry can set; ceph:, pvfs2: and mounted CephFS "
             "or Lustre have layouts";
      if (storage::striped_system(arguments_.path) == storage::StripedSystem::lustre) {
        line = lustre_line();
      }
    }
    fail(error, line);
  }

  const Arguments& arguments_;
  const std::unique_ptr<storage::Storage> storage_;
  storage::SyncCalls calls_;
  std::string rules_;
};

// Throws nlohmann::json::exception for what is no layout.
int run(const std::vector<std::string>& words) {
  const bool sets = words.size() == 3 && words[0] == "set";
  if (!sets && !(words.size() == 2 && words[0] == "get")) {
    std::fputs("usage: ferry-layout get PATH | set PATH JSON\n", stderr);
    return exit_wrong_arguments;
  }
  const Arguments arguments{sets, words[1], sets ? read_layout(Json::parse(words[2])) : Layout{}};
  try {
    print_line(Session(arguments).run());
    return 0;
  } catch (const Error& error) {
    print_error("", error.code().value(), error.reason());
    return exit_failed;
  }
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::run_reporting_errors("ferry-layout", [&] {
    return ferry::bench::run({arguments + 1, arguments + count});
  });
}
