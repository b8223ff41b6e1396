// The states that a crash may leave of what reached a storage: any subset of what is not synced, in
// the manner of ALICE (Pillai et al., OSDI 2014) and of CrashMonkey (Mohan et al., OSDI 2018).
//
// - A write may be there, missing, or torn at every border of a sector (512 bytes, so at those of
//   pages as well). Writes that overlap may arrive in another order.
// - The new size of a write that extends its file is independent of its bytes: it may be missing,
//   in part (up to a sector) or there without them, as a hole.
// - A truncation may be missing. What happens keeps its order with the writes around it.
// - A change of names may be missing, each by itself; a rename is one step.
// - A sync secures what was answered before it was asked for. That of a file secures the name that
//   it was made with as well, unless the strict reading of POSIX is asked for. That of a folder
//   secures its names. A write by a handle with O_DSYNC secures its bytes.
// - Without its folder a file is not there.
//
// ext4, XFS and Btrfs leave fewer states: they commit changes of names in order. Stale bytes of
// other files, as ext4 with data=writeback may show them, are not among the states.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "crash/recorded.hpp"
#include "support/depth.hpp"

namespace ferry::test {

// What the sync of a new file does for its name.
enum class SyncedName : std::uint8_t { kept, not_kept };

class CrashStates {
 public:
  // After the first `length` changes of the log. `contents` are those of the first files; names of
  // folders end with a slash.
  CrashStates(const std::vector<Recorded>& log, std::size_t length,
              const std::vector<std::pair<std::string, std::string>>& contents,
              SyncedName synced_name = SyncedName::kept)
      : log_(log), length_(length), first_(contents), synced_name_(synced_name) {
    for (std::size_t i = 0; i < first_.size(); ++i)
      if (is_folder_name(first_[i].first)) folders_.insert(i);
    for (std::size_t i = 0; i < length_; ++i)
      add(i);
    find_overlaps();
  }

  // Calls `look(state)` for up to `most` states: for all if there are no more, else for those with
  // every change alone, without every change alone (of many changes, some), and for random ones.
  // Some may be equal.
  template <class Look>
  void each(std::size_t most, Random& random, const Look& look) const {
    Choices choice(choices_.size());
    if (number(most) <= most) {
      do {
        look(build(choice));
      } while (next(choice));
      return;
    }
    std::size_t built = 0;
    const auto take = [&] {
      look(build(choice));
      return ++built < most;
    };
    for (const bool alone : {false, true}) {
      // All, or none.
      fill_all(choice, alone);
      if (!take()) return;
      std::vector<std::size_t> records(length_);
      std::iota(records.begin(), records.end(), 0);
      std::erase_if(records, [&](std::size_t i) { return of_record_[i].empty(); });
      if (records.size() > most / 4) {
        random.shuffle(records);
        records.resize(most / 4);
      }
      for (const std::size_t i : records) {
        fill_all(choice, alone);
        for (const std::size_t one : of_record_[i])
          choice[one] = alone ? Pick{0} : lost(one);
        if (!take()) return;
      }
    }
    do {
      draw(choice, random);
    } while (take());
  }
  // The state of a process that ended: all that was recorded, in order.
  FoundFiles everything() const { return build(Choices(choices_.size())); }

 private:
  using What = Recorded::What;
  static constexpr std::uint64_t sector = 512;

  using Pick = std::uint16_t;
  using Choices = std::vector<Pick>;

  // One decision; 0 stands for what happens without a crash.
  struct Choice {
    enum class About : std::uint8_t { record, sector, size, order };
    About about;
    std::size_t record;       // or the group of writes
    std::uint64_t piece = 0;  // the number of its sector in the file
    Pick count = 2;
  };
  struct Image {
    std::string bytes;
    std::uint64_t size = 0;  // what is beyond may become visible

    void grow_to(std::uint64_t end) {
      if (bytes.size() < end) bytes.resize(end, '\0');
    }
  };

