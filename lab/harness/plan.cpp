#include "harness/plan.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>
#include <utility>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include "harness/json_fields.hpp"
#include "harness/layout.hpp"
#include "harness/mpi/rank_part.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 3> device_names = {"cpu", "cuda", "ranks"};
constexpr std::array<const char*, 6> interface_names = {"ferry", "posix", "mmap",
                                                        "uring", "mpiio", "native"};
constexpr std::array<const char*, 3> operation_names = {"read", "write", "mixed"};
constexpr std::array<const char*, 5> program_names = {"stream", "iterative", "once", "files",
                                                      "metadata"};
constexpr std::array<const char*, 4> placement_names = {"host", "compute", "service", "automatic"};
constexpr std::array<const char*, 3> reorder_names = {"none", "neighbour", "random"};
constexpr std::array<const char*, 4> sync_names = {"none", "flush", "fsync", "flush+fsync"};
constexpr std::array<const char*, 5> method_names = {"automatic", "independent", "serial",
                                                     "aggregate", "mpiio"};
constexpr std::array<const char*, 3> order_names = {"native", "little", "big"};
constexpr std::array<const char*, 3> engine_names = {"automatic", "io_uring", "threads"};
constexpr unsigned ferry_queue_depth_max = device::cells_per_group_max - 1;
constexpr unsigned queue_depth_max = 1024;
constexpr std::uint64_t files_max = std::uint64_t{1} << 16;  // of a cell with program files
constexpr std::uint64_t buffer_offset_bytes_max = 4095;
constexpr double zipf_exponent_max = 10;
constexpr unsigned segments_max = 1U << 20;
constexpr unsigned passes_max = 1U << 20;
constexpr std::uint64_t deadline_ms_max = std::uint64_t{1000} * 3600 * 24 * 365;
constexpr std::uint64_t calls_max = std::uint64_t{1} << 28;
constexpr std::uint64_t arena_slack_bytes = std::uint64_t{4} << 20;
constexpr std::uint64_t cache_bytes_least = std::uint64_t{64} << 20;  // where nobody says more
constexpr std::uint32_t page_bytes_default = 64 << 10;
constexpr unsigned threads_max = 4096;
constexpr unsigned ranks_max = 1U << 16;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 62;
// MPI counts bytes of one call with an int.
constexpr std::uint64_t ranks_transfer_bytes_max = std::uint64_t{1} << 30;
constexpr unsigned repeats_max = 1'000'000;
constexpr unsigned variants_max = 64;
constexpr std::uint64_t time_limit_ms_max = 86'400'000;  // a day

void check_sizes(const Cell& cell, const Fields& fields) {
  // One step after the other: the product of all three may be more than 64 bits hold.
  const std::uint64_t step_bytes = cell.transfer_bytes * cell.threads;
  fields.refuse_if(
      cell.total_bytes % step_bytes != 0 || cell.total_bytes / step_bytes % cell.segments != 0,
      "total_bytes",
      "must be a multiple of transfer_bytes times threads and segments, or times ranks");
  fields.refuse_if(cell.call_bytes() > device::transfer_bytes_max, "transfer_bytes",
                   "one call moves less than 2 GiB");
  fields.refuse_if(cell.calls_per_thread() > calls_max, "transfer_bytes",
                   "makes too many calls; the limit is 2^28 for each thread");
  const bool deep = cell.interface == Interface::ferry || cell.interface == Interface::uring;
  fields.refuse_if(cell.queue_depth > 1 && (!deep || cell.program != Program::stream),
                   "queue_depth", "more than 1 needs interface ferry or uring and program stream");
  fields.refuse_if(cell.queue_depth > ferry_queue_depth_max && cell.interface == Interface::ferry,
                   "queue_depth",
                   "must be from 1 to " + std::to_string(ferry_queue_depth_max) + " for ferry");
}

void check_files(const Cell& cell, const Fields& fields) {
  const auto refuse = [&](const char* key) {
    fields.fail(key, std::string("not with program ") + name_of(cell.program));
  };
  fields.refuse_if(cell.total_bytes / cell.transfer_bytes > files_max, "transfer_bytes",
                   "makes too many files; the limit is 2^16");
  if (cell.file_per_thread) refuse("file_per_thread");
  if (cell.open_files != 0) refuse("open_files");
  if (cell.sync != Sync::none) refuse("sync");
  if (cell.warm) refuse("warm");
  if (cell.rewrite) refuse("rewrite");
  if (cell.program == Program::files) return;
  fields.refuse_if(cell.operation != MeasuredOperation::write, "operation",
                   "must be write with program metadata");
  const bool is_plain = cell.interface == Interface::posix;
  fields.refuse_if(cell.interface != Interface::ferry && !is_plain, "interface",
                   "must be ferry or posix with program metadata");
  if (cell.keep) refuse("keep");
  if (cell.overwrite) refuse("overwrite");
  if (cell.direct) refuse("direct");
}

