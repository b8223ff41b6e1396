// A tool of MPI_T that knows nothing of Ferry but the names of its variables.
//
//   mpiio_tools                            lists what there is, before MPI is initialised
//   mpiexec -n 2 mpiio_tools FILE OTHER    reads and sets Ferry's around calls of MPI-IO; each line
//                                          names a case and what the ranks saw
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "mpiio/hint_values.hpp"
#include "mpiio/ranks.hpp"

namespace {

constexpr int ints = 1000;

std::string code_name(int code) {
  switch (code) {
    case MPI_SUCCESS:
      return "done";
    case MPI_T_ERR_NOT_INITIALIZED:
      return "not initialized";
    case MPI_T_ERR_INVALID_INDEX:
      return "index";
    case MPI_T_ERR_INVALID_HANDLE:
      return "handle";
    case MPI_T_ERR_INVALID_SESSION:
      return "session";
    case MPI_T_ERR_INVALID_NAME:
      return "name";
    case MPI_T_ERR_INVALID:
      return "invalid";
    case MPI_T_ERR_PVAR_NO_STARTSTOP:
      return "no start or stop";
    case MPI_T_ERR_PVAR_NO_WRITE:
      return "no write";
    default:
      return std::to_string(code);
  }
}

// ---- the list ----------------------------------------------------------------------------------

// Texts of a variable or a category, and space for them.
struct Texts {
  std::array<char, 200> name{};
  std::array<char, 1000> description{};
  int name_bytes = 200;
  int description_bytes = 1000;
};

void list_variables() {
  int number = 0;
  MPI_T_pvar_get_num(&number);
  for (int i = 0; i < number; ++i) {
    Texts texts;
    std::array<int, 8> seen{};
    int again = -1;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    MPI_T_pvar_get_info(i, texts.name.data(), &texts.name_bytes, &seen[0], &seen[1], &type, &names,
                        texts.description.data(), &texts.description_bytes, &seen[2], &seen[3],
                        &seen[4], &seen[5]);
    MPI_T_pvar_get_index(texts.name.data(), seen[1], &again);
    std::printf("pvar %d %d %s %d %d %d %d %d %d %d: %s\n", i, again, texts.name.data(),
                type == MPI_DOUBLE ? 1 : 0, seen[0], seen[1], seen[2], seen[3], seen[4], seen[5],
                texts.description.data());
  }
  MPI_T_cvar_get_num(&number);
  for (int i = 0; i < number; ++i) {
    Texts texts;
    std::array<int, 3> seen{};
    int again = -1;
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_T_enum names = MPI_T_ENUM_NULL;
    MPI_T_cvar_get_info(i, texts.name.data(), &texts.name_bytes, &seen[0], &type, &names,
                        texts.description.data(), &texts.description_bytes, &seen[1], &seen[2]);
    MPI_T_cvar_get_index(texts.name.data(), &again);
    std::printf("cvar %d %d %s %d %d %d %d: %s\n", i, again, texts.name.data(),
                type == MPI_CHAR ? 1 : 0, seen[0], seen[1], seen[2], texts.description.data());
  }
}

void print_members(const char* what, int category, int number,
                   int (*get)(int category, int length, int* indices)) {
  std::vector<int> members(static_cast<std::size_t>(number) + 2, -7);
  get(category, number + 1, members.data());
  std::printf(" %s", what);
  for (const int member : members)
    std::printf(" %d", member);
}

void list_categories() {
  int number = 0;
  MPI_T_category_get_num(&number);
  for (int i = 0; i < number; ++i) {
    Texts texts;
    std::array<int, 3> seen{};
    int again = -1;
    MPI_T_category_get_info(i, texts.name.data(), &texts.name_bytes, texts.description.data(),
                            &texts.description_bytes, &seen[0], &seen[1], &seen[2]);
    MPI_T_category_get_index(texts.name.data(), &again);
    std::printf("category %d %d %s:", i, again, texts.name.data());
    print_members("cvars", i, seen[0], MPI_T_category_get_cvars);
    print_members("pvars", i, seen[1], MPI_T_category_get_pvars);
    print_members("categories", i, seen[2], MPI_T_category_get_categories);
#if MPI_VERSION >= 4
    int events = -1;
    MPI_T_category_get_num_events(i, &events);
    print_members("events", i, events, MPI_T_category_get_events);
#endif
    std::printf("\n");
  }
  int stamp = -1;
  MPI_T_category_changed(&stamp);
  std::printf("changed %d\n", stamp);
}

int list() {
  int provided = 0;
  int number = 0;
  std::printf("before: %s\n", code_name(MPI_T_pvar_get_num(&number)).c_str());
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  list_variables();
  list_categories();
#if !defined(MPICH_NUMVERSION) || MPICH_NUMVERSION < 40'200'000  // MPICH 4.2 crashes there
  MPI_T_cvar_get_num(&number);
  const int behind = MPI_T_cvar_get_info(number, nullptr, nullptr, nullptr, nullptr, nullptr,
                                         nullptr, nullptr, nullptr, nullptr);
  std::printf("behind the last: %s\n", code_name(behind).c_str());
#endif
  MPI_T_finalize();
  return 0;
}

// ---- around calls ------------------------------------------------------------------------------

MPI_T_pvar_session session;

int index_of(const std::string& name) {
  for (const int one : {MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_AGGREGATE,
                        MPI_T_PVAR_CLASS_TIMER, MPI_T_PVAR_CLASS_LEVEL}) {
    int index = -1;
    if (MPI_T_pvar_get_index(name.c_str(), one, &index) == MPI_SUCCESS) return index;
  }
  return -1;
}

// A performance variable.
class Watched {
 public:
  explicit Watched(const std::string& name, MPI_File* file = nullptr) {
    int count = 0;
    code_ = MPI_T_pvar_handle_alloc(session, index_of(name), file, &handle_, &count);
    if (code_ == MPI_SUCCESS && count != 1) code_ = MPI_T_ERR_INVALID;
  }
  ~Watched() { MPI_T_pvar_handle_free(session, &handle_); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  int code() const { return code_; }
  MPI_T_pvar_handle& handle() { return handle_; }
  int start() { return MPI_T_pvar_start(session, handle_); }
  int stop() { return MPI_T_pvar_stop(session, handle_); }
  int reset() { return MPI_T_pvar_reset(session, handle_); }
  unsigned long long value() {
    unsigned long long value = 0;
    MPI_T_pvar_read(session, handle_, &value);
    return value;
  }
  std::string text() { return std::to_string(value()); }
  double seconds() {
    double seconds = 0;
    MPI_T_pvar_read(session, handle_, &seconds);
    return seconds;
  }

 private:
  MPI_T_pvar_handle handle_ = MPI_T_PVAR_HANDLE_NULL;
  int code_ = MPI_SUCCESS;
};

// An info with one hint; null: without.
class Hint {
 public:
  explicit Hint(const char* name = nullptr, const char* value = nullptr) {
    if (name == nullptr) return;
    MPI_Info_create(&info_);
    MPI_Info_set(info_, name, value);
  }
  ~Hint() {
    if (info_ != MPI_INFO_NULL) MPI_Info_free(&info_);
  }
  Hint(const Hint&) = delete;
  Hint& operator=(const Hint&) = delete;
  MPI_Info info() const { return info_; }

