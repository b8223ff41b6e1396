#include "histories/checks.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <ferry/device/group.hpp>

#include "support/data.hpp"

namespace ferry::histories {
namespace {

// A write and the reads that found it. In every order they stand together, so another cluster is
// before or after all of them.
struct Cluster {
  bool written = false;
  Time write_began = 0;
  Time first_end = never;
  Time last_begin = 0;
};

// Whether one of its calls ended before one of the other's began.
bool precedes(const Cluster& one, const Cluster& other) {
  return one.first_end < other.last_begin;
}

// The bytes [from, to) are in the same transfers and have one value in each.
struct Stretch {
  std::uint64_t from;
  std::uint64_t to;
};

std::vector<Stretch> stretches(const std::vector<FileTransfer>& transfers) {
  std::vector<std::uint64_t> borders;
  for (const FileTransfer& one : transfers) {
    borders.push_back(one.offset);
    borders.push_back(one.offset + one.bytes);
    if (!one.is_read || one.bytes < 2) continue;
    if (std::memcmp(one.found, one.found + 1, one.bytes - 1) == 0) continue;  // all the same
    for (std::uint64_t i = 1; i < one.bytes; ++i)
      if (one.found[i] != one.found[i - 1]) borders.push_back(one.offset + i);
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::vector<Stretch> found;
  for (std::size_t i = 1; i < borders.size(); ++i)
    found.push_back({borders[i - 1], borders[i]});
  return found;
}

bool covers(const FileTransfer& one, const Stretch& stretch) {
  return one.offset <= stretch.from && stretch.to <= one.offset + one.bytes;
}

unsigned value_at(const FileTransfer& one, std::uint64_t at) {
  return one.is_read ? one.found[at - one.offset] : one.value;
}

std::string time_text(Time when) {
  return when == never ? "never" : std::to_string(when % 1'000'000'000'000);
}

std::string text_of(const FileTransfer& one, std::uint64_t at) {
  std::string text = "\n  client " + std::to_string(one.client) + " of domain " +
                     std::to_string(one.domain) + (one.is_read ? " finds " : " writes ") +
                     std::to_string(value_at(one, at)) + ", bytes " + std::to_string(one.offset) +
                     " to " + std::to_string(one.offset + one.bytes) + ", from " +
                     time_text(one.began) + " to " + time_text(one.ended) + " ns";
  text +=
      one.is_read ? ", opened " + time_text(one.opened) : ", published " + time_text(one.published);
  return one.how.empty() ? text : text + ", " + one.how;
}

std::string text_of(const std::vector<FileTransfer>& transfers, const Stretch& stretch) {
  std::vector<const FileTransfer*> in_order;
  for (const FileTransfer& one : transfers)
    if (covers(one, stretch)) in_order.push_back(&one);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* one, const auto* other) { return one->began < other->began; });
  std::string text;
  for (const FileTransfer* one : in_order)
    text += text_of(*one, stretch.from);
  return text;
}

std::string bytes_text(const Stretch& stretch) {
  return "bytes " + std::to_string(stretch.from) + " to " + std::to_string(stretch.to);
}

// ---- close-to-open ---------------------------------------------------------------------------

// Whether `later` has certainly replaced `one`.
bool replaces(const FileTransfer& later, const FileTransfer& one) {
  return (later.domain == one.domain && one.ended < later.began) || one.published < later.began;
}

// Whether the read certainly finds the write, or what came after it.
bool must_find(const FileTransfer& read, const FileTransfer& write) {
  return (write.domain == read.domain && write.ended < read.began) || write.published < read.opened;
}

// Why the read cannot have found what `source` wrote (null: what the file held at first), or
// nothing.
std::string why_not(const std::vector<const FileTransfer*>& writes, const FileTransfer& read,
                    const FileTransfer* source, const Stretch& stretch) {
  const auto whose = [&] {
    return source != nullptr ? text_of(*source, stretch.from) : std::string();
  };
  if (source != nullptr && source->began > read.ended)
    return "found before it was written:" + text_of(read, stretch.from) + whose();
  for (const FileTransfer* write : writes)
    if (write != source && must_find(read, *write) &&
        (source == nullptr || replaces(*write, *source)))
      return "a stale value:" + text_of(read, stretch.from) + text_of(*write, stretch.from) +
             whose();
  return "";
}

std::string check_read(const std::vector<const FileTransfer*>& writes, const FileTransfer& read,
                       const Stretch& stretch) {
  const unsigned value = value_at(read, stretch.from);
  std::vector<const FileTransfer*> sources;
  for (const FileTransfer* write : writes)
    if (write->value == value) sources.push_back(write);
  if (value == 0) sources.push_back(nullptr);
  if (sources.empty()) return "no write put this there:" + text_of(read, stretch.from);
  std::string wrong;
  for (const FileTransfer* source : sources) {
    wrong = why_not(writes, read, source, stretch);
    if (wrong.empty()) break;
  }
  return wrong;
}

}  // namespace

