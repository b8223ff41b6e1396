// A cuFile library without a driver behind it: $FERRY_MOCK_CUFILE says how it answers.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct Error {
  int error;
  int cuda_error;
};
struct Properties {
  unsigned major_version;
  unsigned minor_version;
  std::size_t sizes[2];
  unsigned status_flags;
};

std::string wish() {
  const char* text = std::getenv("FERRY_MOCK_CUFILE");
  return text == nullptr ? "" : text;
}

}  // namespace

extern "C" {
__attribute__((visibility("default"))) Error cuFileDriverOpen() {
  return {wish() == "refuses" ? 5001 : 0, 0};
}
__attribute__((visibility("default"))) Error cuFileDriverClose() {
  return {0, 0};
}
__attribute__((visibility("default"))) Error cuFileDriverGetProperties(Properties* properties) {
  properties->major_version = wish() == "nvidia-fs" ? 2 : 0;
  properties->minor_version = wish() == "nvidia-fs" ? 24 : 0;
  properties->status_flags = wish() == "p2p" ? 1U << 11 : 0;
  return {0, 0};
}
}
