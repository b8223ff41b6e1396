// Counts the occurrences of a string in a file, on the `cpu` device: a group is a device thread.
//
//   ferry-search [--groups N] STRING FILE
#include "search.hpp"

#include <thread>

#include <ferry/ferry.hpp>

#include "search_command.hpp"

namespace {

namespace examples = ferry::examples;
using ferry::device::ThreadGroup;

std::uint64_t count_places(const examples::SearchRequest& request) {
  examples::SearchJob job;
  job.path = request.path.c_str();
  job.wanted = request.wanted.data();
  job.wanted_bytes = request.wanted.size();
  job.piece_bytes = 256 << 10;
  ferry::RuntimeOptions options;
  options.device_threads = request.groups;
  const unsigned threads_max =
      request.groups != 0 ? request.groups : std::thread::hardware_concurrency();
  options.arena_bytes = threads_max * examples::search_buffer_bytes(job) + (1 << 20);
  ferry::Runtime runtime(options);
  const ferry::Buffer buffers =
      runtime.allocate(runtime.info().device_threads * examples::search_buffer_bytes(job));
  job.buffers = buffers.as<char>();
  runtime.run([&](ferry::DeviceThread& self) {
    if (self.index == 0) examples::open_text(self.files, ThreadGroup{}, job);
  });
  runtime.run([&](ferry::DeviceThread& self) {
    examples::search_pieces(self.files, ThreadGroup{}, self.index, job);
  });
  runtime.run([&](ferry::DeviceThread& self) {
    if (self.index == 0) examples::close_text(self.files, job);
  });
  return examples::places_of(job, request);
}

}  // namespace

int main(int argc, char** argv) {
  return examples::search_command("ferry-search", argc, argv, count_places);
}