void check_open_files(const Cell& cell, const Fields& fields) {
  if (cell.open_files == 0) return;
  const bool plain = cell.operation == MeasuredOperation::read && cell.program == Program::stream &&
                     cell.queue_depth == 1 && cell.segments == 1 && cell.stride_bytes == 0 &&
                     cell.offset_bytes == 0 && !cell.file_per_thread && !cell.check &&
                     cell.reorder == Reorder::none;
  fields.refuse_if(!plain, "open_files",
                   "needs reads of program stream, one in flight, without segments, "
                   "stride_bytes, offset_bytes, file_per_thread, reorder and check");
  fields.refuse_if(cell.open_files % cell.threads != 0 ||
                       cell.total_bytes % (cell.transfer_bytes * cell.open_files) != 0,
                   "open_files", "must be a multiple of threads, and each hold whole transfers");
}

void check_pace(const Cell& cell, const Fields& fields) {
  fields.refuse_if(cell.time_ms != 0 && cell.deadline_ms != 0, "time_ms",
                   "and deadline_ms exclude each other");
  fields.refuse_if(cell.ramp_ms != 0 && cell.time_ms == 0, "ramp_ms", "needs time_ms");
  fields.refuse_if(cell.passes > 1 && cell.time_ms != 0, "passes",
                   "and time_ms exclude each other");
  // A read that meets a write to its place in flight may find some of either.
  fields.refuse_if(cell.mixes() && cell.check && cell.may_overlap(), "check",
                   "of mixed calls needs queue_depth 1, or each place once");
  fields.refuse_if(cell.rate_bytes_per_s != 0 && cell.queue_depth > 1, "rate_bytes_per_s",
                   "needs queue_depth 1");
  const double due_bytes =
      static_cast<double>(cell.rate_bytes_per_s) * 1e-3 * static_cast<double>(cell.time_ms);
  fields.refuse_if(cell.rate_bytes_per_s != 0 && cell.time_ms != 0 &&
                       due_bytes < static_cast<double>(cell.transfer_bytes),
                   "rate_bytes_per_s", "makes less than one call in time_ms");
}

void check_program(const Cell& cell, const Fields& fields) {
  if (cell.program == Program::stream) return;
  if (!cell.computes()) check_files(cell, fields);
  const auto refuse = [&](const char* key) { fields.fail(key, "needs program stream"); };
  if (cell.offsets != Offsets::sequential) refuse("pattern");
  if (cell.segments > 1) refuse("segments");
  if (cell.deadline_ms != 0) refuse("deadline_ms");
  if (cell.time_ms != 0) refuse("time_ms");
  if (cell.passes > 1) refuse("passes");
  if (cell.offset_bytes != 0) refuse("offset_bytes");
  if (cell.rate_bytes_per_s != 0) refuse("rate_bytes_per_s");
  if (cell.check) refuse("check");
  if (cell.mixes()) refuse("operation");
  fields.refuse_if(cell.computes() && cell.transfer_bytes % sizeof(std::uint32_t) != 0,
                   "transfer_bytes", "must be a multiple of 4 for this program");
}

// Files of a URI are no files of this machine's kernel.
void check_uri(const Cell& cell, const Fields& fields) {
  if (storage::scheme_of(cell.path) == storage::Scheme::posix) return;
  fields.refuse_if(cell.interface != Interface::ferry && cell.interface != Interface::native,
                   "interface",
                   "must be ferry for a URI; the others reach mounted file systems only");
  fields.refuse_if(cell.direct, "direct", "not for a URI, whose files no kernel's cache holds");
}

// What jobs have not, which share a runtime and its counters.
void check_job(const Cell& cell, const Fields& fields) {
  if (cell.group.empty()) return;
  const auto refuse = [&](const char* key) { fields.fail(key, "not for a job of a group"); };
  if (cell.program != Program::stream) refuse("program");
  if (cell.warm) refuse("warm");
  if (cell.cache_switches) refuse("cache_switches");
  if (cell.variant) refuse("variant");
}

