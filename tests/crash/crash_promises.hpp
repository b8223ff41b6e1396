// What a program may find after a crash, derived from the calls that it made and from what they
// returned, and from nothing that reached storage.
//
// For each byte of a file: which writes it may come from. For its size: which values. For the
// names: which changes must have happened, and which may. After a loss of power, fsync, fdatasync
// and writes by a handle with O_DSYNC count, and the fsync of a new file keeps its name. After the
// end of the process alone, flush, close and changes of names count as well.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "crash/recorded.hpp"

namespace ferry::test {

// Where bytes may come from: the files that were there before, the writes of the program in turn,
// and holes.
class ByteSources {
 public:
  static constexpr std::size_t file_bytes_max = 22 << 10;
  static constexpr unsigned count = 31;
  static constexpr std::uint32_t hole = std::uint32_t{1} << count;

  ByteSources() {
    for (unsigned source = 0; source < count; ++source) {
      data_.emplace_back(file_bytes_max, '\0');
      for (std::size_t at = 0; at < file_bytes_max; ++at)
        data_[source][at] = static_cast<char>(1 + (source * 97 + at * 31 + at / 251 * 7) % 255);
    }
    data_.emplace_back(file_bytes_max, '\0');
  }
  // What `source` writes to this place of a file.
  std::string_view data(unsigned source, std::size_t offset, std::size_t bytes) const {
    return std::string_view(data_[source]).substr(offset, bytes);
  }
  char byte(unsigned source, std::size_t offset) const { return data_[source][offset]; }

 private:
  std::vector<std::string> data_;
};

// A call that changes or secures something, as the program saw it.
struct MadeCall {
  enum class What : std::uint8_t { create, write, truncate, sync, handed_over, rename, unlink };

  What what = What::write;
  std::size_t file = 0;
  std::uint64_t offset = 0;  // of a truncation: the new size
  std::uint64_t bytes = 0;
  unsigned source = 0;
  bool durable = false;   // O_DSYNC
  bool at_once = false;   // in the storage when it returns, as without a cache
  std::string name = {};  // of create and unlink, and the old one of a rename
  std::string new_name = {};
  // The length of the log before and after it.
  std::size_t began = 0;
  std::size_t returned = 0;
};

enum class CrashKind : std::uint8_t { power, process };

// A file that is there before the program begins, durably.
struct FirstFile {
  std::string name = {};
  std::uint64_t bytes = 0;
};

class CrashPromises {
 public:
  // After a crash at which the log has this length. File i of `first` is source i.
  CrashPromises(const ByteSources& sources, const std::vector<FirstFile>& first,
                const std::vector<MadeCall>& calls, std::size_t length, CrashKind kind)
      : sources_(sources) {
    for (const FirstFile& file : first) {
      PromisedFile& made = files_.emplace_back();
      made.write(static_cast<unsigned>(files_.size() - 1), 0, file.bytes);
      made.secure();
      names_[file.name] = files_.size() - 1;
    }
    for (const MadeCall& call : calls) {
      if (call.returned <= length) {
        take(call, true, kind);
      } else if (call.began < length) {
        take(call, false, kind);
      }
    }
    find_legal_names();
  }

  // Empty, or what is wrong with a state.
  std::string look_at(const FoundFiles& found) {
    std::string problem;
    for (const auto& names : legal_) {
      problem = compare(names, found);
      if (problem.empty()) return problem;
    }
    return problem;
  }

 private:
  using What = MadeCall::What;
  using Names = std::map<std::string, std::size_t, std::less<>>;

  struct PromisedFile {
    struct Interval {
      std::uint64_t first;
      std::uint64_t last;
    };
    std::vector<std::uint32_t> legal = std::vector<std::uint32_t>(ByteSources::file_bytes_max);
    std::vector<std::uint32_t> now = std::vector<std::uint32_t>(ByteSources::file_bytes_max);
    std::uint64_t size = 0;
    std::vector<Interval> sizes{{0, 0}};
    bool name_secured = false;
    // Sectors that were found to be legal: most states have them again.
    std::map<std::size_t, std::vector<std::string>> known;

