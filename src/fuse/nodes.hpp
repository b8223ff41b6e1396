// The kernel's numbers of files (nodes), and the names that they stand for.
//
// The kernel speaks of files by nodes, storages by paths. A node keeps its number when its name
// changes, and loses its name when that is removed or becomes another file's. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace ferry::fuse {

class Nodes {
 public:
  static constexpr std::uint64_t root = 1;

  Nodes();
  // "" for the root, "/name/name" for others; nothing for a node without a name.
  std::optional<std::string> path(std::uint64_t node) const;
  std::optional<std::string> path(std::uint64_t folder, std::string_view name) const;
  // For an answer that names a file to the kernel, which forgets it as often: the name's node. A
  // name whose file has another inode than before stands for another node.
  std::uint64_t remember(std::uint64_t folder, std::string_view name, std::uint64_t inode,
                         std::uint32_t mode);
  // As it was when it was last remembered; nothing for a node that the kernel does not know.
  struct Known {
    std::uint64_t inode = 0;
    std::uint32_t mode = 0;
    std::uint64_t told_bytes = 0;  // its size as the kernel was last told
  };
  std::optional<Known> known(std::uint64_t node) const;
  void tell_bytes(std::uint64_t node, std::uint64_t bytes);
  // Returns whether the kernel knows it no more.
  bool forget(std::uint64_t node, std::uint64_t times);
  // The node that the kernel knows by this name; 0: none.
  std::uint64_t find(std::uint64_t folder, std::string_view name) const;
  void removed(std::uint64_t folder, std::string_view name);
  void renamed(std::uint64_t folder, std::string_view name, std::uint64_t new_folder,
               std::string_view new_name);

 private:
  struct Node {
    std::uint64_t number = root;
    std::shared_ptr<Node> folder;  // null: the root, or without a name
    std::string name;
    Known known;
    std::uint64_t lookups = 0;
  };
  using Name = std::pair<std::uint64_t, std::string>;  // the folder's number, and the name in it

  static Name name_of(const Node& node) { return {node.folder->number, node.name}; }
  std::optional<std::string> path_locked(std::uint64_t node) const;
  void lose_name(Node& node);

  mutable std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Node>> nodes_;
  std::map<Name, std::shared_ptr<Node>, std::less<>> names_;
  std::uint64_t last_ = root;
};

}  // namespace ferry::fuse
