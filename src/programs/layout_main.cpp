// ferry-layout: shows and sets how files are striped. One JSON object on standard output; exit
// status 0, 1 (failed), 2 (wrong arguments).
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "programs/layout_facts.hpp"
#include "storage/mounted_layout.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;
using storage::Kind;
using storage::Layout;

constexpr const char* usage =
    "Usage: ferry-layout get PATH\n"
    "       ferry-layout set PATH [--stripe-bytes N] [--stripe-count N] [--object-bytes N]\n"
    "                             [--first-server N] [--pool NAME] [--overstripe] [--at-most]\n"
    "                             [--part END[,stripe_bytes=N][,stripe_count=N][,first_server=N]\n"
    "                                     [,pool=NAME][,overstripe]]...\n"
    "END is a number of bytes or \"end\"; in a part, stripe_count=all is possible too.\n"
    "Prints a JSON line. The ferry command runs it as ferry layout.\n";
constexpr int exit_failed = 1;
constexpr int exit_wrong_arguments = 2;

struct Arguments {
  bool set = false;
  std::string path;
  Layout layout;
};

// Returns false if they are invalid.
bool read_number(const std::string& text, auto& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// The comma-separated settings in --part, without its end.
bool read_part_setting(const std::string& setting, storage::LayoutPart& part) {
  const std::size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals);
  if (setting == "overstripe") part.overstriping = true;
  if (setting == "stripe_count=all") part.all_servers = true;
  if (setting == "overstripe" || setting == "stripe_count=all") return true;
  if (equals == std::string::npos) return false;
  const std::string value = setting.substr(equals + 1);
  if (name == "stripe_bytes") return read_number(value, part.stripe_bytes);
  if (name == "stripe_count") return read_number(value, part.stripe_count);
  if (name == "first_server") return read_number(value, part.first_server);
  part.pool = value;
  return name == "pool" && !value.empty();
}

bool read_part(const std::string& text, Layout& layout) {
  storage::LayoutPart part;
  std::istringstream settings(text);
  std::string setting;
  std::getline(settings, setting, ',');
  part.end_bytes = storage::to_the_end;
  if (setting != "end" && !read_number(setting, part.end_bytes)) return false;
  if (!layout.parts.empty()) part.begin_bytes = layout.parts.back().end_bytes;
  while (std::getline(settings, setting, ','))
    if (!read_part_setting(setting, part)) return false;
  layout.parts.push_back(part);
  return true;
}

bool read_setting(const std::string& name, const std::string& value, Layout& layout) {
  if (name == "--stripe-bytes") return read_number(value, layout.stripe_bytes);
  if (name == "--stripe-count") return read_number(value, layout.stripe_count);
  if (name == "--object-bytes")
    return read_number(value, layout.extras[storage::object_bytes_name]);
  if (name == "--first-server") return read_number(value, layout.first_server);
  if (name == "--part") return read_part(value, layout);
  if (name != "--pool") return false;
  layout.pool = value;
  return !value.empty();
}

bool read_arguments(const std::vector<std::string>& words, Arguments& arguments) {
  if (words.size() < 2) return false;
  arguments.set = words[0] == "set";
  arguments.path = words[1];
  if (!arguments.set) return words[0] == "get" && words.size() == 2;
  for (std::size_t at = 2; at < words.size(); ++at) {
    if (words[at] == "--at-most") {
      arguments.layout.at_most = true;
    } else if (words[at] == "--overstripe") {
      arguments.layout.extras[storage::overstriping_name] = 1;
    } else if (++at == words.size() || !read_setting(words[at - 1], words[at], arguments.layout)) {
      return false;
    }
  }
  return true;
}

// A failure, as a line that says what to do.
[[noreturn]] void fail(std::int64_t error, const std::string& line) {
  throw std::system_error(static_cast<int>(-error), std::system_category(), line);
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
                          " is there already, and a layout is given when a file is made; name a "
                          "new file, or a directory for what will be made in it");
      }
      if (made) {
        make_file();
      } else {
        Layout wanted = arguments_.layout;
        call(Kind::set_layout, wanted);
      }
    } else if (!there) {
      fail(-ENOENT, arguments_.path + ": No such file or directory; name a path that is there");
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
    const std::string refusal = "this Lustre does not " +
                                std::string(arguments_.set ? "take " : "tell ") +
                                (arguments_.layout.parts.empty() ? "" : "composite ") +
                                "layouts by its kernel's client alone; do it by: ";
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
      line = arguments_.path + " lies on no storage that stripes files in a way that Ferry sets";
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

void print(const Json& line) {
  std::puts(line.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
}

int run(int count, char** words) {
  Arguments arguments;
  if (!read_arguments({words + 1, words + count}, arguments)) {
    std::fputs(usage, stderr);
    return exit_wrong_arguments;
  }
  try {
    print(Session(arguments).run());
    return 0;
  } catch (const std::system_error& error) {
    // Its text ends with the errno's, which the line has already if useful.
    const std::string text = error.what();
    const std::string end = ": " + error.code().message();
    print({{"type", "error"},
           {"errno", error.code().value()},
           {"message", text.substr(0, text.size() - end.size())}});
    return exit_failed;
  }
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry-layout: %s\n", error.what());
    return 1;
  }
}
