// Views, sizes and statistics of files of collective I/O.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings/c/growing_struct.hpp"
#include "bindings/c/mpi/collective_handles.hpp"

namespace ferry::c {
namespace {

using collective::Call;
using collective::Phases;
using collective::Representation;
using collective::TypeMap;

static_assert(FERRY_MPI_ORDER_NATIVE == static_cast<int>(ByteOrder::native));
static_assert(FERRY_MPI_ORDER_LITTLE == static_cast<int>(ByteOrder::little));
static_assert(FERRY_MPI_ORDER_BIG == static_cast<int>(ByteOrder::big));

struct View {
  std::shared_ptr<const TypeMap> map;
  Representation representation;
};

View view_of(const ferry_mpi_map* map, std::uint32_t byte_order, std::uint32_t element_bytes) {
  constexpr std::uint32_t element_bytes_max = 16;
  if (byte_order > FERRY_MPI_ORDER_BIG) refuse("byte_order: one of FERRY_MPI_ORDER_...");
  if (element_bytes > element_bytes_max) refuse("element_bytes: 1, 2, 4, 8 or 16");
  return {CollectiveMaps::mine().get(map),
          {static_cast<ByteOrder>(byte_order), static_cast<int>(element_bytes)}};
}

ferry_mpi_phases phases_of(const Phases& phases) {
  const auto whole = [](double time_ns) { return static_cast<std::int64_t>(time_ns); };
  return {whole(phases.plan_ns),    whole(phases.exchange_ns), whole(phases.pack_ns),
          whole(phases.file_io_ns), whole(phases.sync_ns),     whole(phases.wait_ns)};
}

// Of those that the ranks agreed on, which are not negative.
ferry_mpi_statistics statistics_of(const collective::Statistics& found) {
  return {sizeof(ferry_mpi_statistics),
          phases_of(found.mean),
          phases_of(found.maximum),
          found.counts.messages,
          found.counts.message_bytes,
          found.counts.remote_messages,
          found.counts.remote_bytes,
          found.counts.shared_bytes,
          found.counts.storage_requests,
          found.counts.storage_bytes,
          found.counts.storage_opens,
          found.counts.gpu_bytes,
          static_cast<std::uint64_t>(found.buffer_bytes),
          static_cast<std::uint64_t>(found.stripes.stripe_bytes),
          static_cast<std::uint32_t>(found.stripes.stripe_count),
          static_cast<std::uint32_t>(found.method),
          static_cast<std::uint32_t>(found.writers),
          0};
}

}  // namespace

int64_t copy_text(const std::string& found, char* text, std::uint64_t text_bytes) {
  if (text_bytes > 0) {
    const std::uint64_t shown = std::min<std::uint64_t>(found.size(), text_bytes - 1);
    std::memcpy(given(text, "text"), found.data(), shown);
    text[shown] = '\0';
  }
  return static_cast<int64_t>(found.size());
}

}  // namespace ferry::c

using namespace ferry::c;

int ferry_mpi_set_view(ferry_mpi_file* file, int64_t displacement_bytes, const ferry_mpi_map* view,
                       uint32_t byte_order, uint32_t element_bytes) {
  return guarded([&] {
    const auto open = collective_file(file);
    const View own =
        prepared(*open, Call::set_view, [&] { return view_of(view, byte_order, element_bytes); });
    open->set_view(displacement_bytes, *own.map, own.representation);
    return 0;
  });
}

int ferry_mpi_sync(ferry_mpi_file* file) {
  return guarded([&] {
    collective_file(file)->sync();
    return 0;
  });
}

int ferry_mpi_resize(ferry_mpi_file* file, uint64_t size_bytes) {
  return guarded([&] {
    const auto open = collective_file(file);
    open->resize(prepared(*open, Call::resize, [&] { return bounded(size_bytes, "size_bytes"); }));
    return 0;
  });
}

int64_t ferry_mpi_size(ferry_mpi_file* file) {
  return guarded([&]() -> int64_t { return collective_file(file)->size_bytes(); });
}

int ferry_mpi_get_statistics(ferry_mpi_file* file, ferry_mpi_statistics* statistics) {
  return guarded([&] {
    const auto open = collective_file(file);
    prepared(*open, Call::statistics, [&] { return size_of_theirs(statistics, "statistics"); });
    write_struct(statistics, statistics_of(open->statistics()), "statistics");
    return 0;
  });
}

int64_t ferry_mpi_explain(ferry_mpi_file* file, char* text, uint64_t text_bytes) {
  return guarded([&] {
    const auto open = collective_file(file);
    prepared(*open, Call::statistics, [&] { return text_bytes > 0 ? given(text, "text") : text; });
    return copy_text(to_json(open->statistics()), text, text_bytes);
  });
}

int64_t ferry_mpi_writers(ferry_mpi_file* file, int* ranks, uint64_t count) {
  return guarded([&] {
    const auto open = collective_file(file);
    const std::vector<int>& writers = open->writers();
    const std::uint64_t stored = std::min<std::uint64_t>(writers.size(), count);
    if (stored > 0) std::copy_n(writers.begin(), stored, given(ranks, "ranks"));
    return static_cast<int64_t>(writers.size());
  });
}

int ferry_mpi_get_hints(ferry_mpi_file* file, MPI_Info* hints) {
  return guarded([&] {
    *given(hints, "hints") = MPI_INFO_NULL;
    *hints = collective_file(file)->hints();
    return 0;
  });
}

int64_t ferry_mpi_warnings(ferry_mpi_file* file, char* text, uint64_t text_bytes) {
  return guarded([&] {
    std::string lines;
    for (const std::string& warning : collective_file(file)->warnings())
      lines += warning + '\n';
    return copy_text(lines, text, text_bytes);
  });
}
