#include "storage/posix/posix.hpp"

#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "storage/mounted_layout.hpp"
#include "storage/posix/queue.hpp"
#include "storage/posix/uring_queue.hpp"

namespace ferry::storage {
namespace {

class Posix final : public Storage {
 public:
  explicit Posix(Engine engine) : engine_(engine) {
    if (engine == Engine::threads) {
      shared_.note("io_uring is not used: the threads engine was asked for");
      return;
    }
    const int refused = uring_refused();
    uring_ = refused == 0;
    if (uring_) shared_.registered_buffers = std::make_unique<RegisteredBufferTrials>();
    if (uring_) return;
    if (engine == Engine::io_uring) {
      throw std::system_error(-refused, std::system_category(),
                              "the kernel refuses io_uring (see io_uring_disabled in sysctl)");
    }
    shared_.note(std::string("the kernel refuses io_uring: ") + std::strerror(-refused) +
                 (refused == -ENOMEM ? " (raise the limit of locked memory, ulimit -l)" : "") +
                 "; blocking calls on worker threads instead");
  }

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override {
    if (options.may_block) return std::make_unique<BlockingQueue>(shared_);
    try {
      if (uring_) return make_uring_queue(shared_, options);
    } catch (const std::system_error& error) {  // out of descriptors or of locked memory
      if (engine_ == Engine::io_uring) throw;
      shared_.note("a queue without io_uring: " + error.code().message());
    }
    return std::make_unique<PosixQueue>(shared_, options);
  }

  Description describe() const override {
    const std::lock_guard lock(shared_.mutex);
    return Description{"posix", uring_ ? "io_uring" : "threads", shared_.notes};
  }

  Description describe_path(const std::string& path) override {
    Description description = describe();
    switch (striped_system(path)) {
      case StripedSystem::ceph:
        description.capabilities.layouts = true;
        description.capabilities.tells_holes = false;
        description.layout_rules = ceph_layout_rules;
        break;
      case StripedSystem::lustre:
        description.capabilities.layouts = true;
        description.layout_rules = lustre_layout_rules;
        if (const std::string reason = without_lustre_library(); !reason.empty()) {
          description.notes.push_back("layouts by the kernel's client: " + reason);
        }
        break;
      case StripedSystem::none:
        break;
    }
    if (std::string note = without_registered_buffers(path); !note.empty())
      description.notes.push_back(std::move(note));
    return description;
  }

 private:
  // Empty if they are used, or nothing is known of the path.
  std::string without_registered_buffers(const std::string& path) {
    if (!shared_.registered_buffers) return "";
    // Opens nothing: that could do harm if the path is a FIFO or a device.
    const int fd = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    if (fd < 0) return "";
    const RegisteredBuffers result = shared_.registered_buffers->of(fd);
    ::close(fd);
    const bool is_lustre = striped_system(path) == StripedSystem::lustre;
    return storage::without_registered_buffers(result, is_lustre);
  }

  const Engine engine_;
  mutable PosixShared shared_;
  bool uring_ = false;
};

}  // namespace

std::unique_ptr<Storage> make_posix(Engine engine) {
  return std::make_unique<Posix>(engine);
}

}  // namespace ferry::storage
