// Hints as a program sees and sets them: in an info, and as control variables of MPI_T.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include <mpi.h>

inline std::string hint_of(MPI_Info info, const char* name) {
  std::array<char, MPI_MAX_INFO_VAL + 1> value{};
  int found = 0;
  MPI_Info_get(info, name, MPI_MAX_INFO_VAL, value.data(), &found);
  return found != 0 ? value.data() : "none";
}

// A control variable whose value is a text.
class ControlSetting {
 public:
  explicit ControlSetting(const char* name) {
    int index = -1;
    if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return;
    MPI_T_cvar_handle_alloc(index, nullptr, &handle_, &count_);
  }
  ~ControlSetting() {
    if (is_there()) MPI_T_cvar_handle_free(&handle_);
  }
  ControlSetting(const ControlSetting&) = delete;
  ControlSetting& operator=(const ControlSetting&) = delete;

  bool is_there() const { return count_ > 0; }
  // Only if it is there, as the next. Returns MPI_T's code.
  int set(const std::string& value) {
    std::vector<char> text(static_cast<std::size_t>(count_));
    value.copy(text.data(), text.size() - 1);
    return MPI_T_cvar_write(handle_, text.data());
  }
  std::string get() {
    std::vector<char> text(static_cast<std::size_t>(count_));
    MPI_T_cvar_read(handle_, text.data());
    return text.data();
  }

 private:
  MPI_T_cvar_handle handle_ = MPI_T_CVAR_HANDLE_NULL;
  int count_ = 0;
};
