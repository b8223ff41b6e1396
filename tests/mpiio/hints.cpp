// A program of MPI-IO that knows nothing of Ferry: the hints in force of a file, and a transfer.
//
//   mpiexec -n 2 mpiio_hints FILE [first] [set:NAME=VALUE] [NAME=VALUE...]
//
//   first           only the first rank has the environment's ROMIO_HINTS
//   set:NAME=VALUE  by the control variable NAME of MPI_T, on all ranks
//   NAME=VALUE      in the info
#include <array>
#include <cstdlib>
#include <string>

#include <mpi.h>

#include "mpiio/hint_values.hpp"
#include "mpiio/ranks.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  begin(argc, argv);
  MPI_Info asked = MPI_INFO_NULL;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (word == "first") {
      if (rank != 0) unsetenv("ROMIO_HINTS");
    } else if (word.starts_with("set:")) {
      ControlSetting setting(word.substr(4, equals - 4).c_str());
      if (setting.is_there()) setting.set(word.substr(equals + 1));
    } else {
      if (asked == MPI_INFO_NULL) MPI_Info_create(&asked);
      MPI_Info_set(asked, word.substr(0, equals).c_str(), word.substr(equals + 1).c_str());
    }
  }
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, asked, &file);
  const std::array<char, 8> data{};
  MPI_File_write_at_all(file, 8 * rank, data.data(), 8, MPI_BYTE, MPI_STATUS_IGNORE);
  MPI_Info info = MPI_INFO_NULL;
  MPI_File_get_info(file, &info);
  for (const char* name : {"ferry_mpiio", "cb_nodes", "cb_buffer_size", "romio_cb_write",
                           "romio_ds_read", "romio_ds_write", "ind_rd_buffer_size"})
    print(name, hint_of(info, name));
  MPI_Info_free(&info);
  if (asked != MPI_INFO_NULL) MPI_Info_free(&asked);
  MPI_File_close(&file);
  MPI_T_finalize();  // Open MPI 4.1 crashes if it is called after MPI_Finalize
  MPI_Finalize();
  return 0;
}
