#include "simulator/history.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "simulator/simulator.hpp"

namespace ferry::simulator {

unsigned FileHistory::begin_write(std::uint64_t offset, std::uint64_t bytes, Domain by) {
  const OneStep whole;
  if (values_ == values_max) return 0;
  const auto value = static_cast<unsigned char>(++values_);
  writes_.push_back({offset, offset + bytes, offset, value, ++now_, never, by});
  return value;
}

std::size_t FileHistory::begin_truncate(std::uint64_t size, Domain by) {
  const OneStep whole;
  writes_.push_back({size, never, size, 0, ++now_, never, by});
  return writes_.size() - 1;
}

void FileHistory::end(Write& write, std::int64_t result) {
  write.ended = ++now_;
  if (result < 0) {
    // Refused because of a shutdown, it says nothing of others.
    if (result != -ESHUTDOWN) errors_.push_back({write.began, write.ended});
  } else {
    write.certain =
        write.is_truncation() ? never : write.first + static_cast<std::uint64_t>(result);
  }
}

void FileHistory::end_write(unsigned value, std::int64_t result) {
  const OneStep whole;
  const auto found = std::find_if(writes_.begin(), writes_.end(),
                                  [&](const Write& write) { return write.value == value; });
  end(*found, result);
}

void FileHistory::end_truncate(std::size_t truncation, int result) {
  const OneStep whole;
  end(writes_[truncation], result);
}

FileHistory::Call FileHistory::begin(Domain by) {
  const OneStep whole;
  return {++now_, by};
}

void FileHistory::end_read(Call call, std::uint64_t offset, std::uint64_t wanted,
                           std::int64_t result, const unsigned char* data) {
  const OneStep whole;
  const Span when{call.began, ++now_, call.by};
  if (result < 0) {
    if (result != -ESHUTDOWN) errors_.push_back(when);
    return;
  }
  const auto got = static_cast<std::uint64_t>(result);
  reads_.push_back(
      {when, call.opened, offset, wanted, got, std::vector<unsigned char>(data, data + got)});
}

void FileHistory::end_failed(Call call) {
  const OneStep whole;
  errors_.push_back({call.began, ++now_});
}

void FileHistory::may_lose() {
  const OneStep whole;
  errors_.push_back({++now_, never});
}

void FileHistory::end_sync(Call call, int result) {
  const OneStep whole;
  if (result == -ESHUTDOWN) return;
  (result == 0 ? syncs_ : errors_).push_back({call.began, ++now_, call.by});
  if (result == 0 && call.by == Domain::device) publications_.push_back(syncs_.back());
}

void FileHistory::end_publication(Call call, int result) {
  const OneStep whole;
  if (result == -ESHUTDOWN) return;
  (result == 0 ? publications_ : errors_).push_back({call.began, ++now_});
}

// With what later calls say of each write.
std::vector<FileHistory::Write> FileHistory::judged() const {
  std::vector<Write> writes = writes_;
  for (Write& write : writes) {
    if (write.by == Domain::bulk || write.is_truncation()) write.published = write.ended;
    for (const Span& publication : publications_)
      if (publication.began > write.ended)
        write.published = std::min(write.published, publication.ended);
    const auto covers = [&](const Span& sync) {
      return sync.began > (sync.by == write.by ? write.ended : write.published);
    };
    for (const Span& error : errors_) {
      const bool saved = std::any_of(syncs_.begin(), syncs_.end(), [&](const Span& sync) {
        return covers(sync) && sync.ended < error.began;
      });
      if (error.ended > write.began && !saved) write.may_be_lost = true;
    }
    write.synced = !write.may_be_lost && std::any_of(syncs_.begin(), syncs_.end(), covers);
  }
  return writes;
}

bool FileHistory::may_be_found(const std::vector<Write>& writes, std::uint64_t at,
                               unsigned char value, const Read& read, Replaced by) {
  const auto must_be_found = [&](const Write& write) {
    const bool counts = by == Replaced::by_writes ? !write.may_be_lost : write.synced;
    return counts && write.first <= at && at < write.certain &&
           ((write.by == read.when.by && write.ended < read.when.began) ||
            write.published < read.opened);
  };
  // Null: what was there at first.
  const auto is_replaced = [&](const Write* one) {
    return std::any_of(writes.begin(), writes.end(), [&](const Write& other) {
      return must_be_found(other) && (one == nullptr || other.follows(*one));
    });
  };
  if (value == 0 && !is_replaced(nullptr)) return true;  // never written
  return std::any_of(writes.begin(), writes.end(), [&](const Write& write) {
    return write.value == value && write.first <= at && at < write.last &&
           write.began < read.when.ended && !is_replaced(&write);
  });
}

std::string FileHistory::check(const std::vector<Write>& writes, const Read& read,
                               Replaced by) const {
  // Between two of these all bytes have the same writes.
  std::vector<std::uint64_t> edges{read.offset, read.offset + read.wanted};
  for (const Write& write : writes)
    for (const std::uint64_t edge : {write.first, write.last, write.certain})
      if (read.offset < edge && edge < read.offset + read.wanted) edges.push_back(edge);
  std::sort(edges.begin(), edges.end());
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) {
    int known = -1;  // a value that may be there
    for (std::uint64_t at = edges[i]; at < edges[i + 1]; ++at) {
      const std::uint64_t index = at - read.offset;
      const unsigned char value = index < read.got ? read.data[index] : 0;
      if (value == known || (value != 0 && value == stray_)) continue;
      if (!may_be_found(writes, at, value, read, by)) {
        std::string text = name_ + ": byte " + std::to_string(at) + " has " +
                           std::to_string(value) + " in a transfer of " + std::to_string(read.got) +
                           " of " + std::to_string(read.wanted) + " bytes at " +
                           std::to_string(read.offset) + " during " +
                           std::to_string(read.when.began) + "-" + std::to_string(read.when.ended) +
                           (read.when.by == Domain::bulk ? " by bulk" : "") + ", opened " +
                           std::to_string(read.opened);
        text += "; its writes:";
        for (const Write& write : writes) {
          if (write.first > at || write.last <= at) continue;
          text +=
              "\n  " + std::to_string(write.value) + " " + std::to_string(write.first) + "-" +
              std::to_string(write.last) + " during " + std::to_string(write.began) + "-" +
              std::to_string(write.ended) + (write.certain > at ? "" : " failed") +
              (write.by == Domain::bulk ? " by bulk" : "") +
              (write.published != never ? " published " + std::to_string(write.published) : "") +
              (write.may_be_lost ? " may be lost" : "") + (write.synced ? " synced" : "");
        }
        return text;
      }
      known = value;
    }
  }
  return "";
}