void check_same_part(const Cell& cell, const Fields& fields) {
  if (!cell.same_part) return;
  fields.refuse_if(cell.file_per_thread || cell.segments > 1 || cell.open_files != 0 ||
                       cell.stride_bytes != 0 || cell.program != Program::stream || cell.mixes() ||
                       cell.reorder != Reorder::none,
                   "same_part",
                   "needs reads or writes of program stream, without file_per_thread, segments, "
                   "open_files, stride_bytes and reorder");
}

void check_on_ranks(const Cell& cell, const Fields& fields) {
  const Interface interface = cell.interface;
  fields.refuse_if(
      cell.pattern == RankPattern::interleaved && cell.transfer_bytes % cell.piece_bytes != 0,
      "transfer_bytes", "must be a multiple of piece_bytes");
  fields.refuse_if(cell.pattern == RankPattern::subarray &&
                       (cell.file_per_writer ||
                        Subarray(cell.total_bytes, 0, cell.threads).bytes() != cell.part_bytes()),
                   "pattern", "cannot be subarray: that many ranks do not divide the array");
  fields.refuse_if((cell.element_bytes & (cell.element_bytes - 1)) != 0, "element_bytes",
                   "must be 1, 2, 4, 8 or 16");
  fields.refuse_if(cell.order != ByteOrder::native && cell.transfer_bytes % cell.element_bytes != 0,
                   "transfer_bytes", "must be a multiple of element_bytes");
  fields.refuse_if(cell.writers > cell.threads, "writers", "must be at most ranks");
  fields.refuse_if(cell.file_per_writer && cell.writers == 0, "writers", "must be given");
  const bool alone = interface == Interface::posix || interface == Interface::native;
  fields.refuse_if(alone && cell.writers != 0 && cell.writers != cell.threads, "writers",
                   "are all ranks where none sends its data to another");
  fields.refuse_if(interface != Interface::ferry && cell.order != ByteOrder::native, "byte_order",
                   "is for interface ferry");
  fields.refuse_if(cell.collective && interface != Interface::mpiio &&
                       !(interface == Interface::ferry && cell.streams),
                   "collective", "is for interface mpiio, and for ferry with streams");
  fields.refuse_if(cell.streams && (cell.pattern != RankPattern::blocks || cell.file_per_writer ||
                                    cell.order != ByteOrder::native),
                   "streams", "needs pattern blocks, and excludes file_per_writer and byte_order");
  fields.refuse_if(
      !cell.streams &&
          (cell.segments > 1 || cell.file_per_thread || cell.check ||
           cell.offsets != Offsets::sequential || cell.overwrite || cell.reorder != Reorder::none ||
           cell.keep || cell.expect_pattern_seed || cell.latency || cell.direct || cell.mixes() ||
           cell.deadline_ms != 0 || cell.time_ms != 0 || cell.rate_bytes_per_s != 0),
      "streams",
      "is needed by segments, file_per_rank, offsets, reorder, check, overwrite, keep, latency, "
      "direct, mixed calls, deadline_ms, time_ms, rate_bytes_per_s and expect_pattern_seed");
  fields.refuse_if(cell.direct && interface != Interface::posix && interface != Interface::ferry,
                   "direct", "is for interface posix and ferry with device ranks");
  fields.refuse_if(cell.flushes(), "sync", "must be none or fsync with device ranks");
}

