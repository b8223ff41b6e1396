#include "programs/gpu_facts.hpp"

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backend/cuda/driver.hpp"
#include "backend/cuda/gpudirect.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

Json device_facts(const cuda::DeviceInfo& info) {
  return {{"ordinal", info.ordinal},
          {"name", info.name},
          {"pci_address", info.pci_address},
          {"memory_bytes", info.memory_bytes},
          {"compute_capability",
           std::to_string(info.compute_major) + "." + std::to_string(info.compute_minor)},
          {"multiprocessors", info.multiprocessors},
          {"copy_engines", info.copy_engines}};
}

// Discards standard output while it lives: cuFile prints there, and this process prints JSON.
class SilentOutput {
 public:
  SilentOutput() {
    std::fflush(stdout);
    std::cout.flush();
    saved_ = ::dup(STDOUT_FILENO);
    const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved_ >= 0 && nowhere >= 0) ::dup2(nowhere, STDOUT_FILENO);
    if (nowhere >= 0) ::close(nowhere);
  }
  ~SilentOutput() {
    std::fflush(stdout);
    std::cout.flush();
    if (saved_ < 0) return;
    ::dup2(saved_, STDOUT_FILENO);
    ::close(saved_);
  }
  SilentOutput(const SilentOutput&) = delete;
  SilentOutput& operator=(const SilentOutput&) = delete;

 private:
  int saved_ = -1;
};

// What transfers will find; a file may still be refused, see ferry.explain(path).
Json bulk_path() {
  const SilentOutput silent;
  // It would leave a cufile.log in the working directory.
  setenv("CUFILE_LOGFILE_PATH", "/dev/null", 0);
  std::string why_not;
  const auto direct = cuda::GpuDirectDriver::shared(why_not);
  if (direct == nullptr) {
    return {{"path", "pinned staging"},
            {"gpudirect_works", false},
            {"why", "no GPUDirect: " + why_not}};
  }
  return {{"path", "GPUDirect Storage where a transfer bypasses the page cache"},
          {"gpudirect_works", true},
          {"why", "cuFile works with " + direct->beneath()}};
}

}  // namespace

Json gpu_facts() {
  Json facts = {{"driver", nullptr},
                {"problem", nullptr},
                {"devices", Json::array()},
                {"bulk_copies", nullptr}};
  const cuda::Driver* driver = cuda::Driver::find();
  if (driver == nullptr) {
    facts["problem"] = cuda::Driver::why_absent();
    return facts;
  }
  facts["driver"] = {{"library", driver->file_name()},
                     {"cuda_version", std::to_string(driver->version() / 1000) + "." +
                                          std::to_string(driver->version() % 1000 / 10)}};
  try {
    for (int ordinal = 0; ordinal < driver->device_count(); ++ordinal)
      facts["devices"].push_back(device_facts(driver->device_info(ordinal)));
    facts["bulk_copies"] = bulk_path();
  } catch (const Error& error) {
    facts["problem"] = error.reason();
  }
  return facts;
}

}  // namespace ferry::bench
