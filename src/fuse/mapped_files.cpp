#include "fuse/mapped_files.hpp"

namespace ferry::fuse {

using storage::Kind;

std::uint64_t MappedFiles::add(const MappedFilePointer& opened) {
  const std::lock_guard lock(mutex_);
  const auto other = files_.lower_bound({opened->node, 0});
  const bool is_open = other != files_.end() && other->second->node == opened->node;
  opened->gathered =
      is_open ? other->second->gathered : std::make_shared<GatheredWrites>(gathering_);
  files_[{opened->node, ++last_}] = opened;
  return last_;
}

MappedFilePointer MappedFiles::find(std::uint64_t node, std::uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find({node, number});
  return found == files_.end() ? nullptr : found->second;
}

// What is closed has left files_ before, so the shared lock is free.
BorrowedFile MappedFiles::borrow(std::uint64_t node, bool writes) const {
  const std::lock_guard lock(mutex_);
  for (auto at = files_.lower_bound({node, 0}); at != files_.end() && at->first.first == node; ++at)
    if (at->second->file != nullptr && (!writes || at->second->writes))
      return {at->second, std::shared_lock(at->second->closing)};
  return {};
}

void MappedFiles::end(storage::SyncCalls& calls, MappedFile& opened) {
  if (opened.file == nullptr) return;
  opened.gathered->leave(calls, opened.written);
  const std::unique_lock lock(opened.closing);
  calls.run({.kind = Kind::close, .file = opened.file.release()});
}

HiddenName MappedFiles::close(storage::SyncCalls& calls, std::uint64_t node, std::uint64_t number) {
  // Before another open may miss that there is something: a mapping writes after the last flush.
  settle(calls, node);
  MappedFilePointer opened;
  HiddenName hidden;
  {
    const std::lock_guard lock(mutex_);
    const auto found = files_.find({node, number});
    if (found == files_.end()) return {};
    opened = std::move(found->second);
    files_.erase(found);
    const auto other = files_.lower_bound({node, 0});
    if (other == files_.end() || other->first.first != node) hidden = opened->hidden;
  }
  end(calls, *opened);
  return hidden;
}

void MappedFiles::close_all(storage::SyncCalls& calls) {
  std::map<Key, MappedFilePointer> files;
  {
    const std::lock_guard lock(mutex_);
    files.swap(files_);
  }
  for (const auto& [key, opened] : files)
    end(calls, *opened);
  for (const auto& [key, opened] : files)
    if (!opened->hidden.name.empty())
      calls.run({.kind = Kind::unlink, .path = opened->hidden.path.c_str()});
}

bool MappedFiles::hide(std::uint64_t node, const HiddenName& name) {
  const std::lock_guard lock(mutex_);
  bool found = false;
  for (auto at = files_.lower_bound({node, 0}); at != files_.end() && at->first.first == node;
       ++at) {
    at->second->hidden = name;
    found = true;
  }
  return found;
}

std::shared_ptr<GatheredWrites> MappedFiles::gathered_of(std::uint64_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.lower_bound({node, 0});
  return found != files_.end() && found->first.first == node ? found->second->gathered : nullptr;
}

void MappedFiles::note_other_names(std::uint64_t node) {
  if (const auto gathered = gathered_of(node); gathered != nullptr) gathered->stop();
}

// A request that must see a write comes after the write's answer, so it sees its count.
void MappedFiles::settle(storage::SyncCalls& calls, std::uint64_t node) const {
  if (gathering_ == 0) return;
  if (const auto gathered = gathered_of(node); gathered != nullptr) gathered->settle(calls);
}

void MappedFiles::settle_all(storage::SyncCalls& calls) const {
  if (gathering_ == 0) return;
  std::vector<std::shared_ptr<GatheredWrites>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, opened] : files_)
      if (all.empty() || all.back() != opened->gathered) all.push_back(opened->gathered);
  }
  for (const auto& gathered : all)
    gathered->settle(calls);
}

}  // namespace ferry::fuse
