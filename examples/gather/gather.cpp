// Gathers rows of a table into a file, on the `cpu` device: a group is a device thread.
//
//   ferry-gather [--groups N] [--cache-bytes BYTES] ROW-LIST TABLE OUTPUT
#include "gather.hpp"

#include <thread>

#include <ferry/ferry.hpp>

#include "gather_command.hpp"

namespace {

namespace examples = ferry::examples;
using ferry::device::ThreadGroup;

void gather(const examples::GatherRequest& request) {
  ferry::RuntimeOptions options;
  options.device_threads = request.groups;
  options.cache_bytes = request.cache_bytes;
  options.page_bytes = examples::row_bytes;
  const unsigned threads_max =
      request.groups != 0 ? request.groups : std::thread::hardware_concurrency();
  options.arena_bytes = threads_max * examples::row_bytes + (1 << 20);
  ferry::Runtime runtime(options);
  const ferry::Buffer buffers =
      runtime.allocate(runtime.info().device_threads * examples::row_bytes);
  examples::GatherJob job;
  job.table_path = request.table_path.c_str();
  job.output_path = request.output_path.c_str();
  job.create_flags = examples::create_flags;
  job.rows = request.rows.data();
  job.row_count = request.rows.size();
  job.buffers = buffers.as<char>();
  runtime.run([&](ferry::DeviceThread& self) {
    if (self.index == 0) examples::open_files(self.files, ThreadGroup{}, job);
  });
  runtime.run([&](ferry::DeviceThread& self) {
    examples::gather_rows(self.files, ThreadGroup{}, self.index, self.count, job);
  });
  runtime.run([&](ferry::DeviceThread& self) {
    if (self.index == 0) examples::close_files(self.files, ThreadGroup{}, job);
  });
  examples::check_job(job, request);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::gather_command("ferry-gather", argc, argv, gather);
}
