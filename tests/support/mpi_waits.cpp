// Ranks of MPICH wait without giving up the CPU. With more ranks than CPUs, each message then takes
// what is left of other ranks' time slices: tests of five ranks on two CPUs did little else. So a
// rank that has nothing to do lets others run, as Open MPI does by itself. This takes the place of
// UCX's function; an MPI library without UCX does not call it.
#include <dlfcn.h>
#include <sched.h>

extern "C" unsigned ucp_worker_progress(void* worker);
extern "C" unsigned ucp_worker_progress(void* worker) {
  using Progress = unsigned (*)(void*);
  static const auto real = reinterpret_cast<Progress>(dlsym(RTLD_NEXT, "ucp_worker_progress"));
  const unsigned made = real(worker);
  if (made == 0) sched_yield();
  return made;
}
