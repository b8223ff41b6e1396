#include "harness/mpi/plan.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <nlohmann/json.hpp>

#include "harness/json_fields.hpp"
#include "storage/uri.hpp"

namespace ferry::bench::mpi {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> interface_names = {"posix", "mpiio", "ferry", "native"};
constexpr std::array<const char*, 5> method_names = {"automatic", "independent", "serial",
                                                     "aggregate", "mpiio"};
constexpr std::array<const char*, 2> operation_names = {"read", "write"};
constexpr std::array<const char*, 2> pattern_names = {"blocks", "interleaved"};
constexpr std::array<const char*, 3> order_names = {"native", "little", "big"};
constexpr std::array<const char*, 2> sync_names = {"none", "fsync"};
constexpr unsigned ranks_max = 1U << 16;
constexpr unsigned repeats_max = 1'000'000;
// MPI counts bytes of one call with an int.
constexpr std::uint64_t transfer_bytes_max = std::uint64_t{1} << 30;
constexpr std::uint64_t bytes_max = std::uint64_t{1} << 50;

void check_sizes(const Cell& cell, const Fields& fields) {
  if (cell.total_bytes % (cell.transfer_bytes * cell.ranks) != 0) {
    fields.fail("total_bytes", "must be a multiple of transfer_bytes times ranks");
  }
  if (cell.pattern == Pattern::interleaved && cell.transfer_bytes % cell.piece_bytes != 0) {
    fields.fail("transfer_bytes", "must be a multiple of piece_bytes");
  }
  if (cell.order != ByteOrder::native && cell.transfer_bytes % cell.element_bytes != 0) {
    fields.fail("transfer_bytes", "must be a multiple of element_bytes");
  }
}

void check(const Cell& cell, Fields& fields) {
  if (cell.id.empty()) fields.fail("id", "must not be empty");
  if (cell.path.empty()) fields.fail("path", "must not be empty");
  check_sizes(cell, fields);
  const bool is_uri = storage::scheme_of(cell.path) != storage::Scheme::posix;
  if (is_uri && (cell.interface == Interface::posix || cell.interface == Interface::mpiio)) {
    fields.fail("interface", "does not take the URI " + cell.path);
  }
  if (cell.writers > cell.ranks) fields.fail("writers", "must be at most ranks");
  if (cell.file_per_writer && cell.writers == 0) fields.fail("writers", "must be given");
  const bool alone = cell.interface == Interface::posix || cell.interface == Interface::native;
  if (alone && cell.writers != 0 && cell.writers != cell.ranks) {
    fields.fail("writers", "are all ranks where none sends its data to another");
  }
  if (cell.interface != Interface::ferry && cell.order != ByteOrder::native) {
    fields.fail("byte_order", "is for interface ferry");
  }
  if (cell.interface != Interface::mpiio && cell.collective) {
    fields.fail("collective", "is for interface mpiio");
  }
  if (cell.sync && cell.operation == Operation::read) fields.fail("sync", "is for writes");
  if (cell.cold && cell.operation == Operation::write) fields.fail("cold", "is for reads");
}

Cell read_cell(const json& object, const std::string& where) {
  Fields fields(object, where);
  Cell cell;
  for (const char* key : {"id", "interface", "operation", "path", "transfer_bytes", "total_bytes"})
    fields.require(key);
  cell.id = fields.text("id");
  cell.path = fields.text("path");
  cell.interface = static_cast<Interface>(fields.choice("interface", interface_names, 0));
  cell.method = static_cast<collective::Method>(fields.choice("method", method_names, 0));
  cell.operation = static_cast<Operation>(fields.choice("operation", operation_names, 0));
  cell.pattern = static_cast<Pattern>(fields.choice("pattern", pattern_names, 0));
  cell.order = static_cast<ByteOrder>(fields.choice("byte_order", order_names, 0));
  cell.sync = fields.choice("sync", sync_names, 0) == 1;
  fields.flag("collective", cell.collective);
  fields.flag("file_per_writer", cell.file_per_writer);
  fields.flag("cold", cell.cold);
  fields.number("ranks", cell.ranks, 1, ranks_max);
  fields.number("writers", cell.writers, 0, ranks_max);
  fields.number("transfer_bytes", cell.transfer_bytes, 1, transfer_bytes_max);
  fields.number("total_bytes", cell.total_bytes, 1, bytes_max);
  fields.number("piece_bytes", cell.piece_bytes, 1, transfer_bytes_max);
  fields.number("buffer_bytes", cell.buffer_bytes, 0, transfer_bytes_max);
  fields.number("stripe_bytes", cell.stripe_bytes, 0, bytes_max);
  fields.number("stripe_count", cell.stripe_count, 0, ranks_max);
  fields.number("element_bytes", cell.element_bytes, 1, 16);
  if ((cell.element_bytes & (cell.element_bytes - 1)) != 0) {
    fields.fail("element_bytes", "must be 1, 2, 4, 8 or 16");
  }
  fields.number("seed", cell.seed, 0, UINT64_MAX);
  fields.refuse_unknown();
  check(cell, fields);
  return cell;
}

}  // namespace

Plan read_plan(std::istream& input) {
  json document;
  try {
    document = json::parse(input);
  } catch (const json::exception& error) {
    throw PlanError(std::string("not JSON: ") + error.what());
  }
  Fields fields(document, "plan");
  fields.require("schema");
  if (fields.text("schema") != "ferry.mpi-plan/1") {
    fields.fail("schema", "must be ferry.mpi-plan/1");
  }
  Plan plan;
  fields.number("repeats", plan.repeats, 1, repeats_max);
  fields.require("cells");
  if (!document["cells"].is_array() || document["cells"].empty()) {
    fields.fail("cells", "must be an array that is not empty");
  }
  std::set<std::string> ids;
  for (const json& object : document["cells"]) {
    const std::string where = "cells[" + std::to_string(plan.cells.size()) + "]";
    plan.cells.push_back(read_cell(object, where));
    const Cell& cell = plan.cells.back();
    if (!ids.insert(cell.id).second) throw PlanError(where + ".id: there are two of " + cell.id);
    plan.ranks = std::max(plan.ranks, cell.ranks);
  }
  fields.refuse_unknown();
  return plan;
}

const char* name_of(Interface interface) {
  return interface_names[static_cast<std::size_t>(interface)];
}

}  // namespace ferry::bench::mpi
