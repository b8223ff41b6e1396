#include "collective/plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace ferry::collective {
namespace {

// The elements for one round, of a list sorted by round.
template <class Element, class RoundOf>
std::span<Element> of_round(std::vector<Element>& list, int round, RoundOf round_of) {
  const auto first = std::partition_point(
      list.begin(), list.end(), [&](const Element& one) { return round_of(one) < round; });
  const auto last = std::partition_point(
      first, list.end(), [&](const Element& one) { return round_of(one) <= round; });
  return {first, last};
}

MPI_Datatype type_of_bytes(std::size_t bytes) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(static_cast<int>(bytes), MPI_BYTE, &type);
  MPI_Type_commit(&type);
  return type;
}

// A header and its receiving rank.
struct Sent {
  int rank = 0;
  Header header;
};

std::vector<int> offsets_of(const std::vector<int>& counts) {
  std::vector<int> offsets(counts.size(), 0);
  std::exclusive_scan(counts.begin(), counts.end(), offsets.begin(), 0);
  return offsets;
}

// Collective: sends headers, and returns this rank's, with their senders.
std::vector<Contribution> exchanged(const Team& team, std::vector<Sent> sent) {
  const auto ranks = static_cast<std::size_t>(team.size());
  // An all-to-all needs its blocks by rank.
  std::stable_sort(sent.begin(), sent.end(),
                   [](const Sent& a, const Sent& b) { return a.rank < b.rank; });
  std::vector<Header> headers;
  std::vector<int> sent_counts(ranks, 0);
  for (const Sent& one : sent) {
    headers.push_back(one.header);
    ++sent_counts[static_cast<std::size_t>(one.rank)];
  }
  std::vector<int> got_counts(ranks, 0);
  MPI_Request pending = MPI_REQUEST_NULL;
  MPI_Ialltoall(sent_counts.data(), 1, MPI_INT, got_counts.data(), 1, MPI_INT, team.communicator(),
                &pending);
  team.wait(pending);
  const auto sent_offsets = offsets_of(sent_counts);
  const auto got_offsets = offsets_of(got_counts);
  std::vector<Header> got(static_cast<std::size_t>(got_offsets.back() + got_counts.back()));
  MPI_Datatype header_type = type_of_bytes(sizeof(Header));
  MPI_Ialltoallv(headers.data(), sent_counts.data(), sent_offsets.data(), header_type, got.data(),
                 got_counts.data(), got_offsets.data(), header_type, team.communicator(), &pending);
  team.wait(pending);
  MPI_Type_free(&header_type);

  std::vector<Contribution> contributions;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < got_counts[rank]; ++i) {
      Contribution& one = contributions.emplace_back();
      one.header = got[contributions.size() - 1];
      one.rank = static_cast<int>(rank);
    }
  }
  return contributions;
}

}  // namespace

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

ExchangePlan::ExchangePlan(const MethodContext& context, const RankRequest& request,
                           std::vector<RoundPart> parts, std::optional<Domains> domains)
    : parts_(std::move(parts)), domains_(domains), run_type_(type_of_bytes(sizeof(Run))) {
  for (std::size_t i = 0; i < context.writers.size(); ++i)
    if (context.writers[i] == context.team.rank()) own_writer_ = static_cast<int>(i);
  tell_owners(context, request);
  find_relays();
  if (context.node_memory != nullptr && context.node_memory->relays()) tell_writers(context);
  std::stable_sort(parts_.begin(), parts_.end(),
                   [](const RoundPart& a, const RoundPart& b) { return a.round < b.round; });
  std::stable_sort(
      contributions_.begin(), contributions_.end(),
      [](const Contribution& a, const Contribution& b) { return a.header.round < b.header.round; });
  if (!parts_.empty()) rounds_ = parts_.back().round + 1;
  if (!relays_.empty()) rounds_ = std::max(rounds_, relays_.back().round + 1);
  if (!contributions_.empty()) {
    rounds_ = std::max(rounds_, static_cast<int>(contributions_.back().header.round) + 1);
  }
}

ExchangePlan::~ExchangePlan() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Type_free(&run_type_);
}

void ExchangePlan::shift(std::int64_t stream, std::int64_t distance) {
  for (RoundPart& part : parts_)
    part.stream += stream;
  for (std::vector<Contribution>* list : {&contributions_, &relayed_})
    for (Contribution& one : *list)
      one.header.first.offset += distance;
  for (Relay& relay : relays_)
    if (relay.run) relay.run->offset += distance;
  if (domains_) domains_->shift(distance);
}

std::span<RoundPart> ExchangePlan::parts(int round) {
  return of_round(parts_, round, [](const RoundPart& part) { return part.round; });
}

std::span<Contribution> ExchangePlan::contributions(int round) {
  return of_round(contributions_, round, [](const Contribution& one) { return one.header.round; });
}

