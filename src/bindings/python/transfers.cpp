#include "bindings/python/transfers.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace ferry::python {
namespace {

// The memory of small files, shown by the buffer protocol.
struct Slab {
  std::shared_ptr<std::byte> memory;
  std::uint64_t bytes = 0;
};

ShownMemory memory_of(const Slab& slab) {
  return {slab.memory.get(), slab.bytes};
}

nb::list to_list(const std::vector<bulk::Failure>& failures) {
  nb::list list;
  for (const bulk::Failure& failure : failures) {
    list.append(nb::make_tuple(failure.part, nb::bytes(failure.path.data(), failure.path.size()),
                               failure.offset, failure.bytes, failure.error_number));
  }
  return list;
}

// Ctrl-C works meanwhile.
void wait_for_all_of(const bulk::Future& future) {
  while (!future.wait_for(signals_interval))
    check_signals();
}

bulk::Future started(const bulk::Engine& engine, const std::vector<bulk::Part>& parts,
                     Direction direction) {
  return direction == Direction::write ? engine.write(parts) : engine.read(parts);
}

// A batch of (file, buffer, offset).
struct TransferBatch {
  TransferBatch(nb::handle list, Direction direction) {
    files = nb::steal(PySequence_Fast(list.ptr(), "a batch is a sequence of parts"));
    if (!files.is_valid()) throw nb::python_error();
    files = nb::steal(PySequence_Tuple(files.ptr()));
    if (!files.is_valid()) throw nb::python_error();
    const Py_ssize_t count = PyTuple_Size(files.ptr());
    parts.reserve(static_cast<std::size_t>(count));
    buffers.reserve(static_cast<std::size_t>(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PyTuple_GetItem(files.ptr(), i);
      if (!PyTuple_Check(item) || PyTuple_Size(item) != 3) {
        throw nb::type_error("a part is a tuple of a file, a buffer and an offset");
      }
      const auto& file = nb::cast<const File&>(nb::handle(PyTuple_GetItem(item, 0)));
      buffers.emplace_back(PyTuple_GetItem(item, 1), direction == Direction::read, true);
      parts.push_back(bulk::Part{&*file, buffers.back().data(), buffers.back().bytes(),
                                 to_offset(PyTuple_GetItem(item, 2))});
    }
  }
  std::vector<bulk::Part> parts;
  std::vector<PinnedBuffer> buffers;
  nb::object files;  // keeps them
};

// A transfer in flight. Its memory stays until it has ended, even if this object does not.
class PythonTransfer {
 public:
  PythonTransfer(const Engine& engine, nb::handle parts, Direction direction, nb::object on_end)
      : kept_(std::make_shared<Kept>(Kept{TransferBatch(parts, direction), std::move(on_end)})) {
    const std::vector<bulk::Part>& ranges = kept_->batch->parts;
    {
      const LockRelease unlocked;
      future_ = std::make_shared<bulk::Future>(started(*engine, ranges, direction));
    }
    // Runs immediately if the transfer has ended already.
    future_->then([kept = kept_] { end(*kept); });
  }
  ~PythonTransfer() {
    const LockRelease unlocked;
    future_->detach();
    future_.reset();
  }
  PythonTransfer(const PythonTransfer&) = delete;
  PythonTransfer& operator=(const PythonTransfer&) = delete;

  bool done() const { return future_->ready(); }

  // Returns false on timeout. Nothing: no timeout.
  bool wait(std::optional<double> timeout_s) const {
    const LockRelease unlocked;
    if (!timeout_s) {
      wait_for_all_of(*future_);
      return true;
    }
    constexpr double longest_s = 1e9;
    return future_->wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(std::clamp(*timeout_s, 0.0, longest_s))));
  }

  void cancel() const {
    const LockRelease unlocked;
    future_->cancel();
  }

  // Once done: returns buffers and files to their owners immediately, without waiting for the
  // engine's thread.
  void let_go() const {
    if (done()) kept_->let_go();
  }

  // Once done: bytes of each part or a negative errno.
  std::vector<std::int64_t> results() const { return future_->results(); }
  nb::list failures() const { return to_list(future_->failures()); }

  nb::tuple progress() const {
    const bulk::Progress progress = future_->progress();
    return nb::make_tuple(progress.bytes_done, progress.bytes_total);
  }

