// Groups that share a file, each on stripes of its own between the others', down to neighbouring
// bytes: on the `cpu` device, on a mock GPU and in kernels.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/device/file_calls.hpp>

#include "support/data.hpp"
#include "support/files.hpp"
#include "support/programs.hpp"

namespace ferry::test {

// A path in memory that programs can access.
class SharedPath {
 public:
  explicit SharedPath(const std::string& path) : path_(path.size() + 1) {
    std::memcpy(path_.data(), path.c_str(), path.size());
  }
  const char* get() const { return path_.data(); }

 private:
  SharedArray<char> path_;
};

struct OwnStripes {
  std::uint64_t bytes;  // of a stripe
  std::uint64_t count;  // of each group
  std::uint64_t rounds;
  std::uint64_t seed;
  device::Placement placements[4] = {device::Placement::host, device::Placement::compute,
                                     device::Placement::service, device::Placement::automatic};
  bool direct = false;  // O_DIRECT for every other group, where size and storage allow it
};

// Every group reads and writes its stripes at random, against a model of them.
struct StripesProgram {
  const device::Context* context;
  const char* path;
  OwnStripes stripes;
  std::uint32_t groups;
  unsigned char* inside;   // memory of the runtime: a stripe for each group
  unsigned char* outside;  // other memory, likewise
  unsigned char* models;   // all stripes of each
  Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    device::FileCalls files(*context, group, index);
    (*this)(files, group, index);
  }
  template <class Group>
  FERRY_DEVICE void operator()(device::FileCalls<Group>& files, Group group,
                               std::uint32_t index) const {
    const std::uint64_t bytes = stripes.bytes;
    DeviceRandom random(stripes.seed + index);
    const bool direct = stripes.direct && index % 2 == 1 && bytes % 4096 == 0;
    int file = files.open(path, direct ? O_RDWR | O_DIRECT : O_RDWR);
    if (file == -EINVAL) file = files.open(path, O_RDWR);
    for (std::uint64_t i = 0; i < stripes.rounds && !checks.failed(); ++i) {
      const std::uint64_t number = random.below(stripes.count);
      const auto offset = static_cast<std::int64_t>((number * groups + index) * bytes);
      unsigned char* model = models + (index * stripes.count + number) * bytes;
      unsigned char* buffer = (random.one_in(3) ? outside : inside) + index * bytes;
      files.use(stripes.placements[random.below(4)]);
      if (random.one_in(2)) {
        const std::uint64_t data = random.bits();
        fill_bytes(group, buffer, data, 0, bytes);
        fill_bytes(group, model, data, 0, bytes);
        group.sync();
        checks.equal(files.pwrite(file, buffer, bytes, offset), bytes);
      } else {
        checks.equal(files.pread(file, buffer, bytes, offset), bytes);
        checks.right(lane_finds_same(group, buffer, model, bytes));
      }
      group.sync();
    }
    checks.equal(files.close(file), 0);
  }
};

// Makes the file, runs the program by `run(program)` on `groups` groups, and compares what is there
// with the models. Returns nothing, or the first fault.
template <class Run>
std::string write_in_stripes(const std::string& path, const OwnStripes& stripes,
                             std::uint32_t groups, const device::Context* context,
                             unsigned char* inside, Run run) {
  const std::uint64_t own = stripes.count * stripes.bytes;
  write_file(path, std::string(own * groups, '\0'));
  const SharedPath shared(path);
  const SharedArray<unsigned char> outside(groups * stripes.bytes);
  const SharedArray<unsigned char> models(groups * own);
  const ProgramReport report;
  run(StripesProgram{context, shared.get(), stripes, groups, inside, outside.data(), models.data(),
                     report.checks()});
  if (!report.text().empty()) return report.text();
  std::string wanted;
  for (std::uint64_t number = 0; number < stripes.count; ++number) {
    for (std::uint32_t i = 0; i < groups; ++i)
      wanted.append(reinterpret_cast<const char*>(models.data()) + i * own + number * stripes.bytes,
                    stripes.bytes);
  }
  const testing::AssertionResult same = same_bytes(read_file(path), wanted);
  return same ? "" : same.message();
}

}  // namespace ferry::test