std::string FileHistory::check_reads() const {
  const std::vector<Write> writes = judged();
  for (const Read& read : reads_) {
    std::string problem = check(writes, read, Replaced::by_writes);
    if (!problem.empty()) return "a read of " + problem;
  }
  return "";
}

std::string FileHistory::check_contents(const std::string& bytes) const {
  const Read all{{never - 1, never},
                 never - 1,
                 0,
                 std::max<std::uint64_t>(bytes.size(), 1 << 16),
                 bytes.size(),
                 {bytes.begin(), bytes.end()}};
  const std::string problem = check(judged(), all, Replaced::by_writes);
  return problem.empty() ? "" : "the storage's " + problem;
}

std::string FileHistory::check_after_power_cut(const std::string& bytes) const {
  const Read all{{never - 1, never},
                 never - 1,
                 0,
                 std::max<std::uint64_t>(bytes.size(), 1 << 16),
                 bytes.size(),
                 {bytes.begin(), bytes.end()}};
  const std::string problem = check(judged(), all, Replaced::by_synced_writes);
  return problem.empty() ? "" : "after a power cut, " + problem;
}

// ---- records

unsigned LogHistory::begin_append(std::uint64_t bytes) {
  const OneStep whole;
  if (records_.size() == FileHistory::values_max) return 0;
  records_.push_back({bytes, ++now_});
  return static_cast<unsigned>(records_.size());
}

void LogHistory::end_append(unsigned value, std::int64_t result) {
  const OneStep whole;
  Record& record = records_[value - 1];
  record.ended = ++now_;
  record.done = result == static_cast<std::int64_t>(record.bytes);
}

LogHistory::Time LogHistory::begin() {
  const OneStep whole;
  return ++now_;
}

void LogHistory::end_sync(Time began, int result) {
  const OneStep whole;
  if (result != 0) return;
  for (Record& record : records_)
    if (record.done && record.ended < began) record.synced = true;
}

std::string LogHistory::check_read(const unsigned char* data, std::int64_t got) const {
  const OneStep whole;
  for (std::int64_t i = 0; i < got; ++i)
    if (data[i] == 0 || data[i] > records_.size())
      return "a read of the log has " + std::to_string(data[i]) + " at byte " + std::to_string(i);
  return "";
}

std::string LogHistory::check(const std::string& bytes, bool only_synced) const {
  const std::string where = only_synced ? "after a power cut, the log" : "the log";
  std::vector<std::pair<std::size_t, Record>> found;
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_[i];
    if (!record.done || (only_synced && !record.synced)) continue;
    const auto value = static_cast<char>(i + 1);
    const std::size_t first = bytes.find(value);
    const std::string whole(record.bytes, value);
    if (first == std::string::npos || bytes.compare(first, record.bytes, whole) != 0 ||
        bytes.find(value, first + record.bytes) != std::string::npos)
      return where + " does not have record " + std::to_string(i + 1) + " once and in one piece";
    found.emplace_back(first, record);
  }
  for (const auto& [at, record] : found)
    for (const auto& [other_at, other] : found)
      if (record.ended < other.began && at > other_at)
        return where + " has a record before one that was acknowledged earlier";
  return "";
}

}  // namespace ferry::simulator