  std::uint64_t end_of(std::size_t record) const {
    return log_[record].offset + log_[record].data.size();
  }
  bool is_stable(std::size_t record) const {
    const Recorded& one = log_[record];
    if (one.durable) return true;
    for (std::size_t i = 0; i < length_; ++i) {
      const Recorded& other = log_[i];
      // A name that was secured tells where the file has come to.
      const bool is_later_name = one.what == What::create && i > record && other.file == one.file &&
                                 other.what == What::rename;
      if (is_later_name && is_stable(i)) return true;
      if (other.what == What::sync && one.answered != 0 && one.answered < other.asked &&
          secures(other, one))
        return true;
    }
    return false;
  }
  bool secures(const Recorded& sync, const Recorded& one) const {
    if (!one.changes_names()) return sync.file == one.file;
    if (one.what == What::create && synced_name_ == SyncedName::kept && sync.file == one.file)
      return true;
    return one.folder != Recorded::no_folder && sync.file == one.folder;
  }
  // That its file may have before it.
  std::uint64_t smallest_size(std::size_t record) const {
    const std::size_t file = log_[record].file;
    std::uint64_t size = file < first_.size() ? first_[file].second.size() : 0;
    for (std::size_t i = 0; i < record; ++i) {
      if (log_[i].file == file && log_[i].what == What::truncate)
        size = std::min(size, log_[i].offset);
    }
    return size;
  }
  void add(std::size_t record) {
    of_record_.emplace_back();
    stable_.push_back(is_stable(record));
    group_.push_back(groups_);
    const Recorded& one = log_[record];
    if (one.is_folder) folders_.insert(one.file);
    // What keeps its place among the writes of the file.
    if (one.what == What::truncate || stable_.back()) group_.back() = ++groups_, ++groups_;
    if (stable_.back() || one.what == What::sync) return;
    if (one.what != What::write) {
      choose({Choice::About::record, record});
      return;
    }
    for (std::uint64_t at = one.offset / sector; at * sector < end_of(record); ++at)
      choose({Choice::About::sector, record, at});
    if (end_of(record) <= smallest_size(record)) return;
    // There, absent, or up to the end of a sector.
    const std::uint64_t borders = (end_of(record) - 1) / sector - one.offset / sector;
    choose({Choice::About::size, record, 0, static_cast<Pick>(2 + borders)});
  }
  void choose(const Choice& choice) {
    of_record_[choice.record].push_back(choices_.size());
    choices_.push_back(choice);
  }
  // Groups in which the order matters.
  void find_overlaps() {
    std::map<std::size_t, std::size_t> order;
    for (std::size_t i = 0; i < length_; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (log_[i].what != What::write || log_[j].what != What::write ||
            log_[i].file != log_[j].file || group_[i] != group_[j] || end_of(i) <= log_[j].offset ||
            end_of(j) <= log_[i].offset || order.contains(group_[i]))
          continue;
        order[group_[i]] = choices_.size();
        choices_.push_back({Choice::About::order, group_[i]});
      }
    }
    order_of_ = std::move(order);
  }

  // ---- which states ----------------------------------------------------------------------------

  // How many there are, or something above `most`.
  std::uint64_t number(std::size_t most) const {
    std::uint64_t all = 1;
    for (const Choice& choice : choices_) {
      all *= choice.count;
      if (all > most) break;
    }
    return all;
  }
  bool next(Choices& choice) const {
    for (std::size_t i = 0; i < choice.size(); ++i) {
      if (++choice[i] < choices_[i].count) return true;
      choice[i] = 0;
    }
    return false;
  }
  Pick lost(std::size_t one) const {
    return choices_[one].about == Choice::About::order ? Pick{0} : Pick{1};
  }
  void fill_all(Choices& choice, bool without) const {
    for (std::size_t i = 0; i < choice.size(); ++i)
      choice[i] = without ? lost(i) : Pick{0};
  }
  // Each write whole, torn at pages, or torn at sectors.
  void draw(Choices& choice, Random& random) const {
    std::uint64_t bits = random.bits();
    std::size_t record = 0;
    unsigned grain = 0;
    Pick same = 0;
    std::uint64_t page = 0;
    for (std::size_t i = 0; i < choice.size(); ++i) {
      const Choice& one = choices_[i];
      if (i % 16 == 0) bits = random.bits();
      const auto coin = static_cast<Pick>(bits & 1);
      bits >>= 1;
      if (one.about == Choice::About::size) {
        choice[i] = coin == 0 ? Pick{0} : static_cast<Pick>(random.below(one.count));
        continue;
      }
      if (one.about != Choice::About::sector) {
        choice[i] = coin;
        continue;
      }
      if (i == 0 || record != one.record || choices_[i - 1].about != Choice::About::sector) {
        grain = static_cast<unsigned>(random.below(3));
        record = one.record;
        same = coin;
      } else if (grain == 2 || (grain == 1 && page != one.piece / 8)) {
        same = coin;
      }
      page = one.piece / 8;
      choice[i] = same;
    }
  }

  // ---- a state ---------------------------------------------------------------------------------

