#include "mpiio/tool_variables.hpp"

#include "collective/hints.hpp"

namespace ferry::mpiio {
namespace {

// Where there is such a variable.
enum class Scope { both, all_files };

struct Row {
  const char* name;
  const char* description;
  Number number;
  int variable_class;
  int verbosity;
  Scope scope = Scope::both;
};

constexpr int counter = MPI_T_PVAR_CLASS_COUNTER;
constexpr int sum = MPI_T_PVAR_CLASS_AGGREGATE;
constexpr int timer = MPI_T_PVAR_CLASS_TIMER;
constexpr int level = MPI_T_PVAR_CLASS_LEVEL;
constexpr int basic = MPI_T_VERBOSITY_USER_BASIC;
constexpr int detail = MPI_T_VERBOSITY_USER_DETAIL;
constexpr int tuner = MPI_T_VERBOSITY_TUNER_BASIC;
constexpr int tuner_detail = MPI_T_VERBOSITY_TUNER_DETAIL;

// Indices are places in this table: new rows go to its end.
constexpr Row rows[] = {
    {"transfers", "collective transfers that Ferry carried out", Number::transfers, counter, basic},
    {"transfers_independent", "collective transfers that each rank carried out by itself",
     Number::transfers_independent, counter, tuner},
    {"transfers_aggregate",
     "collective transfers whose data ranks exchanged, so that each writer had one part",
     Number::transfers_aggregate, counter, tuner},
    {"transfers_serial", "collective transfers whose data each writer took rank by rank",
     Number::transfers_serial, counter, tuner},
    {"transfers_mpiio",
     "collective transfers by the MPI library, as the hint ferry_method asks for",
     Number::transfers_mpiio, counter, tuner},
    {"transfers_empty", "collective transfers for which no rank had data", Number::transfers_empty,
     counter, tuner_detail},
    {"transfers_left", "collective transfers of Ferry's files that it left to the MPI library",
     Number::transfers_left, counter, basic},
    {"transfers_single", "transfers of this rank alone that Ferry carried out",
     Number::transfers_single, counter, basic},
    {"read_bytes", "bytes that this rank read through Ferry", Number::read_bytes, sum, basic},
    {"written_bytes", "bytes that this rank wrote through Ferry", Number::written_bytes, sum,
     basic},
    {"messages", "messages of data and extents that this rank sent", Number::messages, counter,
     tuner},
    {"message_bytes", "bytes in the messages of data and extents that this rank sent",
     Number::message_bytes, sum, tuner},
    {"remote_messages", "messages of data and extents that this rank sent to other nodes",
     Number::remote_messages, counter, tuner},
    {"remote_bytes", "bytes in the messages of data and extents that this rank sent to other nodes",
     Number::remote_bytes, sum, tuner},
    {"shared_bytes", "bytes that this rank passed through memory shared by the ranks of its node",
     Number::shared_bytes, sum, tuner},
    {"storage_opens", "how often this rank opened a file", Number::storage_opens, counter,
     tuner_detail},
    {"storage_requests", "requests of this rank to the storage", Number::storage_requests, counter,
     tuner},
    {"storage_bytes", "bytes that this rank read from the storage or wrote to it",
     Number::storage_bytes, sum, tuner},
    {"gpu_bytes", "bytes that this rank copied from or to memory of GPUs", Number::gpu_bytes, sum,
     tuner_detail},
    {"plan_time", "seconds for agreeing on sizes, senders and receivers", Number::plan_time, timer,
     tuner},
    {"exchange_time", "seconds of waiting for messages", Number::exchange_time, timer, tuner},
    {"pack_time", "seconds for copies between the program's memory, messages and file buffers",
     Number::pack_time, timer, tuner},
    {"file_io_time", "seconds of starting file I/O and waiting for it", Number::file_io_time, timer,
     tuner},
    {"sync_time", "seconds for making data durable", Number::sync_time, timer, tuner},
    {"wait_time", "seconds of waiting for other ranks at the end of calls", Number::wait_time,
     timer, tuner},
    {"open_files", "open files whose collective transfers Ferry carries out", Number::open_files,
     level, detail, Scope::all_files},
    {"writers", "ranks that read and write for others in the file, or in the one opened last",
     Number::writers, level, tuner},
    {"as_writer", "open files in which this rank is one of the writers", Number::as_writer, level,
     tuner},
};

std::vector<PerformanceVariable> made_of_rows() {
  std::vector<PerformanceVariable> variables;
  for (const bool of_a_file : {false, true}) {
    const std::string begin = of_a_file ? "ferry_file_" : "ferry_";
    const std::string end = of_a_file ? " (of one file)" : " (of all files)";
    for (const Row& row : rows) {
      if (of_a_file && row.scope == Scope::all_files) continue;
      variables.push_back({begin + row.name, row.description + end, row.number, row.variable_class,
                           row.verbosity, of_a_file});
    }
  }
  return variables;
}

std::vector<ControlVariable> made_of_hints() {
  const std::string own = "ferry_";
  std::vector<ControlVariable> variables;
  for (const std::string& hint : collective::hint_names()) {
    const std::string name = hint.starts_with(own) ? hint.substr(own.size()) : hint;
    variables.push_back({"ferry_hint_" + name,
                         "the hint " + hint +
                             " of files that are opened from now on, unless their info has it "
                             "(empty for none); to be set on all ranks of a file",
                         hint});
  }
  return variables;
}

}  // namespace

const std::vector<PerformanceVariable>& performance_variables() {
  static const auto& variables = *new std::vector(made_of_rows());
  return variables;
}

const std::vector<ControlVariable>& control_variables() {
  static const auto& variables = *new std::vector(made_of_hints());
  return variables;
}

}  // namespace ferry::mpiio
