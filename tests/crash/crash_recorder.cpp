// Runs a program whose files lie in one folder, on a file system that records what it does there,
// and makes the states that a crash may leave of the folder. tests/python/recorded.py uses it.
//
//   crash_recorder FOLDER STATE SYNCS RENAMES COMMAND...
//
// The command finds FOLDER as it is. SYNCS says which syncs count: `all`, or all but those of
// `files` or of `folders`, as if the program made none. RENAMES is `new`, or `old` for a file
// system on which no rename refuses to replace. Prints lines: `status` (of the command), `begin`
// and `length` (of the log: before the program and after it), `mark NAME LENGTH`, `log` (one for
// each change), then `ready`. Then it reads lines: `POINT MOST SEED NAMES`, for states after that
// many changes; NAMES is `kept` if the sync of a new file keeps its name, or `posix`. For each
// state that is new it fills the folder STATE, prints `state` and waits for a line; then it prints
// `end` and how many states it built. It ends with 77 where this process may not mount.
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crash/crash_states.hpp"
#include "crash/recording_file_system.hpp"
#include "support/depth.hpp"

namespace ferry::test {
namespace {

constexpr int status_absent = 77;

bool has_own_mounts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Its output goes to standard error: ours says what was recorded.
int run(char** command) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(STDERR_FILENO, STDOUT_FILENO);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    execvp(command[0], command);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 127;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void print(const Recorded& one) {
  static const char* const names[] = {"write",  "truncate", "create", "link",
                                      "rename", "unlink",   "sync"};
  std::cout << "log " << names[static_cast<unsigned>(one.what)] << ' ' << one.file << ' '
            << one.offset << ' ' << one.data.size() << ' ' << one.name << ' ' << one.new_name
            << '\n';
}

void fill(const std::filesystem::path& folder, const FoundFiles& state) {
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    std::filesystem::remove_all(entry.path());
  for (const auto& [name, bytes] : state) {
    if (name.ends_with('/')) {
      std::filesystem::create_directory(folder / name);
      continue;
    }
    std::ofstream file(folder / name, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

class StateMaker {
 public:
  StateMaker(const RecordingFileSystem& recorded, std::string folder, const std::string& syncs)
      : recorded_(recorded), folder_(std::move(folder)), log_(recorded.log()) {
    std::unordered_set<std::size_t> folders;
    for (std::size_t i = 0; i < recorded.first().size(); ++i)
      if (recorded.first()[i].first.ends_with('/')) folders.insert(i);
    for (Recorded& one : log_) {
      if (one.is_folder) folders.insert(one.file);
      const bool is_left_out = syncs == (folders.contains(one.file) ? "folders" : "files");
      if (one.what == Recorded::What::sync && is_left_out) one.asked = 0;  // it covers nothing
    }
  }
  void make(std::size_t point, std::size_t most, std::uint64_t seed, SyncedName names) {
    Random random(seed);
    std::size_t built = 0;
    const CrashStates states(log_, point, recorded_.first(), names);
    if (most == 0) show(states.everything());
    if (most > 0)
      states.each(most, random, [&](const FoundFiles& state) {
        if (!made_.insert(hash(state, point)).second) return;
        ++built;
        show(state);
      });
    std::cout << "end " << built << std::endl;
  }

 private:
  void show(const FoundFiles& state) const {
    fill(folder_, state);
    std::cout << "state" << std::endl;
    std::string line;
    std::getline(std::cin, line);
  }
  // Of a state and of what was said up to then.
  std::uint64_t hash(const FoundFiles& state, std::size_t point) const {
    std::uint64_t all = point == log_.size() ? 1 : 0;
    for (const RecordingFileSystem::Mark& mark : recorded_.marks())
      if (mark.length <= point) all += 2;
    const auto add = [&](const std::string& text) {
      all = (all ^ std::hash<std::string>()(text)) * 0x9e3779b97f4a7c15;
      all ^= all >> 29;
    };
    for (const auto& [name, bytes] : state) {
      add(name);
      add(bytes);
    }
    return all;
  }

  const RecordingFileSystem& recorded_;
  const std::string folder_;
  std::vector<Recorded> log_;
  std::unordered_set<std::uint64_t> made_;
};

int record(const std::string& folder, const std::string& states, const std::string& syncs,
           bool old_renames, char** command) {
  if (!has_own_mounts()) {
    std::cout << "absent: this process may not mount: " << std::strerror(errno) << std::endl;
    return status_absent;
  }
  RecordingFileSystem recorded(folder, old_renames);
  if (const int error = recorded.attach(folder); error != 0) {
    std::cout << "absent: FUSE: " << std::strerror(error) << std::endl;
    return status_absent;
  }
  const int status = run(command);
  recorded.detach();
  std::cout << "status " << status << "\nbegin " << recorded.first_length() << "\nlength "
            << recorded.log().size() << '\n';
  for (const RecordingFileSystem::Mark& mark : recorded.marks())
    std::cout << "mark " << mark.name << ' ' << mark.length << '\n';
  for (const Recorded& one : recorded.log())
    print(one);
  std::cout << "ready" << std::endl;

  StateMaker maker(recorded, states, syncs);
  std::size_t point = 0;
  std::size_t most = 0;
  std::uint64_t seed = 0;
  std::string names;
  std::string rest;
  while (std::cin >> point >> most >> seed >> names && std::getline(std::cin, rest))
    maker.make(point, most, seed, names == "kept" ? SyncedName::kept : SyncedName::not_kept);
  return 0;
}

}  // namespace
}  // namespace ferry::test

int main(int count, char** words) {
  if (count < 6) {
    std::cerr << "usage: crash_recorder FOLDER STATE SYNCS RENAMES COMMAND...\n";
    return 2;
  }
  const std::string renames = words[4];
  return ferry::test::record(words[1], words[2], words[3], renames == "old", words + 5);
}
