#include "collective/domains.hpp"

#include <map>

namespace ferry::collective {

std::vector<int> choose_writers(std::span<const int> node_of, int count) {
  std::vector<std::vector<int>> nodes;  // by lowest rank, so that rank 0's comes first
  std::map<int, std::size_t> known;
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    const auto [found, is_new] = known.try_emplace(node_of[rank], nodes.size());
    if (is_new) nodes.emplace_back();
    nodes[found->second].push_back(static_cast<int>(rank));
  }
  // The number of writers on each node, given in turn while it has ranks.
  std::vector<std::size_t> given(nodes.size(), 0);
  auto left = std::min(static_cast<std::size_t>(std::max(count, 1)), node_of.size());
  while (left > 0) {
    for (std::size_t node = 0; node < nodes.size() && left > 0; ++node) {
      if (given[node] == nodes[node].size()) continue;
      ++given[node];
      --left;
    }
  }
  std::vector<int> writers;
  const std::size_t most = *std::max_element(given.begin(), given.end());
  for (std::size_t turn = 0; turn < most; ++turn)
    for (std::size_t node = 0; node < nodes.size(); ++node)
      if (turn < given[node])
        writers.push_back(nodes[node][turn * nodes[node].size() / given[node]]);
  return writers;
}

}  // namespace ferry::collective
