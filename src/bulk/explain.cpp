// Describes how the engine would transfer a file.
#include <array>
#include <string>
#include <vector>

#include <fcntl.h>

#include <ferry/bulk.hpp>

#include "bulk/scheduler.hpp"

namespace ferry::bulk {
namespace {

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> units = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + units[unit];
}

std::string pinned(bool is_pinned, const char* why) {
  return is_pinned ? " (pinned)" : std::string(" (") + why + ")";
}

void explain_route(Explanation& explanation, EngineFile& file, Route route) {
  std::vector<std::string>& reasons = explanation.reasons;
  const bool can_be_direct = file.direct() != nullptr;
  const bool wanted_direct =
      route == Route::direct || (explanation.residency_known && route == Route::automatic &&
                                 explanation.resident_bytes < explanation.file_bytes);
  explanation.route = wanted_direct && can_be_direct ? "direct" : "buffered";
  if (route == Route::buffered) {
    reasons.emplace_back("buffered: pinned");
  } else if (route == Route::direct && can_be_direct) {
    reasons.emplace_back("direct: pinned");
  } else if (!file.local()) {
    reasons.emplace_back("requests to a server, many at once; no page cache of this machine");
  } else if (!can_be_direct) {
    reasons.emplace_back("buffered: this file system has no direct I/O");
  } else if (!explanation.residency_known) {
    reasons.emplace_back(
        "buffered: the kernel does not reveal here whether the page cache has the file");
  } else if (wanted_direct) {
    reasons.emplace_back(
        "direct: the page cache has " + std::to_string(explanation.resident_bytes) + " of " +
        std::to_string(explanation.file_bytes) + " bytes; each task looks again at its own range");
  } else {
    reasons.emplace_back("buffered: the page cache has the whole file");
  }
}

struct Why {
  const char* workers;
  const char* tasks;
};

// By Source.
constexpr std::array<Why, 3> why = {{
    {"the CPUs this process may use, but at least 1 MiB for each",
     "so that few calls copy, but several for each worker"},
    {"enough for a disk, as they mostly wait", "best for the cores' caches"},
    {"which keeps many requests on their way", "as large as a server's requests"},
}};

void explain_plan(Explanation& explanation, const EngineOptions& wish, const TransferPlan& plan) {
  explanation.workers = plan.workers;
  explanation.task_bytes = plan.task_bytes;
  std::vector<std::string>& reasons = explanation.reasons;
  const Why& because = why.at(static_cast<std::size_t>(plan.source));
  reasons.push_back(std::to_string(plan.workers) + (plan.workers == 1 ? " worker" : " workers") +
                    pinned(wish.workers != 0, because.workers));
  reasons.push_back("tasks of " + size_text(plan.task_bytes) +
                    pinned(wish.task_bytes != 0, because.tasks));
  if (plan.source != Source::disk) return;
  reasons.push_back("up to " + std::to_string(explanation.depth) +
                    " direct tasks in flight per worker" +
                    pinned(wish.depth != 0, "up to 4 where they have to be staged"));
}

std::string gpu_way(EngineFile& file, cuda::Gpus& gpus) {
  const cuda::GpuDirectFile* direct = file.gpu_direct(gpus);
  if (direct == nullptr) return "pinned staging (no GPUDirect: " + file.why_no_gpu_direct() + ")";
  return "GPUDirect Storage (cuFile with " + direct->driver().beneath() +
         ") for what goes past the page cache, pinned staging for the rest";
}

}  // namespace

Explanation Engine::explain(const std::string& path) const {
  scheduler_->check_usable();
  EngineFile file(scheduler_->lanes(), path, O_RDONLY, 0);
  const EngineOptions& options = scheduler_->options();
  const storage::Description storage = scheduler_->lanes()->storage().describe_path(path);
  storage::Operation status{.kind = storage::Kind::file_status};
  storage::checked(file.control(status), path);
  Explanation explanation;
  explanation.storage = storage.name;
  explanation.storage_engine = storage.engine;
  explanation.depth = options.depth;
  explanation.file_bytes = status.status.size_bytes;
  const auto resident = file.resident_bytes(0, explanation.file_bytes);
  explanation.residency_known = resident.has_value();
  explanation.resident_bytes = resident.value_or(0);
  explain_route(explanation, file, options.route);
  explain_plan(
      explanation, scheduler_->wish(),
      choose_plan(scheduler_->wish(), options,
                  source_of(file, Direction::read, 0, explanation.file_bytes, options.route),
                  explanation.file_bytes));
  if (cuda::Driver::in_use() != nullptr) {
    const std::uint64_t task_bytes =
        scheduler_->wish().task_bytes != 0 ? options.task_bytes : gpu_task_bytes;
    explanation.reasons.push_back("a GPU's memory: " + gpu_way(file, scheduler_->gpus()) +
                                  ", tasks of " + size_text(task_bytes));
  }
  for (const std::string& note : storage.notes)
    explanation.reasons.push_back(note);
  return explanation;
}

}  // namespace ferry::bulk