void check(const Cell& cell, const Fields& fields, Device device) {
  fields.refuse_if(cell.id.empty(), "id", "must not be empty");
  fields.refuse_if(cell.path.empty(), "path", "must not be empty");
  const bool of_threads = cell.interface == Interface::mmap || cell.interface == Interface::uring;
  const bool of_ranks = cell.interface == Interface::mpiio || cell.interface == Interface::native;
  fields.refuse_if(
      device == Device::ranks ? of_threads : of_ranks, "interface",
      std::string("cannot be ") + name_of(cell.interface) + " with device " + name_of(device));
  if (device == Device::ranks) check_on_ranks(cell, fields);
  check_uri(cell, fields);
  check_sizes(cell, fields);
  check_program(cell, fields);
  check_open_files(cell, fields);
  check_pace(cell, fields);
  check_job(cell, fields);
  fields.refuse_if(
      cell.sync_every_calls != 0 && (cell.operation == MeasuredOperation::read ||
                                     cell.queue_depth > 1 || cell.program != Program::stream),
      "sync_every_calls", "needs writes of program stream, one in flight");
  check_same_part(cell, fields);
  fields.refuse_if(cell.make && cell.operation == MeasuredOperation::write, "make", "is for reads");
  fields.refuse_if(cell.make && cell.expect_pattern_seed, "make",
                   "and expect_pattern_seed exclude each other");
  fields.refuse_if(cell.direct && cell.interface == Interface::mmap, "direct",
                   "a mapping cannot bypass the page cache");
  fields.refuse_if(cell.warm && (!cell.is_cached() || cell.cold), "warm",
                   cell.cold ? "and cold exclude each other: filling the device's cache fills "
                               "the host's, too"
                             : "needs a placement with a cache in the device");
  fields.refuse_if(cell.stride_bytes != 0 && (cell.operation == MeasuredOperation::write ||
                                              cell.program != Program::stream),
                   "stride_bytes", "needs reads and program stream");
  fields.refuse_if(cell.stride_bytes != 0 && cell.stride_bytes < cell.transfer_bytes,
                   "stride_bytes", "must be at least transfer_bytes");
  fields.refuse_if(cell.operation == MeasuredOperation::read &&
                       (cell.sync != Sync::none || cell.overwrite || cell.keep || cell.rewrite),
                   "operation", "sync, overwrite, keep and rewrite are for writes");
  fields.refuse_if(cell.operation == MeasuredOperation::write &&
                       (cell.cold || cell.expect_pattern_seed || cell.reorder != Reorder::none),
                   "operation", "cold, reorder and expect_pattern_seed are for reads");
  fields.refuse_if(cell.operation == MeasuredOperation::write && cell.warm && !cell.rewrite, "warm",
                   "of writes needs rewrite: a new file is in no cache");
  fields.refuse_if(cell.rewrite && (cell.overwrite || cell.keep), "rewrite",
                   "makes the file itself: not with overwrite or keep");
  fields.refuse_if(cell.buffer_offset_bytes != 0 && cell.direct, "buffer_offset_bytes",
                   "direct I/O wants buffers that are aligned");
  fields.refuse_if(cell.cache_switches && !cell.is_cached(), "cache_switches",
                   "needs a placement with a cache in the device");
}

// The switches that are on, by name.
device::cache::Switches read_switches(const json& list, const Fields& fields) {
  using device::cache::Switches;
  struct Named {
    const char* name;
    bool Switches::*member;
  };
  constexpr std::array<Named, 6> all = {{{"batched_allocation", &Switches::batched_allocation},
                                         {"batched_insertion", &Switches::batched_insertion},
                                         {"precomputed_hash", &Switches::precomputed_hash},
                                         {"streaming_copies", &Switches::streaming_copies},
                                         {"quiet_wakeups", &Switches::quiet_wakeups},
                                         {"readahead", &Switches::readahead}}};
  Switches switches{false, false, false, false, false, false};
  if (!list.is_array()) fields.fail("cache_switches", "must be an array");
  for (const json& wanted : list) {
    const auto* const found =
        std::find_if(all.begin(), all.end(), [&](const Named& one) { return wanted == one.name; });
    if (found == all.end()) fields.fail("cache_switches", "has " + wanted.dump() + ", unknown");
    switches.*(found->member) = true;
  }
  return switches;
}

// The number that the text is, nothing else behind it; 0 where it is none.
template <class Number>
Number number_of(const std::string& text) {
  std::istringstream stream(text);
  Number number{};
  return stream >> number && stream.eof() ? number : Number{};
}

// "sequential", "random", "zipf:1.1" or "hotspot:20/80".
void read_offsets(Fields& fields, const char* key, Cell& cell) {
  const std::string text = fields.has(key) ? fields.text(key) : "sequential";
  if (text == "sequential") return;
  if (text == "random") {
    cell.offsets = Offsets::random;
    return;
  }
  const std::size_t colon = std::min(text.find(':'), text.size());
  const std::string name = text.substr(0, colon);
  const std::string value = text.substr(std::min(colon + 1, text.size()));
  if (name == "zipf") {
    cell.offsets = Offsets::zipf;
    cell.zipf_exponent = number_of<double>(value);
    if (cell.zipf_exponent > 0 && cell.zipf_exponent <= zipf_exponent_max) return;
  }
  if (name == "hotspot") {
    const std::size_t slash = std::min(value.find('/'), value.size());
    cell.offsets = Offsets::hotspot;
    cell.hot_file_percent = number_of<unsigned>(value.substr(0, slash));
    cell.hot_call_percent = number_of<unsigned>(value.substr(std::min(slash + 1, value.size())));
    if (cell.hot_file_percent - 1 < 99 && cell.hot_call_percent - 1 < 100) return;
  }
  fields.fail(key, "'" + text +
                       "' is none of sequential, random, zipf:EXPONENT (above 0, at most 10) "
                       "and hotspot:FILE/CALLS (percent)");
}

