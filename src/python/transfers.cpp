#include "python/transfers.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace ferry::python {
namespace {

// Memory that small files were read into, shown by the buffer protocol.
struct Slab {
  std::shared_ptr<std::byte> memory;
  std::uint64_t bytes = 0;
};

int show_slab(PyObject* self, Py_buffer* view, int flags) {
  const Slab& slab = *nb::inst_ptr<Slab>(nb::handle(self));
  return PyBuffer_FillInfo(view, self, slab.memory.get(), static_cast<Py_ssize_t>(slab.bytes), 0,
                           flags);
}

PyType_Slot slab_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(show_slab)}, {0, nullptr}};

nb::list to_list(const std::vector<std::int64_t>& results) {
  nb::list list;
  for (const std::int64_t result : results)
    list.append(result);
  return list;
}

nb::list to_list(const std::vector<bulk::Failure>& failures) {
  nb::list list;
  for (const bulk::Failure& failure : failures) {
    list.append(nb::make_tuple(failure.part, nb::bytes(failure.path.data(), failure.path.size()),
                               failure.offset, failure.bytes, failure.error_number));
  }
  return list;
}

// What a transfer keeps until it is over. Destroyed with the interpreter's lock held.
struct Kept {
  Batch batch;
  nb::object on_end;
};

// Runs on a thread of the engine.
void end_transfer(Kept* kept) {
  const nb::gil_scoped_acquire locked;
  const std::unique_ptr<Kept> owned(kept);
  try {
    if (!owned->on_end.is_none()) owned->on_end();
  } catch (nb::python_error& error) {
    error.discard_as_unraisable("the end of a ferry transfer");
  }
}

}  // namespace

Batch::Batch(nb::handle list, bool writing) {
  const auto sequence =
      nb::steal<nb::object>(PySequence_Fast(list.ptr(), "a batch is a sequence of parts"));
  if (!sequence.is_valid()) throw nb::python_error();
  files = sequence;
  const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence.ptr()));
  PyObject** items = PySequence_Fast_ITEMS(sequence.ptr());
  parts.reserve(count);
  buffers.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3) {
      throw nb::type_error("a part is a tuple of a file, a buffer and an offset");
    }
    const auto& file = nb::cast<const File&>(nb::handle(PyTuple_GET_ITEM(item, 0)));
    buffers.emplace_back(PyTuple_GET_ITEM(item, 1), !writing);
    const unsigned long long offset = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(item, 2));
    if (offset == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
      throw nb::python_error();
    }
    parts.push_back(bulk::Part{&*file, buffers.back().data(), buffers.back().bytes(), offset});
  }
}

Transfer::Transfer(const bulk::Engine& engine, nb::handle parts, bool writing, nb::object on_end) {
  auto kept = std::make_unique<Kept>(Kept{Batch(parts, writing), std::move(on_end)});
  const std::vector<bulk::Part>& ranges = kept->batch.parts;
  {
    const LockRelease unlocked;
    future_ = std::make_shared<bulk::Future>(writing ? engine.write(ranges) : engine.read(ranges));
  }
  // From now on the callback owns it; where the transfer is over already, it runs right here.
  future_->then([memory = kept.release()] { end_transfer(memory); });
}

Transfer::~Transfer() {
  const LockRelease unlocked;
  future_->detach();
  future_.reset();
}

bool Transfer::done() const {
  return future_->ready();
}

bool Transfer::wait(std::optional<double> timeout_s) const {
  const LockRelease unlocked;
  if (!timeout_s) {
    future_->wait();
    return true;
  }
  constexpr double longest_s = 1e9;
  return future_->wait_for(std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(*timeout_s, 0.0, longest_s))));
}

void Transfer::cancel() const {
  const LockRelease unlocked;
  future_->cancel();
}

nb::list Transfer::results() const {
  return to_list(future_->results());
}

nb::list Transfer::failures() const {
  return to_list(future_->failures());
}

nb::tuple Transfer::progress() const {
  const bulk::Progress progress = future_->progress();
  return nb::make_tuple(progress.bytes_done, progress.bytes_total);
}

nb::tuple run_batch(const bulk::Engine& engine, nb::handle parts, bool writing) {
  const Batch batch(parts, writing);
  std::vector<std::int64_t> results;
  std::vector<bulk::Failure> failures;
  {
    const LockRelease unlocked;
    const bulk::Future future = writing ? engine.write(batch.parts) : engine.read(batch.parts);
    results = future.results();
    failures = future.failures();
  }
  return nb::make_tuple(to_list(results), to_list(failures));
}

nb::tuple read_files(const bulk::Engine& engine, const std::vector<std::string>& paths) {
  std::vector<bulk::Contents> contents;
  {
    const LockRelease unlocked;
    contents = engine.read_files(paths);
  }
  // One object for each piece of memory; what it holds reaches to the end of its last file.
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
  const nb::class_<Slab> slab(module, "Slab", nb::type_slots(slab_slots));
  nb::class_<Transfer>(module, "Transfer")
      .def("done", &Transfer::done)
      .def("wait", &Transfer::wait, nb::arg("timeout_s").none() = nb::none())
      .def("cancel", &Transfer::cancel)
      .def("results", &Transfer::results)
      .def("failures", &Transfer::failures)
      .def("progress", &Transfer::progress);
}

}  // namespace ferry::python