bool is_linearisable(const std::vector<RegisterCall>& calls) {
  std::map<unsigned, Cluster> by_value;
  by_value[0] = Cluster{true, 0, 0, 0};  // ended before all others began
  for (const RegisterCall& call : calls) {
    Cluster& cluster = by_value[call.value];
    if (!call.is_read) {
      cluster.written = true;
      cluster.write_began = call.began;
    }
    cluster.first_end = std::min(cluster.first_end, call.ended);
    cluster.last_begin = std::max(cluster.last_begin, call.began);
  }
  std::vector<Cluster> clusters;
  for (const auto& [value, cluster] : by_value) {
    // A read may not end before its write begins.
    if (!cluster.written || cluster.first_end < cluster.write_began) return false;
    clusters.push_back(cluster);
  }
  for (std::size_t i = 0; i < clusters.size(); ++i)
    for (std::size_t j = i + 1; j < clusters.size(); ++j)
      if (precedes(clusters[i], clusters[j]) && precedes(clusters[j], clusters[i])) return false;
  return true;
}

std::string check_linearisable(const std::vector<FileTransfer>& transfers) {
  for (const Stretch& stretch : stretches(transfers)) {
    std::vector<RegisterCall> calls;
    for (const FileTransfer& one : transfers)
      if (covers(one, stretch))
        calls.push_back({one.is_read, value_at(one, stretch.from), one.began, one.ended});
    if (!is_linearisable(calls))
      return bytes_text(stretch) + " are not linearisable:" + text_of(transfers, stretch);
  }
  return "";
}

std::string check_close_to_open(const std::vector<FileTransfer>& transfers) {
  for (const Stretch& stretch : stretches(transfers)) {
    std::vector<const FileTransfer*> writes;
    for (const FileTransfer& one : transfers)
      if (!one.is_read && covers(one, stretch)) writes.push_back(&one);
    for (const FileTransfer& one : transfers) {
      if (!one.is_read || !covers(one, stretch)) continue;
      const std::string wrong = check_read(writes, one, stretch);
      if (wrong.empty()) continue;
      std::string text = bytes_text(stretch) + ": " + wrong;
      // Where else the value went.
      for (const FileTransfer& other : transfers)
        if (!other.is_read && !covers(other, stretch) && other.value != 0 &&
            other.value == value_at(one, stretch.from))
          text += text_of(other, other.offset);
      return text + "\nall:" + text_of(transfers, stretch);
    }
  }
  return "";
}

// ---- sizes -----------------------------------------------------------------------------------

namespace {

std::string text_of(std::vector<const SizeCall*> calls) {
  static constexpr const char* names[] = {" sets ", " grows to ", " finds ", " finds at most ",
                                          " finds at least "};
  std::sort(calls.begin(), calls.end(),
            [](const auto* one, const auto* other) { return one->began < other->began; });
  std::string text;
  for (const SizeCall* one : calls)
    text += "\n  client " + std::to_string(one->client) + names[static_cast<unsigned>(one->does)] +
            std::to_string(one->size) + " bytes, from " + time_text(one->began) + " to " +
            time_text(one->ended) + " ns";
  return text;
}

// Tries the orders that agree with real time, and remembers what it has tried (see
// checks_test.cpp).
class SizeSearch {
 public:
  explicit SizeSearch(const std::vector<SizeCall>& calls) {
    std::map<unsigned, std::vector<const SizeCall*>> by_client;
    for (const SizeCall& call : calls) {
      by_client[call.client].push_back(&call);
      all_.push_back(&call);
    }
    for (auto& [client, theirs] : by_client) {
      std::stable_sort(theirs.begin(), theirs.end(), [](const auto* one, const auto* other) {
        return one->began < other->began;
      });
      clients_.push_back(std::move(theirs));
    }
  }

  // Without recursion: a history may have some hundred calls.
  bool finds_an_order(std::uint64_t first) {
    std::vector<State> left{{std::vector<std::uint16_t>(clients_.size()),
                             std::vector<std::uint64_t>(clients_.size()), first}};
    while (!left.empty()) {
      const State state = std::move(left.back());
      left.pop_back();
      if (!tried_.insert(state).second) continue;
      if (!go_on(state, left)) return true;
    }
    return false;
  }
  // The longest order that was found ends before these.
  std::string text() const {
    std::string text = " after " + std::to_string(most_) + " calls, with " +
                       std::to_string(furthest_.size) + " bytes, none of the first can be next:";
    std::vector<const SizeCall*> rest;
    for (std::size_t i = 0; i < clients_.size(); ++i)
      rest.insert(rest.end(), clients_[i].begin() + furthest_.made[i], clients_[i].end());
    return text + text_of(rest) + "\nall:" + text_of(all_);
  }

