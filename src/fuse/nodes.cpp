#include "fuse/nodes.hpp"

#include <algorithm>

namespace ferry::fuse {

Nodes::Nodes() {
  nodes_[root] = std::make_shared<Node>();
}

std::optional<std::string> Nodes::path_locked(std::uint64_t node) const {
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return {};
  const Node* at = found->second.get();
  std::string path;
  for (; at->folder != nullptr; at = at->folder.get())
    path.insert(0, "/" + at->name);
  return at->number == root ? std::optional(path) : std::nullopt;
}

std::optional<std::string> Nodes::path(std::uint64_t node) const {
  const std::lock_guard lock(mutex_);
  return path_locked(node);
}

std::optional<std::string> Nodes::path(std::uint64_t folder, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  std::optional<std::string> path = path_locked(folder);
  if (path) path->append("/").append(name);
  return path;
}

std::uint64_t Nodes::remember(std::uint64_t folder, std::string_view name, std::uint64_t inode,
                              std::uint32_t mode) {
  const std::lock_guard lock(mutex_);
  const auto above = nodes_.find(folder);
  if (above == nodes_.end()) return 0;
  const Name key(folder, name);
  if (const auto known = names_.find(key); known != names_.end()) {
    const std::shared_ptr<Node> node = known->second;
    if (node->known.inode == inode) {
      node->known.mode = mode;
      ++node->lookups;
      return node->number;
    }
    lose_name(*node);
  }
  auto node = std::make_shared<Node>(
      Node{++last_, above->second, std::string(name), {inode, mode}, std::uint64_t{1}});
  nodes_[node->number] = node;
  names_[key] = node;
  return node->number;
}

std::optional<Nodes::Known> Nodes::known(std::uint64_t node) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? std::nullopt : std::optional(found->second->known);
}

void Nodes::tell_bytes(std::uint64_t node, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (const auto found = nodes_.find(node); found != nodes_.end())
    found->second->known.told_bytes = bytes;
}

bool Nodes::forget(std::uint64_t node, std::uint64_t times) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || node == root) return false;
  const std::shared_ptr<Node> one = found->second;
  one->lookups -= std::min(times, one->lookups);
  if (one->lookups > 0) return false;
  nodes_.erase(found);  // nodes below it find their path through it as long as they are known
  if (one->folder == nullptr) return true;
  if (const auto name = names_.find(name_of(*one)); name != names_.end() && name->second == one)
    names_.erase(name);
  return true;
}

std::uint64_t Nodes::find(std::uint64_t folder, std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto known = names_.find(Name(folder, name));
  return known == names_.end() ? 0 : known->second->number;
}

void Nodes::lose_name(Node& node) {
  names_.erase(name_of(node));
  node.folder = nullptr;
}

void Nodes::removed(std::uint64_t folder, std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (const auto known = names_.find(Name(folder, name)); known != names_.end()) {
    const std::shared_ptr<Node> node = known->second;
    lose_name(*node);
  }
}

void Nodes::renamed(std::uint64_t folder, std::string_view name, std::uint64_t new_folder,
                    std::string_view new_name) {
  const std::lock_guard lock(mutex_);
  const Name from(folder, name);
  const Name to(new_folder, new_name);
  if (from == to) return;
  if (const auto replaced = names_.find(to); replaced != names_.end()) {
    const std::shared_ptr<Node> node = replaced->second;
    lose_name(*node);
  }
  const auto known = names_.find(from);
  const auto above = nodes_.find(new_folder);
  if (known == names_.end()) return;
  const std::shared_ptr<Node> node = known->second;
  names_.erase(known);
  if (above == nodes_.end()) {
    node->folder = nullptr;
    return;
  }
  node->folder = above->second;
  node->name = new_name;
  names_[to] = node;
}

}  // namespace ferry::fuse