void read_of_threads(const json& object, Fields& fields, Cell& cell) {
  read_offsets(fields, "pattern", cell);
  cell.program = static_cast<Program>(fields.choice("program", program_names, 0));
  cell.placement = static_cast<device::Placement>(fields.choice("placement", placement_names, 0));
  fields.number("transfer_bytes", cell.transfer_bytes, 1, bytes_max / threads_max);
  fields.number("stride_bytes", cell.stride_bytes, 0, bytes_max / calls_max);
  fields.number("threads", cell.threads, 1, threads_max);
  fields.number("queue_depth", cell.queue_depth, 1, queue_depth_max);
  fields.flag("file_per_thread", cell.file_per_thread);
  fields.flag("same_part", cell.same_part);
  fields.number("offset_bytes", cell.offset_bytes, 0, bytes_max);
  fields.number("passes", cell.passes, 1, passes_max);
  fields.flag("make", cell.make);
  if (fields.has("group")) cell.group = fields.text("group");
  fields.number("start_delay_ms", cell.start_delay_ms, 0, deadline_ms_max);
  fields.number("open_files", cell.open_files, 0, files_max);
  fields.flag("barriers", cell.barriers);
  fields.number("sync_every_calls", cell.sync_every_calls, 0, calls_max);
  fields.number("variant", cell.variant, 0, variants_max - 1);
  fields.flag("warm", cell.warm);
  fields.flag("rewrite", cell.rewrite);
  fields.number("buffer_offset_bytes", cell.buffer_offset_bytes, 0, buffer_offset_bytes_max);
  if (fields.has("cache_switches"))
    cell.cache_switches = read_switches(object["cache_switches"], fields);
  fields.flag("empty_files", cell.empty_files);
  fields.refuse_if(cell.empty_files && cell.program != Program::metadata, "empty_files",
                   "is for program metadata");
}

void read_of_ranks(Fields& fields, Cell& cell) {
  constexpr std::array<const char*, 3> patterns = {"blocks", "interleaved", "subarray"};
  cell.pattern = static_cast<RankPattern>(fields.choice("pattern", patterns, 0));
  cell.method = static_cast<CollectiveMethod>(fields.choice("method", method_names, 0));
  cell.order = static_cast<ByteOrder>(fields.choice("byte_order", order_names, 0));
  fields.flag("collective", cell.collective);
  fields.flag("sieving", cell.sieving);
  fields.flag("file_per_writer", cell.file_per_writer);
  fields.flag("streams", cell.streams);
  fields.flag("file_per_rank", cell.file_per_thread);
  read_offsets(fields, "offsets", cell);
  fields.number("ranks", cell.threads, 1, ranks_max);
  fields.number("writers", cell.writers, 0, ranks_max);
  fields.number("transfer_bytes", cell.transfer_bytes, 1, ranks_transfer_bytes_max);
  fields.number("piece_bytes", cell.piece_bytes, 1, ranks_transfer_bytes_max);
  fields.number("buffer_bytes", cell.writer_buffer_bytes, 0, ranks_transfer_bytes_max);
  fields.number("stripe_bytes", cell.stripe_bytes, 0, bytes_max);
  fields.number("stripe_count", cell.stripe_count, 0, ranks_max);
  fields.number("element_bytes", cell.element_bytes, 1, 16);
}

