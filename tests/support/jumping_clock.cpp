// For LD_PRELOAD: the time of day jumps by a day, forwards and back, every few looks at it. Clocks
// that measure intervals are left alone.
#include <atomic>
#include <cstdint>
#include <ctime>

#include <dlfcn.h>
#include <sys/time.h>

namespace {

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

time_t jump_s() {
  static std::atomic<std::uint64_t> looks{0};
  constexpr time_t day_s = 86'400;
  constexpr time_t jumps_s[] = {0, day_s, 0, -day_s};
  return jumps_s[looks++ / 5 % 4];
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  static auto* const next = real<int(clockid_t, timespec*)>("clock_gettime");
  const int result = next(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    time->tv_sec += jump_s();
  return result;
}

int gettimeofday(timeval* time, void* zone) noexcept {
  static auto* const next = real<int(timeval*, void*)>("gettimeofday");
  const int result = next(time, zone);
  if (result == 0) time->tv_sec += jump_s();
  return result;
}

time_t time(time_t* to) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (to != nullptr) *to = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