 private:
  MPI_Info info_ = MPI_INFO_NULL;
};

// With every rank's ints between those of the others.
MPI_File open(const std::string& path, const Hint& hint = Hint()) {
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, hint.info(), &file);
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_vector(ints, 1, ranks, MPI_INT, &view);
  MPI_Type_commit(&view);
  MPI_File_set_view(file, MPI_Offset{4} * rank, MPI_INT, view, "native", MPI_INFO_NULL);
  MPI_Type_free(&view);
  return file;
}

void write(MPI_File file) {
  const std::vector<int> data(ints, rank);
  MPI_File_write_at_all(file, 0, data.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
}

void read(MPI_File file) {
  std::vector<int> data(ints);
  MPI_File_read_at_all(file, 0, data.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
}

std::string hint_of(MPI_File file, const char* name) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_File_get_info(file, &info);
  const std::string value = ::hint_of(info, name);
  MPI_Info_free(&info);
  return value;
}

// What one transfer adds to the variables.
void of_a_transfer(const std::string& path, const char* method) {
  ControlSetting setting("ferry_hint_method");
  setting.set(method);
  ControlSetting one_writer("ferry_hint_cb_nodes");
  one_writer.set("1");
  MPI_File file = open(path);
  const char* names[] = {"transfers",        "transfers_independent", "transfers_aggregate",
                         "transfers_serial", "transfers_mpiio",       "written_bytes",
                         "read_bytes",       "message_bytes",         "shared_bytes",
                         "storage_bytes"};
  std::vector<std::unique_ptr<Watched>> all;
  for (const char* name : names)
    all.push_back(std::make_unique<Watched>(std::string("ferry_") + name));
  Watched time("ferry_file_io_time");
  Watched requests("ferry_storage_requests");
  MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
  write(file);
  std::string seen;
  for (const auto& one : all)
    seen += one->text() + " ";
  seen += time.seconds() > 0 ? "time" : "no time";
  seen += requests.value() > 0 ? " requests" : " no requests";
  print((std::string("one transfer by ") + method).c_str(), seen);
  MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES);
  read(file);
  seen.clear();
  for (const auto& one : all)
    seen += one->text() + " ";
  print((std::string("read by ") + method).c_str(), seen);
  MPI_File_close(&file);
  setting.set("");
  one_writer.set("");
}

void of_handles(const std::string& path) {
  MPI_File file = open(path);
  {
    Watched transfers("ferry_transfers");
    Watched bytes("ferry_written_bytes");
    Watched other("ferry_transfers");
    write(file);
    std::string seen = transfers.text();
    transfers.start();
    write(file);
    seen += " " + transfers.text();
    transfers.start();
    write(file);
    seen += " " + transfers.text();
    transfers.stop();
    write(file);
    seen += " " + transfers.text();
    transfers.stop();
    transfers.start();
    write(file);
    seen += " " + transfers.text();
    print("stopped, started, again, stopped, started", seen);
    unsigned long long value = 0;
    seen = code_name(MPI_T_pvar_readreset(session, transfers.handle(), &value));
    seen += " " + std::to_string(value) + " " + transfers.text();
    write(file);
    seen += " " + transfers.text();
    value = 70;
    seen += " " + code_name(MPI_T_pvar_write(session, transfers.handle(), &value));
    write(file);
    seen += " " + transfers.text();
    seen += " " + code_name(transfers.reset());
    seen += " " + transfers.text();
    print("read and reset, written, reset", seen);
    MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
    write(file);
    print("all of the session", transfers.text() + " " + bytes.text() + " " + other.text());
    MPI_T_pvar_stop(session, MPI_T_PVAR_ALL_HANDLES);
    MPI_T_pvar_reset(session, MPI_T_PVAR_ALL_HANDLES);
    write(file);
    print("all of them stopped", transfers.text() + " " + bytes.text() + " " + other.text());
  }
  Watched level("ferry_open_files");
  unsigned long long value = 3;
  print("a level", level.text() + ": " + code_name(level.start()) + ", " + code_name(level.stop()) +
                       ", " + code_name(level.reset()) + ", " +
                       code_name(MPI_T_pvar_write(session, level.handle(), &value)) + ", " +
                       code_name(MPI_T_pvar_readreset(session, level.handle(), &value)));
  MPI_T_pvar_session other = MPI_T_PVAR_SESSION_NULL;
  MPI_T_pvar_session_create(&other);
  Watched bytes("ferry_read_bytes");
  MPI_T_pvar_handle handle = bytes.handle();
  std::string seen = code_name(MPI_T_pvar_read(other, handle, &value));
  seen += ", " + code_name(MPI_T_pvar_read(MPI_T_PVAR_SESSION_NULL, handle, &value));
  seen += ", " + code_name(MPI_T_pvar_handle_free(other, &handle));
  int count = 0;
  MPI_T_pvar_handle_alloc(other, index_of("ferry_read_bytes"), nullptr, &handle, &count);
  MPI_T_pvar_session_free(&other);
  seen += ", " + code_name(MPI_T_pvar_read(session, handle, &value));
  handle = bytes.handle();
  const std::string freed = code_name(MPI_T_pvar_handle_free(session, &bytes.handle()));
  seen += ", " + freed;
  seen += bytes.handle() == MPI_T_PVAR_HANDLE_NULL ? " null" : " not null";
  seen += ", " + code_name(MPI_T_pvar_read(session, handle, &value));
  print("wrong sessions and handles", seen);
  print("levels", level.text() + " " + Watched("ferry_writers").text() + " " +
                      Watched("ferry_as_writer").text());
  MPI_File_close(&file);
  print("levels after closing", level.text() + " " + Watched("ferry_writers").text() + " " +
                                    Watched("ferry_as_writer").text());
  int index = -1;
  print("a name of another class",
        code_name(MPI_T_pvar_get_index("ferry_transfers", MPI_T_PVAR_CLASS_TIMER, &index)));
  char shortened[6] = "xxxxx";
  int bytes_of_name = sizeof shortened;
  MPI_T_pvar_get_info(index_of("ferry_transfers"), shortened, &bytes_of_name, nullptr, nullptr,
                      nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  print("a shortened name", std::string(shortened) + " " + std::to_string(bytes_of_name));
}

// Ferry carries these out only where it has the file alone.
void of_single_ranks(const std::string& path) {
  MPI_File file = open(path);
  Watched single("ferry_transfers_single");
  Watched bytes("ferry_written_bytes");
  Watched transfers("ferry_transfers");
  Watched independent("ferry_transfers_independent");
  Watched left("ferry_transfers_left");
  MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
  const std::vector<int> data(ints, rank);
  MPI_File_write_at(file, 0, data.data(), ints, MPI_INT, MPI_STATUS_IGNORE);
  std::string seen = single.text() + " " + bytes.text() + ", ";
  MPI_File_set_atomicity(file, 1);
  write(file);
  seen += transfers.text() + " " + independent.text() + " " + left.text();
  print("of one rank, and in atomic mode", seen);
  MPI_File_close(&file);
}

void of_files(const std::string& path, const std::string& path_of_other) {
  MPI_File first = open(path);
  MPI_File second = open(path_of_other, Hint("cb_nodes", "1"));
  MPI_File nothing = MPI_FILE_NULL;
  Watched of_first("ferry_file_written_bytes", &first);
  Watched of_second("ferry_file_written_bytes", &second);
  Watched writers("ferry_file_writers", &second);
  Watched as_writer("ferry_file_as_writer", &second);
  Watched of_both("ferry_written_bytes");
  Watched wrong("ferry_file_writers", &nothing);
  Watched without("ferry_file_writers");
  MPI_T_pvar_start(session, MPI_T_PVAR_ALL_HANDLES);
  write(first);
  write(second);
  write(second);
  const std::string levels = writers.text() + " " + as_writer.text();
  MPI_File_close(&first);
  MPI_File_close(&second);
  print("two files", of_first.text() + " " + of_second.text() + " " + of_both.text() + ", " +
                         levels + " " + as_writer.text());
  print("no file", code_name(wrong.code()) + ", " + code_name(without.code()));
}

void of_settings(const std::string& path, const std::string& path_of_other) {
  ControlSetting writers("ferry_hint_cb_nodes");
  ControlSetting buffer("ferry_hint_cb_buffer_size");
  ControlSetting alone("ferry_hint_mpiio");
  std::string seen = "'" + writers.get() + "' ";
  seen += code_name(writers.set("1"));
  seen += " '" + writers.get() + "' ";
  seen += code_name(writers.set("none")) + " ";
  seen += code_name(writers.set("-3")) + " ";
  seen += "'" + writers.get() + "' ";
  print("a setting", seen + code_name(buffer.set("65536")));
  MPI_File file = open(path);
  seen = hint_of(file, "cb_nodes") + " " + hint_of(file, "cb_buffer_size");
  MPI_File_close(&file);
  file = open(path, Hint("cb_nodes", "2"));
  seen += ", " + hint_of(file, "cb_nodes") + " " + hint_of(file, "cb_buffer_size");
  MPI_File_close(&file);
  writers.set("");
  buffer.set("");
  file = open(path);
  seen += ", " + hint_of(file, "cb_nodes") + " " + hint_of(file, "cb_buffer_size");
  print("the hints of a file, with its own, and without", seen);
  Watched transfers("ferry_transfers");
  transfers.start();
  alone.set("disable");
  write(file);
  MPI_File other = open(path_of_other);
  write(other);
  print("left to the library", transfers.text());
  Watched of_the_other("ferry_file_transfers", &other);
  Watched of_the_file("ferry_file_transfers", &file);
  of_the_other.start();
  of_the_file.start();
  write(other);
  write(file);
  print("its own variable", of_the_other.text() + " " + of_the_file.text());
  alone.set("");
  MPI_File_close(&other);
  MPI_File_close(&file);
}

// Threads that take and give back handles while transfers go on.
void of_threads(const std::string& path) {
  MPI_File file = open(path);
  std::atomic<bool> goes_on = true;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (goes_on) {
        Watched one("ferry_written_bytes", nullptr);
        Watched of_file("ferry_file_written_bytes", &file);
        one.start();
        of_file.start();
        const unsigned long long before = of_file.value();
        if (one.value() % (4 * ints) != 0 || of_file.value() < before) ++wrong;
        MPI_T_pvar_reset(session, one.handle());
      }
    });
  }
  for (int i = 0; i < 200; ++i)
    write(file);
  goes_on = false;
  for (std::thread& thread : threads)
    thread.join();
  MPI_File_close(&file);
  print("threads", std::to_string(wrong.load()) + " wrong");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return list();
  const std::string path = argv[1];
  const std::string path_of_other = argv[2];
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_MULTIPLE, &provided);
  MPI_T_pvar_session_create(&session);
  {
    Watched opens("ferry_storage_opens");  // before MPI is there
    opens.start();
    const unsigned long long before = opens.value();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    for (const char* method : {"independent", "aggregate", "serial", "mpiio"})
      of_a_transfer(path, method);
    opens.reset();
    MPI_File file = open(path);
    print("opened before MPI was there, and now", std::to_string(before) + " " + opens.text());
    MPI_File_close(&file);
  }
  of_handles(path);
  of_single_ranks(path);
  of_files(path, path_of_other);
  of_settings(path, path_of_other);
  of_threads(path);
  Watched transfers("ferry_transfers");
  transfers.start();
  MPI_File file = open(path);
  write(file);
  MPI_File_close(&file);
  MPI_Finalize();
  unsigned long long value = 0;
  const int after = MPI_T_pvar_read(session, transfers.handle(), &value);
  if (rank == 0) std::printf("after MPI: %s %llu\n", code_name(after).c_str(), value);
#ifndef OPEN_MPI  // whose version 4.1 crashes if MPI_T_finalize is called after MPI_Finalize
  MPI_T_pvar_handle handle = transfers.handle();
  MPI_T_finalize();
  const int at_last = MPI_T_pvar_read(session, handle, &value);
  if (rank == 0) std::printf("after MPI_T: %s\n", code_name(at_last).c_str());
#endif
  return 0;
}