Cell read_cell(const json& object, const std::string& where, Device device) {
  Fields fields(object, where);
  Cell cell;
  for (const char* key : {"id", "interface", "operation", "path", "transfer_bytes", "total_bytes"})
    fields.require(key);
  cell.id = fields.text("id");
  cell.path = fields.text("path");
  cell.interface = static_cast<Interface>(fields.choice("interface", interface_names, 0));
  const std::size_t operation = fields.choice("operation", operation_names, 0);
  const bool mixed = operation == 2;
  cell.operation = operation == 0 ? MeasuredOperation::read : MeasuredOperation::write;
  cell.sync = static_cast<Sync>(fields.choice("sync", sync_names, 0));
  fields.number("total_bytes", cell.total_bytes, 1, bytes_max);
  fields.number("segments", cell.segments, 1, segments_max);
  cell.reorder = static_cast<Reorder>(fields.choice("reorder", reorder_names, 0));
  fields.flag("check", cell.check);
  fields.flag("cold", cell.cold);
  fields.flag("overwrite", cell.overwrite);
  fields.flag("keep", cell.keep);
  fields.flag("direct", cell.direct);
  fields.flag("latency", cell.latency);
  fields.number("deadline_ms", cell.deadline_ms, 0, deadline_ms_max);
  fields.number("time_ms", cell.time_ms, 0, deadline_ms_max);
  fields.number("ramp_ms", cell.ramp_ms, 0, deadline_ms_max);
  fields.number("rate_bytes_per_s", cell.rate_bytes_per_s, 0, bytes_max);
  fields.number("read_percent", cell.read_percent, 0, 99);
  fields.number("seed", cell.seed, 0, UINT64_MAX);
  fields.number("expect_pattern_seed", cell.expect_pattern_seed, 0, UINT64_MAX);
  if (device == Device::ranks) {
    read_of_ranks(fields, cell);
  } else {
    read_of_threads(object, fields, cell);
  }
  cell.rewrite = cell.rewrite || mixed;
  fields.refuse_unknown();
  fields.refuse_if(mixed != cell.mixes(), "read_percent", "is needed by operation mixed alone");
  check(cell, fields, device);
  return cell;
}

// A size, or "never".
void read_crossover(Fields& fields, const char* key, std::uint64_t& bytes) {
  if (fields.is(key, "never")) {
    bytes = device::Crossovers::never;
  } else {
    fields.number(key, bytes, 0, std::uint64_t{1} << 40);
  }
}

device::Crossovers read_crossovers(const json& object, const std::string& where) {
  Fields fields(object, where);
  device::Crossovers crossovers;
  read_crossover(fields, "host_read_bytes_min", crossovers.host_read_bytes_min);
  read_crossover(fields, "host_stream_read_bytes_min", crossovers.host_stream_read_bytes_min);
  read_crossover(fields, "host_write_bytes_min", crossovers.host_write_bytes_min);
  fields.refuse_unknown();
  return crossovers;
}

// What a profile may say, too.
void read_tuning(const json& object, Fields& fields, const std::string& where,
                 RuntimeOptions& options) {
  fields.number("server_threads", options.server_threads, 0, threads_max);
  fields.number("page_bytes", options.page_bytes, device::cache::page_bytes_min,
                device::cache::page_bytes_max);
  fields.refuse_if((options.page_bytes & (options.page_bytes - 1)) != 0, "page_bytes",
                   "must be a power of two");
  fields.number("readahead_bytes", options.readahead_bytes_max, 0, std::uint64_t{1} << 30);
  if (fields.has("crossovers"))
    options.crossovers = read_crossovers(object["crossovers"], where + ".crossovers");
}

RuntimeOptions read_runtime(const json& object, Device& device) {
  Fields fields(object, "runtime");
  RuntimeOptions options;
  device = static_cast<Device>(fields.choice("device", device_names, 0));
  options.arena_bytes = 0;
  options.page_bytes = page_bytes_default;
  if (device == Device::ranks) {  // which need none
    fields.refuse_unknown();
    return options;
  }
  fields.number("device_threads", options.device_threads, 0, threads_max);
  read_tuning(object, fields, "runtime", options);
  fields.flag("profile", options.use_profile);
  fields.number("service_threads", options.service_threads, 0, threads_max);
  fields.number("cache_bytes", options.cache_bytes, 0, std::uint64_t{1} << 50);
  fields.number("arena_bytes", options.arena_bytes, 0, std::uint64_t{1} << 50);
  if (fields.has("device_cpus")) options.device_cpus = fields.text("device_cpus");
  if (fields.has("server_cpus")) options.server_cpus = fields.text("server_cpus");
  options.engine = static_cast<StorageEngine>(fields.choice("engine", engine_names, 0));
  fields.refuse_unknown();
  return options;
}

// The file and a quarter more, so that neither evictions nor write-back for want of pages are
// measured; at most a quarter of the machine's memory.
std::uint64_t default_cache_bytes(std::uint64_t file_bytes, std::uint64_t page_bytes) {
  const auto memory_bytes = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const std::uint64_t wanted = std::max(file_bytes + file_bytes / 4, cache_bytes_least);
  const std::uint64_t pages = std::min(wanted, memory_bytes / 4) / page_bytes;
  return std::clamp<std::uint64_t>(pages, 1, device::cache::frames_max) * page_bytes;
}