 private:
  struct State {
    std::vector<std::uint16_t> made;  // by each client
    // By each client's next call, if that is a write: the end of its bytes that have certainly made
    // the file longer, or 0. They do so once.
    std::vector<std::uint64_t> written;
    std::uint64_t size;
    bool operator<(const State& other) const {
      return std::tie(made, size, written) < std::tie(other.made, other.size, other.written);
    }
  };

  // Adds what may come next. False: nothing is left.
  bool go_on(const State& state, std::vector<State>& left) {
    Time first_end = never;
    std::size_t made = 0;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      made += state.made[i];
      if (state.made[i] < clients_[i].size())
        first_end = std::min(first_end, clients_[i][state.made[i]]->ended);
    }
    if (made >= most_) {
      most_ = made;
      furthest_ = state;
    }
    if (first_end == never) return false;
    std::vector<const SizeCall*> may_be_next(clients_.size());
    for (std::size_t i = 0; i < clients_.size(); ++i)
      if (state.made[i] < clients_[i].size() && clients_[i][state.made[i]]->began <= first_end)
        may_be_next[i] = clients_[i][state.made[i]];
    // Adds `next` with each of the writes under way that may have made the file this long.
    const auto grow_to = [&](const State& next, std::uint64_t size) {
      for (std::size_t i = 0; i < clients_.size(); ++i) {
        const SizeCall* one = may_be_next[i];
        if (one == nullptr || one->does != SizeCall::Does::grow) continue;
        if (size <= std::max(one->from, state.written[i]) || size > one->size) continue;
        State grown = next;
        grown.written[i] = grown.size = size;
        left.push_back(std::move(grown));
      }
    };
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if (may_be_next[i] == nullptr) continue;
      const SizeCall& call = *may_be_next[i];
      State next = state;
      ++next.made[i];
      next.written[i] = 0;
      switch (call.does) {
        case SizeCall::Does::set:
          next.size = call.size;
          break;
        case SizeCall::Does::grow:
          if (state.written[i] < call.size) next.size = std::max(state.size, call.size);
          break;
        case SizeCall::Does::find_less:
          if (state.size > call.size) continue;
          break;
        case SizeCall::Does::find:
        case SizeCall::Does::find_more:
          if (call.does == SizeCall::Does::find_more && state.size >= call.size) break;
          if (state.size == call.size) break;
          if (state.size < call.size) grow_to(next, call.size);
          continue;
      }
      left.push_back(std::move(next));
    }
    return true;
  }

  std::vector<std::vector<const SizeCall*>> clients_;
  std::vector<const SizeCall*> all_;
  std::set<State> tried_;
  State furthest_;
  std::size_t most_ = 0;
};

}  // namespace

std::string check_sizes(const std::vector<SizeCall>& calls, std::uint64_t first) {
  SizeSearch search(calls);
  return search.finds_an_order(first) ? "" : "sizes are not linearisable:" + search.text();
}

// ---- appends ---------------------------------------------------------------------------------

std::string record_contents(std::uint32_t client, std::uint32_t number, std::uint64_t bytes) {
  std::string record(bytes, '\0');
  test::fill_bytes(device::ThreadGroup{}, reinterpret_cast<unsigned char*>(record.data()),
                   client * 100'000 + number, 0, bytes);
  std::memcpy(record.data(), &client, 4);
  std::memcpy(record.data() + 4, &number, 4);
  return record;
}

std::string check_appends(const std::string& file, const std::vector<Appended>& records) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, const Appended*> missing;
  for (const Appended& one : records)
    missing[{one.client, one.number}] = &one;
  const Appended* last_begun = nullptr;  // of those before `at`
  for (std::uint64_t at = 0; at < file.size();) {
    const std::string where = "at " + std::to_string(at) + " of " + std::to_string(file.size());
    if (file.size() - at < record_bytes_min) return "a part of a record " + where;
    std::uint32_t client = 0;
    std::uint32_t number = 0;
    std::memcpy(&client, file.data() + at, 4);
    std::memcpy(&number, file.data() + at + 4, 4);
    const auto found = missing.find({client, number});
    if (found == missing.end()) return "no record, or one that was there already, " + where;
    const Appended& one = *found->second;
    missing.erase(found);
    const std::string name =
        "record " + std::to_string(number) + " of client " + std::to_string(client) + " " + where;
    if (file.compare(at, one.bytes, record_contents(client, number, one.bytes)) != 0)
      return "not whole: " + name;
    if (last_begun != nullptr && one.ended < last_begun->began)
      return "behind record " + std::to_string(last_begun->number) + " of client " +
             std::to_string(last_begun->client) + ", which began after it had ended: " + name;
    if (last_begun == nullptr || one.began > last_begun->began) last_begun = &one;
    at += one.bytes;
  }
  if (missing.empty()) return "";
  return std::to_string(missing.size()) + " records are missing, the first is " +
         std::to_string(missing.begin()->first.second) + " of client " +
         std::to_string(missing.begin()->first.first);
}

}  // namespace ferry::histories