  FoundFiles build(const Choices& choice) const {
    std::vector<Image> images;
    std::map<std::string, std::size_t> names;
    for (const auto& [name, bytes] : first_) {
      names[without_slash(name)] = images.size();
      Image& image = images.emplace_back();
      image.bytes = bytes;
      image.size = bytes.size();
    }
    for (std::size_t i = 0; i < length_; ++i) {
      const Recorded& one = log_[i];
      while (images.size() <= one.file)
        images.emplace_back();
      if (one.what == What::write) {
        // At the first of a group whose order is another: all of it, from the last one on.
        const auto order = order_of_.find(group_[i]);
        if (order == order_of_.end() || choice[order->second] == 0) {
          write(i, choice, images[one.file]);
        } else if (is_first_of_group(i)) {
          for (std::size_t j = length_; j-- > i;) {
            if (log_[j].what == What::write && group_[j] == group_[i])
              write(j, choice, images[log_[j].file]);
          }
        }
        continue;
      }
      if (!of_record_[i].empty() && choice[of_record_[i].front()] != 0) continue;
      if (one.what == What::truncate) cut(images[one.file], one.offset);
      change(one, names);
    }
    return found_in(names, images);
  }
  FoundFiles found_in(const std::map<std::string, std::size_t>& names,
                      std::vector<Image>& images) const {
    FoundFiles found;
    for (const auto& [name, file] : names) {
      const std::size_t slash = name.rfind('/');
      if (!folders_.empty() && slash != std::string::npos &&
          !found.contains(name.substr(0, slash + 1)))
        continue;
      if (name.empty()) continue;  // the root
      if (folders_.contains(file)) {
        found[name + "/"] = "";
        continue;
      }
      images[file].grow_to(images[file].size);
      found[name] = images[file].bytes.substr(0, images[file].size);
    }
    return found;
  }
  static bool is_folder_name(const std::string& name) { return name.ends_with('/'); }
  static std::string without_slash(const std::string& name) {
    return is_folder_name(name) ? name.substr(0, name.size() - 1) : name;
  }
  bool is_first_of_group(std::size_t record) const {
    for (std::size_t i = 0; i < record; ++i) {
      if (group_[i] == group_[record] && log_[i].what == What::write) return false;
    }
    return true;
  }
  void write(std::size_t record, const Choices& choice, Image& image) const {
    const Recorded& one = log_[record];
    const std::uint64_t end = end_of(record);
    image.grow_to(end);
    if (stable_[record]) {
      image.bytes.replace(one.offset, one.data.size(), one.data);
      image.size = std::max(image.size, end);
      return;
    }
    for (const std::size_t decision : of_record_[record]) {
      const Choice& about = choices_[decision];
      if (about.about == Choice::About::sector) {
        if (choice[decision] != 0) continue;
        const std::uint64_t from = std::max(one.offset, about.piece * sector);
        const std::uint64_t to = std::min(end, (about.piece + 1) * sector);
        image.bytes.replace(from, to - from, one.data, from - one.offset, to - from);
      } else if (choice[decision] != 1) {
        const std::uint64_t border = (one.offset / sector + choice[decision] - 1) * sector;
        image.size = std::max(image.size, choice[decision] == 0 ? end : border);
      }
    }
  }
  static void cut(Image& image, std::uint64_t size) {
    const std::uint64_t kept = std::min({size, image.size, std::uint64_t{image.bytes.size()}});
    std::fill(image.bytes.begin() + static_cast<std::ptrdiff_t>(kept), image.bytes.end(), '\0');
    image.size = size;
  }
  static void change(const Recorded& one, std::map<std::string, std::size_t>& names) {
    if (one.what == What::create || one.what == What::link) names[one.name] = one.file;
    if (one.what != What::rename && one.what != What::unlink) return;
    const auto old = names.find(one.name);
    if (old == names.end() || old->second != one.file) return;
    names.erase(old);
    if (one.what != What::rename) return;
    names[one.new_name] = one.file;
    if (one.is_folder) move_below(one.name + "/", one.new_name + "/", names);
  }
  static void move_below(const std::string& folder, const std::string& new_folder,
                         std::map<std::string, std::size_t>& names) {
    for (auto name = names.lower_bound(folder);
         name != names.end() && name->first.starts_with(folder); name = names.erase(name))
      names[new_folder + name->first.substr(folder.size())] = name->second;
  }

  const std::vector<Recorded>& log_;
  const std::size_t length_;
  const std::vector<std::pair<std::string, std::string>>& first_;
  const SyncedName synced_name_;
  std::set<std::size_t> folders_;
  std::vector<std::vector<std::size_t>> of_record_;  // its choices
  std::vector<bool> stable_;
  std::vector<std::size_t> group_;  // writes in one may change places
  std::size_t groups_ = 0;
  std::vector<Choice> choices_;
  std::map<std::size_t, std::size_t> order_of_;  // a group's choice
};

}  // namespace ferry::test