// What the plan leaves to us: as many threads and as much memory as the cells need.
void complete(Plan& plan) {
  unsigned threads = 1;
  std::uint64_t arena_bytes = 0;
  std::uint64_t cached_bytes = 0;
  for (const std::vector<std::size_t>& group : groups_of(plan.cells)) {
    unsigned group_threads = 0;
    std::uint64_t group_arena_bytes = 0;
    std::uint64_t group_cached_bytes = 0;
    for (const std::size_t i : group) {
      const Cell& cell = plan.cells[i];
      group_threads += cell.threads;
      if (cell.is_cached()) group_cached_bytes += cell.span_bytes();
      group_arena_bytes += cell.threads * cell.buffers() * (cell.call_bytes() + 4096);
    }
    for (const std::size_t i : group)
      plan.cells[i].with_cache = group_cached_bytes != 0;
    if (group_threads > threads_max)
      throw PlanError("cells: group " + plan.cells[group.front()].group + " has more than " +
                      std::to_string(threads_max) + " threads");
    threads = std::max(threads, group_threads);
    arena_bytes = std::max(arena_bytes, group_arena_bytes);
    cached_bytes = std::max(cached_bytes, group_cached_bytes);
  }
  RuntimeOptions& runtime = plan.runtime;
  if (runtime.device_threads == 0) runtime.device_threads = threads;
  if (threads > runtime.device_threads) {
    throw PlanError("runtime.device_threads: a cell needs " + std::to_string(threads));
  }
  if (runtime.arena_bytes == 0) runtime.arena_bytes = arena_bytes + arena_slack_bytes;
  // Each thread opens the file that it works on, and once more what fills the cache.
  runtime.files_max = std::max(runtime.files_max, 2 * runtime.device_threads);
  for (const Cell& cell : plan.cells)
    runtime.files_max = std::max(runtime.files_max, cell.open_files);
  if (runtime.cache_bytes == 0) {
    runtime.cache_bytes = default_cache_bytes(cached_bytes, runtime.page_bytes);
  } else if (runtime.cache_bytes < runtime.page_bytes) {
    throw PlanError("runtime.cache_bytes: must be at least a page");
  }
  // A profile is chosen by where the files are.
  const std::string& path = plan.cells.front().path;
  const bool posix = storage::scheme_of(path) == storage::Scheme::posix;
  runtime.storage_path = posix ? std::filesystem::path(path).parent_path().string() : path;
}

void read_variants(const json& list, Fields& fields, Plan& plan) {
  fields.refuse_if(!list.is_array() || list.size() > variants_max, "variants",
                   "must be an array of " + std::to_string(variants_max) + " at most");
  for (const json& variant : list) {
    const std::string where = "variants[" + std::to_string(plan.variants.size()) + "]";
    Fields of_variant(variant, where);
    RuntimeOptions& options = plan.variants.emplace_back(plan.runtime);
    read_tuning(variant, of_variant, where, options);
    of_variant.number("cache_bytes", options.cache_bytes, options.page_bytes,
                      std::uint64_t{1} << 50);
    of_variant.refuse_unknown();
  }
}

// What kernels do: transfers of Ferry, by those who make the calls.
void check_on_gpu(const Plan& plan) {
  const auto refuse = [](const Cell& cell, const std::string& why) {
    throw PlanError("cell " + cell.id + ": " + why + " with device cuda");
  };
  if (!plan.runtime.device_cpus.empty())
    throw PlanError("runtime.device_cpus: a GPU has none; leave it out with device cuda");
  for (const Cell& cell : plan.cells) {
    if (cell.interface != Interface::ferry) refuse(cell, "interface must be ferry");
    if (cell.program != Program::stream) refuse(cell, "program must be stream");
    if (cell.placement == device::Placement::service) refuse(cell, "placement cannot be service");
    if (cell.cache_switches) refuse(cell, "cache_switches cannot be chosen");
    if (cell.mixes()) refuse(cell, "operation cannot be mixed");
    if (cell.time_ms != 0) refuse(cell, "time_ms cannot be chosen");
    if (cell.passes > 1) refuse(cell, "passes cannot be chosen");
    if (cell.rate_bytes_per_s != 0) refuse(cell, "rate_bytes_per_s cannot be chosen");
    if (cell.sync_every_calls != 0) refuse(cell, "sync_every_calls cannot be chosen");
    if (cell.start_delay_ms != 0) refuse(cell, "start_delay_ms cannot be chosen");
    if (!cell.group.empty()) refuse(cell, "group cannot be chosen");
  }
}

