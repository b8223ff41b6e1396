// The overhead of ferry-bench per transfer of 4 KiB: its measured loop around a file that does
// nothing, and around a system call, each compared with the bare system call.
#include <memory>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "harness/file_access.hpp"
#include "harness/programs.hpp"
#include "harness/usage.hpp"
#include "micro/device_file.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = std::uint64_t{64} << 20;
constexpr std::uint64_t transfer_bytes = 4096;
constexpr auto calls = static_cast<long>(file_bytes / transfer_bytes);

class NoFile final : public bench::FileAccess {
 public:
  using FileAccess::FileAccess;
  void open(int) override {}
  std::int64_t read(void*, std::uint64_t bytes, std::uint64_t) override {
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void*, std::uint64_t bytes, std::uint64_t) override {
    return static_cast<std::int64_t>(bytes);
  }
  void sync() override {}
  void close() override {}
};

bench::Cell cell_of(const std::string& path, bench::MeasuredOperation operation) {
  bench::Cell cell;
  cell.interface = bench::Interface::posix;
  cell.operation = operation;
  cell.path = path;
  cell.transfer_bytes = transfer_bytes;
  cell.total_bytes = file_bytes;
  return cell;
}

// Nanoseconds for each transfer of the loop that ferry-bench measures.
double through_tool(const bench::Cell& cell, const bench::Accesses& file, unsigned char* buffer) {
  const std::atomic<bool> stopped{false};
  const std::vector<std::uint32_t> order = bench::make_order(cell, 0);
  const bench::ThreadPart part = bench::part_of(cell, 0);
  const bench::ProgramInput input{cell, file, O_RDWR, buffer, part, 1, order, stopped};
  bench::ProgramOutput output;
  bench::prepare_buffer(input);
  const std::uint64_t begin = bench::now_ns();
  bench::run_program(input, output);
  return static_cast<double>(bench::now_ns() - begin) / static_cast<double>(output.operations);
}

double bare(bench::MeasuredOperation operation, int fd, unsigned char* buffer) {
  return nanoseconds_each(calls, [&](long i) {
    const auto offset = static_cast<off_t>(i * static_cast<long>(transfer_bytes));
    const ssize_t moved = operation == bench::MeasuredOperation::read
                              ? ::pread(fd, buffer, transfer_bytes, offset)
                              : ::pwrite(fd, buffer, transfer_bytes, offset);
    check(moved, transfer_bytes);
  });
}

void measure(DeviceThread& self, const std::string& path, bench::MeasuredOperation operation,
             unsigned char* buffer) {
  const bench::Cell cell = cell_of(path, operation);
  const KernelFile plain(path, O_RDWR);
  bench::Accesses nothing;
  nothing.push_back(std::make_unique<NoFile>(path));
  bench::Accesses file;
  file.push_back(bench::make_access(cell, 0, self));
  file.front()->open(O_RDWR);
  const bool reads = operation == bench::MeasuredOperation::read;
  const std::string name = std::string("4 KiB hot ") + (reads ? "read: " : "write: ");
  const Block call = [&] { return bare(operation, plain.number, buffer); };
  measure_pairs(
      name + "ferry-bench without the call / bare call", "ns",
      [&] { return through_tool(cell, nothing, buffer); }, call);
  measure_pairs(
      name + "ferry-bench / bare call", "ns", [&] { return through_tool(cell, file, buffer); },
      call);
  file.front()->close();
}

void tool_overhead(const BenchmarkOptions& options) {
  on_device(one_thread(), transfer_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    for (const auto operation : {bench::MeasuredOperation::read, bench::MeasuredOperation::write})
      measure(self, options.path, operation, reinterpret_cast<unsigned char*>(memory));
  });
}

const Subcommand registered("tool-overhead", "FILE",
                            "what the loop of ferry-bench costs, on 64 MiB that are overwritten",
                            tool_overhead);

}  // namespace