 private:
  // What a transfer keeps alive. Access it only with the interpreter's lock held.
  struct Kept {
    std::optional<TransferBatch> batch;
    nb::object on_end;

    void let_go() { const std::optional<TransferBatch> gone = std::exchange(batch, std::nullopt); }
  };

  // Runs on a thread of the engine.
  static void end(Kept& kept) {
    const nb::gil_scoped_acquire locked;
    const EngineThread here;
    const nb::object on_end = std::move(kept.on_end);
    try {
      on_end();
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("the end of a ferry transfer");
    }
    kept.let_go();
  }

  const std::shared_ptr<Kept> kept_;
  std::shared_ptr<bulk::Future> future_;
};

}  // namespace

std::uint64_t to_offset(nb::handle number) {
  // Any index, also NumPy's integers.
  const Py_ssize_t offset = PyNumber_AsSsize_t(number.ptr(), PyExc_OverflowError);
  if (offset == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (offset < 0) {
    const std::string text = "offset " + std::to_string(offset) + " is negative";
    throw nb::value_error(text.c_str());
  }
  return static_cast<std::uint64_t>(offset);
}

nb::tuple run_batch(const bulk::Engine& engine, nb::handle parts, Direction direction) {
  const TransferBatch batch(parts, direction);
  std::vector<std::int64_t> results;
  std::vector<bulk::Failure> failures;
  {
    const LockRelease unlocked;
    const bulk::Future future = started(engine, batch.parts, direction);
    wait_for_all_of(future);
    results = future.results();
    failures = future.failures();
  }
  return nb::make_tuple(results, to_list(failures));
}

nb::tuple read_files(const bulk::Engine& engine, const std::vector<std::string>& paths) {
  std::vector<bulk::Contents> contents;
  {
    const LockRelease unlocked;
    contents = engine.read_files(paths);
  }
  // One object per piece of memory, up to the end of its last file.
  std::map<const std::byte*, std::uint64_t> ends;
  for (const bulk::Contents& one : contents) {
    if (one.memory == nullptr) continue;
    std::uint64_t& end = ends[one.memory.get()];
    end = std::max(end, static_cast<std::uint64_t>(one.data - one.memory.get()) + one.bytes);
  }
  std::map<const std::byte*, nb::object> views;
  nb::list list;
  nb::list failures;
  for (std::size_t index = 0; index < contents.size(); ++index) {
    const bulk::Contents& one = contents[index];
    if (one.error_number != 0) {
      failures.append(nb::make_tuple(index, one.error_number));
      list.append(nb::none());
      continue;
    }
    nb::object& view = views[one.memory.get()];
    if (!view.is_valid()) {
      const nb::object slab = nb::cast(Slab{one.memory, ends[one.memory.get()]});
      view = nb::steal<nb::object>(PyMemoryView_FromObject(slab.ptr()));
      if (!view.is_valid()) throw nb::python_error();
    }
    const auto begin = static_cast<Py_ssize_t>(one.data - one.memory.get());
    auto piece = nb::steal<nb::object>(
        PySequence_GetSlice(view.ptr(), begin, begin + static_cast<Py_ssize_t>(one.bytes)));
    if (!piece.is_valid()) throw nb::python_error();
    list.append(std::move(piece));
  }
  return nb::make_tuple(list, failures);
}

void bind_transfers(nb::module_& module) {
  const nb::class_<Slab> slab(module, "Slab", nb::type_slots(shows<Slab, memory_of>));
  nb::class_<PythonTransfer>(module, "Transfer")
      .def("__init__",
           [](PythonTransfer* self, const Engine& engine, nb::handle parts, bool writing,
              nb::object on_end) {
             new (self) PythonTransfer(engine, parts, writing ? Direction::write : Direction::read,
                                       std::move(on_end));
           })
      .def("done", &PythonTransfer::done)
      .def("wait", &PythonTransfer::wait, nb::arg("timeout_s").none() = nb::none())
      .def("let_go", &PythonTransfer::let_go)
      .def("cancel", &PythonTransfer::cancel)
      .def("results", &PythonTransfer::results)
      .def("failures", &PythonTransfer::failures)
      .def("progress", &PythonTransfer::progress);
}

}  // namespace ferry::python
