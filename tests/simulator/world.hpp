// What the clients of a run share, and what a run is.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <iterator>
#include <string>

#include "simulator/history.hpp"
#include "simulator/simulated_storage.hpp"
#include "simulator/simulator.hpp"

namespace ferry::simulator {

inline constexpr std::uint64_t millisecond = 1'000'000;
inline constexpr std::uint64_t page = 4096;
inline constexpr std::uint64_t file_bytes_max = 8 * page;
// Of a call that no trouble touches: several requests, each of at most some milliseconds.
inline constexpr std::uint64_t call_ns_max = 500 * millisecond;
inline constexpr unsigned char untouched = 0xfe;  // no value of a write

enum class Trouble : std::uint8_t {
  none,
  disk_hangs,
  loop_starves,  // is slow, not dead
  loop_freezes,  // until its watchdog has declared it dead, and then goes on
  loop_dies,     // by a fault of its own
  shutdown,      // while clients make calls
};

// What all threads of a run see. Changed in one step only.
struct World {
  Trouble trouble = Trouble::none;
  bool disks_fail = false;
  bool disks_shorten = false;  // transfers, which then go on
  std::array<FileHistory, 3> files{FileHistory("0a"), FileHistory("0b"), FileHistory("1c")};
  LogHistory log;
  int clients_in_calls = 0;
  std::uint64_t hung_ns = 0;  // how long disk 1 does nothing
  bool is_disturbed = false;  // a loop is, from now on
  bool shuts_down = false;
  std::uint64_t trouble_ns = 0;  // when it begins
  std::array<int, 3> shared{};   // handles that all clients use

  std::string settings;  // for people

  void count_clients_in_calls(int change) {
    const OneStep whole;
    clients_in_calls += change;
  }
  // Makes a call on a file of this disk. It fails if it takes longer than it may, unless a loop of
  // the server is disturbed.
  template <class Call>
  void in_time(const char* what, std::size_t disk, const Call& call) {
    const bool disturbed = is_disturbed || shuts_down;
    const std::uint64_t over_ns = time_over(disk, call);
    if (!disturbed && !is_disturbed && !shuts_down) expect_none_over(what, over_ns);
  }
  // The same of a call that uses no loop.
  template <class Call>
  void in_time_without_loops(const char* what, std::size_t disk, const Call& call) {
    expect_none_over(what, time_over(disk, call));
  }
  bool is_of_a_disk(int error) const {
    return disks_fail &&
           (error == ETIMEDOUT || std::find(std::begin(fault_errors), std::end(fault_errors),
                                            error) != std::end(fault_errors));
  }
  // Whether a device's call may return what the disk has moved.
  bool calls_may_be_short() const { return errors_may_come() || disks_shorten; }
  bool errors_may_come() const { return disks_fail || is_disturbed || shuts_down; }

 private:
  // By how much the call takes longer than it may.
  template <class Call>
  std::uint64_t time_over(std::size_t disk, const Call& call) {
    const std::uint64_t began = now_ns();
    count_clients_in_calls(1);
    call();
    count_clients_in_calls(-1);
    count_call();
    const std::uint64_t most = call_ns_max + (disk == 1 ? hung_ns : 0);
    const std::uint64_t took = now_ns() - began;
    return took > most ? took - most : 0;
  }
  void expect_none_over(const char* what, std::uint64_t over_ns) const {
    if (over_ns > 0)
      fail(std::string(what) + " takes " + std::to_string(over_ns / millisecond) +
           " ms longer than it may; " + settings);
  }
};

}  // namespace ferry::simulator
