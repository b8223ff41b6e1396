// Asynchronous I/O: what a program asks of the kernel by io_uring or libaio is not seen here, and
// by POSIX AIO it goes past the C library's functions.
#include <cerrno>

#include <aio.h>
#include <dlfcn.h>
#include <sys/types.h>

#include "interpose/standing_in.hpp"

using ferry::iobuf::Files;
using ferry::iobuf::FunctionName;
using ferry::iobuf::next;
using ferry::run::CachedReads;

namespace {

// The library may have come with a plug-in, outside the scope of RTLD_NEXT, or not be there at all.
template <class Function, FunctionName name>
Function* next_or_of(const char* library) {
  if (auto* known = next<Function, name>(); known != nullptr) return known;
  void* loaded = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  return loaded != nullptr ? reinterpret_cast<Function*>(dlsym(loaded, name.text)) : nullptr;
}

}  // namespace

// It may read at the kernel's position.
#define FERRY_URING(name, parameters, ...)                                           \
  FERRY_STANDS_IN(int, name, unsigned entries, __VA_ARGS__) {                        \
    Files::instance().stop("io_uring");                                              \
    CachedReads::instance().leave_positions();                                       \
    auto* original = next_or_of<int(unsigned, __VA_ARGS__), #name>("liburing.so.2"); \
    return original != nullptr ? original parameters : -ENOSYS;                      \
  }
FERRY_URING(io_uring_queue_init, (entries, ring, flags), void* ring, unsigned flags)
FERRY_URING(io_uring_queue_init_params, (entries, ring, settings), void* ring, void* settings)
FERRY_URING(io_uring_queue_init_mem, (entries, ring, settings, memory, bytes), void* ring,
            void* settings, void* memory, size_t bytes)
FERRY_URING(io_uring_setup, (entries, settings), void* settings)

// Of libaio.
FERRY_STANDS_IN(int, io_setup, int requests, void* context) {
  Files::instance().stop("libaio");
  auto* original = next_or_of<int(int, void*), "io_setup">("libaio.so.1");
  return original != nullptr ? original(requests, context) : -ENOSYS;
}

#define FERRY_AIO(name, type)                                                      \
  FERRY_STANDS_IN(int, name, type request) {                                       \
    if (request != nullptr) Files::instance().release(request->aio_fildes, "AIO"); \
    return next<int(type), #name>()(request);                                      \
  }
FERRY_AIO(aio_read, aiocb*)
FERRY_AIO(aio_read64, aiocb64*)
FERRY_AIO(aio_write, aiocb*)
FERRY_AIO(aio_write64, aiocb64*)
#define FERRY_AIO_SYNC(name, type)                                                 \
  FERRY_STANDS_IN(int, name, int operation, type request) {                        \
    if (request != nullptr) Files::instance().release(request->aio_fildes, "AIO"); \
    return next<int(int, type), #name>()(operation, request);                      \
  }
FERRY_AIO_SYNC(aio_fsync, aiocb*)
FERRY_AIO_SYNC(aio_fsync64, aiocb64*)
#define FERRY_AIO_LIST(name, type)                                                              \
  FERRY_STANDS_IN(int, name, int mode, type const requests[], int count, sigevent* event) {     \
    for (int i = 0; i < count; ++i)                                                             \
      if (requests[i] != nullptr) Files::instance().release(requests[i]->aio_fildes, "AIO");    \
    return next<int(int, type const[], int, sigevent*), #name>()(mode, requests, count, event); \
  }
FERRY_AIO_LIST(lio_listio, aiocb*)
FERRY_AIO_LIST(lio_listio64, aiocb64*)