// One job of a group may write over a file that others read. If two wrote, what is found there
// would depend on who came first.
void check_groups(const Plan& plan, const Fields& fields) {
  std::set<std::string> names;
  for (const std::vector<std::size_t>& group : groups_of(plan.cells)) {
    const std::string& name = plan.cells[group.front()].group;
    fields.refuse_if(!name.empty() && !names.insert(name).second, "cells",
                     "the jobs of group " + name + " must stand side by side");
    for (const std::size_t a : group) {
      for (const std::size_t b : group) {
        const Cell& one = plan.cells[a];
        const Cell& other = plan.cells[b];
        fields.refuse_if(
            a < b && one.path == other.path && one.operation == MeasuredOperation::write &&
                other.operation == MeasuredOperation::write,
            "cells", one.id + " and " + other.id + " of group " + name + " write one file");
        fields.refuse_if(
            reads_from(one, other) &&
                (!other.rewrite || one.make || one.expect_pattern_seed || one.file_per_thread ||
                 other.file_per_thread || file_bytes(one, 0) > file_bytes(other, 0)),
            "cells",
            one.id + " of group " + name + " reads what " + other.id +
                " writes, which needs rewrite there and at least as large a file, and excludes "
                "file_per_thread, make and expect_pattern_seed");
      }
    }
  }
}

void check_across(const Plan& plan, const Fields& fields) {
  check_groups(plan, fields);
  if (plan.device == Device::cuda) check_on_gpu(plan);
  for (const Cell& cell : plan.cells) {
    fields.refuse_if(cell.variant && *cell.variant >= plan.variants.size(), "variants",
                     "has none for cell " + cell.id);
    fields.refuse_if(cell.keep && plan.time_limit_ms != 0, "time_limit_ms",
                     "leaves open which repeat's file cell " + cell.id + " keeps");
  }
}

}  // namespace

Plan read_plan(std::string text) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::exception& error) {
    throw PlanError(std::string("not JSON: ") + error.what());
  }
  Fields fields(document, "plan");
  fields.require("schema");
  if (fields.text("schema") != "ferry.plan/3") fields.fail("schema", "must be ferry.plan/3");
  Plan plan;
  plan.text = std::move(text);
  fields.number("repeats", plan.repeats, 1, repeats_max);
  plan.runtime =
      read_runtime(fields.has("runtime") ? document["runtime"] : json::object(), plan.device);
  fields.require("cells");
  if (!document["cells"].is_array()) fields.fail("cells", "must be an array");
  std::set<std::string> ids;
  for (const json& object : document["cells"]) {
    const std::string where = "cells[" + std::to_string(plan.cells.size()) + "]";
    const Cell& cell = plan.cells.emplace_back(read_cell(object, where, plan.device));
    if (!ids.insert(cell.id).second) throw PlanError(where + ".id: there are two of " + cell.id);
  }
  if (plan.cells.empty()) fields.fail("cells", "must not be empty");
  fields.number("time_limit_ms", plan.time_limit_ms, 0, time_limit_ms_max);
  fields.flag("in_order", plan.in_order);
  fields.refuse_if(plan.in_order && plan.time_limit_ms != 0, "time_limit_ms",
                   "is for cells that take turns, without in_order");
  complete(plan);
  if (fields.has("variants")) read_variants(document["variants"], fields, plan);
  fields.refuse_unknown();
  check_across(plan, fields);
  return plan;
}

bool reads_from(const Cell& reader, const Cell& writer) {
  return reader.operation == MeasuredOperation::read &&
         writer.operation == MeasuredOperation::write && reader.path == writer.path;
}

std::vector<std::vector<std::size_t>> groups_of(const std::vector<Cell>& cells) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool joins = i > 0 && !cells[i].group.empty() && cells[i].group == cells[i - 1].group;
    if (joins) {
      groups.back().push_back(i);
    } else {
      groups.push_back({i});
    }
  }
  return groups;
}

const char* name_of(Device device) {
  return device_names[static_cast<std::size_t>(device)];
}
const char* name_of(Interface interface) {
  return interface_names[static_cast<std::size_t>(interface)];
}
const char* name_of(Program program) {
  return program_names[static_cast<std::size_t>(program)];
}
const char* name_of(device::Placement placement) {
  return placement_names[static_cast<std::size_t>(placement)];
}
const char* name_of(MeasuredOperation operation) {
  return operation_names[static_cast<std::size_t>(operation)];
}

}  // namespace ferry::bench