    std::uint64_t smallest() const {
      return std::min_element(sizes.begin(), sizes.end(),
                              [](auto& a, auto& b) { return a.first < b.first; })
          ->first;
    }
    // Bytes that were beyond the end may be a hole.
    void reach(std::uint64_t end) {
      for (std::uint64_t at = smallest(); at < end; ++at)
        legal[at] |= ByteSources::hole;
      for (std::uint64_t at = size; at < end; ++at)
        now[at] = ByteSources::hole;
    }
    void write(unsigned source, std::uint64_t offset, std::uint64_t bytes) {
      const std::uint64_t end = offset + bytes;
      reach(end);
      for (std::uint64_t at = offset; at < end; ++at) {
        now[at] = std::uint32_t{1} << source;
        legal[at] |= now[at];
      }
      const std::uint64_t least = std::max(offset, smallest());
      if (end > least) sizes.push_back({least + 1, end});
      size = std::max(size, end);
    }
    void secure_range(std::uint64_t offset, std::uint64_t bytes) {
      const std::uint64_t end = offset + bytes;
      std::copy(now.begin() + offset_of(offset), now.begin() + offset_of(end),
                legal.begin() + offset_of(offset));
      for (Interval& one : sizes)
        one = {std::max(one.first, end), std::max(one.last, end)};
    }
    void truncate(std::uint64_t to) {
      reach(to);
      for (std::uint64_t at = to; at < size; ++at) {
        now[at] = ByteSources::hole;
        legal[at] |= ByteSources::hole;
      }
      size = to;
      sizes.push_back({to, to});
    }
    void secure() {
      legal = now;
      sizes.assign(1, {size, size});
      std::fill(legal.begin() + offset_of(size), legal.end(), 0);
    }
    bool may_have_size(std::uint64_t bytes) const {
      return std::any_of(sizes.begin(), sizes.end(), [&](const Interval& one) {
        return one.first <= bytes && bytes <= one.last;
      });
    }

   private:
    static std::ptrdiff_t offset_of(std::uint64_t at) { return static_cast<std::ptrdiff_t>(at); }
  };

  struct NameChange {
    What what;
    std::string name;
    std::string new_name;
    std::size_t file;
    bool certain;
  };

  void take(const MadeCall& call, bool acknowledged, CrashKind kind) {
    if (call.what == What::create && call.file == files_.size()) files_.emplace_back();
    PromisedFile& file = files_[call.file];
    const bool is_process = kind == CrashKind::process;
    switch (call.what) {
      case What::write:
        file.write(call.source, call.offset, call.bytes);
        if (acknowledged && (call.durable || (call.at_once && is_process)))
          file.secure_range(call.offset, call.bytes);
        break;
      case What::truncate:
        file.truncate(call.offset);
        break;
      case What::sync:
        if (!acknowledged) break;
        file.secure();
        file.name_secured = true;
        break;
      case What::handed_over:
        if (acknowledged && is_process) file.secure();
        break;
      case What::create:
      case What::rename:
      case What::unlink:
        changes_.push_back(
            {call.what, call.name, call.new_name, call.file, acknowledged && is_process});
        break;
    }
  }

  // Each subset of the changes of names that may be lost, those left out that then have no source.
  void find_legal_names() {
    const std::size_t count = changes_.size();
    for (std::uint32_t chosen = 0; chosen < std::uint32_t{1} << count; ++chosen) {
      Names names = names_;
      bool possible = true;
      for (std::size_t i = 0; i < count && possible; ++i) {
        const NameChange& change = changes_[i];
        const bool happens = (chosen >> i & 1) != 0;
        const bool needed =
            change.certain || (change.what == What::create && files_[change.file].name_secured);
        possible = happens || !needed;
        if (happens && possible) possible = apply(change, names);
      }
      if (possible && std::find(legal_.begin(), legal_.end(), names) == legal_.end())
        legal_.push_back(std::move(names));
    }
  }
  static bool apply(const NameChange& change, Names& names) {
    if (change.what != What::create) {
      const auto old = names.find(change.name);
      if (old == names.end() || old->second != change.file) return false;
      names.erase(old);
    }
    if (change.what != What::unlink)
      names[change.what == What::create ? change.name : change.new_name] = change.file;
    return true;
  }

  std::string compare(const Names& names, const FoundFiles& found) {
    for (const auto& [name, file] : names) {
      if (!found.contains(name)) return name + " is not there";
    }
    for (const auto& [name, bytes] : found) {
      const auto file = names.find(name);
      if (file == names.end()) return name + " should not be there";
      const std::string problem = compare(files_[file->second], bytes);
      if (!problem.empty()) return name + ": " + problem;
    }
    return "";
  }
  std::string compare(PromisedFile& file, const std::string& bytes) const {
    if (!file.may_have_size(bytes.size()))
      return "has a size that it never had, or that was replaced: " + std::to_string(bytes.size());
    constexpr std::size_t sector = 512;
    for (std::size_t at = 0; at < bytes.size(); at += sector) {
      const std::string_view part = std::string_view(bytes).substr(at, sector);
      std::vector<std::string>& known = file.known[at / sector];
      if (std::find(known.begin(), known.end(), part) != known.end()) continue;
      for (std::size_t i = at; i < at + part.size(); ++i) {
        if (!is_legal(file.legal[i], i, bytes[i]))
          return "byte " + std::to_string(i) + " is foreign, or older than what was synced";
      }
      known.emplace_back(part);
    }
    return "";
  }
  bool is_legal(std::uint32_t legal, std::size_t at, char byte) const {
    for (unsigned source = 0; legal != 0; ++source, legal >>= 1) {
      if ((legal & 1) != 0 && sources_.byte(source, at) == byte) return true;
    }
    return false;
  }

  const ByteSources& sources_;
  std::vector<PromisedFile> files_;
  Names names_;
  std::vector<NameChange> changes_;
  std::vector<Names> legal_;
};

}  // namespace ferry::test