std::span<Relay> ExchangePlan::relays(int round) {
  return of_round(relays_, round, [](const Relay& relay) { return relay.round; });
}

void ExchangePlan::tell_owners(const MethodContext& context, const RankRequest& request) {
  std::vector<Sent> sent;
  for (RoundPart& part : parts_) {
    const auto runs = runs_of(request.view.map, request.view.displacement, part.stream, part.bytes);
    part.run_count = static_cast<std::int64_t>(runs.size());
    part.owner = context.writers[static_cast<std::size_t>(part.writer)];
    if (context.node_memory != nullptr) {
      part.owner = context.node_memory->owner(part.writer);
      part.shared = part.owner != context.team.rank() && context.node_memory->reaches(part.writer);
    }
    sent.push_back({part.owner,
                    {part.round, part.bytes, part.run_count, part.writer,
                     part.shared ? Delivery::shared : Delivery::message, runs.front()}});
  }
  for (Contribution& one : exchanged(context.team, std::move(sent)))
    (one.writer() == own_writer_ ? contributions_ : relayed_).push_back(std::move(one));
}

void ExchangePlan::find_relays() {
  std::stable_sort(relayed_.begin(), relayed_.end(),
                   [](const Contribution& a, const Contribution& b) {
                     return std::pair(a.header.round, a.header.writer) <
                            std::pair(b.header.round, b.header.writer);
                   });
  for (auto first = relayed_.begin(); first != relayed_.end();) {
    const auto last = std::find_if(first, relayed_.end(), [&](const Contribution& one) {
      return one.header.round != first->header.round || one.header.writer != first->header.writer;
    });
    relays_.push_back(
        {static_cast<int>(first->header.round), first->writer(), std::span(first, last), {}});
    first = last;
  }
}

void ExchangePlan::tell_writers(const MethodContext& context) {
  std::vector<Sent> sent;
  for (Relay& relay : relays_) {
    std::vector<Run> runs;
    for (const Contribution& one : relay.contributions)
      runs.push_back(one.header.first);
    if (relay.runs_max() == static_cast<std::int64_t>(runs.size())) merge(runs, 0);
    if (runs.size() == 1 && bytes_of(runs) == relay.bytes_max()) relay.run = runs.front();
    sent.push_back({context.writers[static_cast<std::size_t>(relay.writer)],
                    {relay.round, relay.bytes_max(), relay.run ? 1 : relay.runs_max(), relay.writer,
                     relay.run ? Delivery::message : Delivery::merged, runs.front()}});
  }
  for (Contribution& one : exchanged(context.team, std::move(sent)))
    contributions_.push_back(std::move(one));
}

std::vector<RoundPart> aggregate_parts(const RankRequest& request, const Domains& domains) {
  std::vector<RoundPart> parts;
  const std::int64_t last = request.stream + request.bytes;
  for (std::int64_t stream = request.stream; stream < last;) {
    const std::int64_t position = request.view.position_of(stream);
    const int writer = domains.writer_of(position);
    const int round = domains.round_of(position);
    const Extent window = domains.window(writer, round);
    const std::int64_t behind =
        std::min(last, request.view.stream_at(window.offset + window.bytes));
    parts.push_back({round, writer, stream, behind - stream});
    stream = behind;
  }
  return parts;
}

std::vector<RoundPart> serial_parts(const RankRequest& request,
                                    std::span<const std::int64_t> bytes_of,
                                    std::span<const int> group_of, int rank,
                                    std::int64_t buffer_bytes) {
  const auto self = static_cast<std::size_t>(rank);
  std::int64_t round = 0;
  for (std::size_t r = 0; r < self; ++r)
    if (group_of[r] == group_of[self]) round += (bytes_of[r] + buffer_bytes - 1) / buffer_bytes;
  std::vector<RoundPart> parts;
  for (std::int64_t done = 0; done < request.bytes; done += buffer_bytes, ++round) {
    const std::int64_t bytes = std::min(buffer_bytes, request.bytes - done);
    parts.push_back({static_cast<int>(round), group_of[self], request.stream + done, bytes});
  }
  return parts;
}

std::vector<int> groups_of(std::span<const int> node_of, std::span<const int> writers) {
  std::vector<int> groups(node_of.size(), 0);
  for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
    // The writer on the same node with the highest rank up to this one.
    int best = -1;
    for (std::size_t i = 0; i < writers.size(); ++i) {
      const auto writer = static_cast<std::size_t>(writers[i]);
      if (node_of[writer] != node_of[rank] || writer > rank) continue;
      if (best < 0 || writers[i] > writers[static_cast<std::size_t>(best)])
        best = static_cast<int>(i);
    }
    groups[rank] = best >= 0 ? best : static_cast<int>(rank % writers.size());
  }
  return groups;
}

}  // namespace ferry::collective
