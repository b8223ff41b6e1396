// The storages of the conformance suite.
#include "storage/conformance.hpp"

#include <gtest/gtest.h>

namespace ferry::storage {
namespace {

// On a disk and in memory, by either engine.
const auto mounted =
    testing::Values(Variant{"uring_buffered_tmp", nullptr, Engine::io_uring, false},
                    Variant{"uring_direct_tmp", nullptr, Engine::io_uring, true},
                    Variant{"threads_buffered_tmp", nullptr, Engine::threads, false},
                    Variant{"threads_direct_tmp", nullptr, Engine::threads, true},
                    Variant{"uring_buffered_shm", "/dev/shm", Engine::io_uring, false},
                    Variant{"uring_direct_shm", "/dev/shm", Engine::io_uring, true},
                    Variant{"threads_buffered_shm", "/dev/shm", Engine::threads, false},
                    Variant{"threads_direct_shm", "/dev/shm", Engine::threads, true});

INSTANTIATE_TEST_SUITE_P(Posix, Conformance, mounted, name_of);
INSTANTIATE_TEST_SUITE_P(Posix, MountedConformance, mounted, name_of);
INSTANTIATE_TEST_SUITE_P(Nfs, Conformance, testing::Values(Variant{.name = "nfs", .server = "NFS"}),
                         name_of);
// The library, and what ceph-fuse has mounted.
const auto ceph = testing::Values(
    Variant{.name = "library", .server = "CEPH"},
    Variant{.name = "fuse_uring", .server = "CEPH", .mounted = true},
    Variant{.name = "fuse_threads", .engine = Engine::threads, .server = "CEPH", .mounted = true});

INSTANTIATE_TEST_SUITE_P(Ceph, Conformance, ceph, name_of);
// Debian has no OrangeFS. A real one is tested where mounted and named.
INSTANTIATE_TEST_SUITE_P(Pvfs2Mock, Conformance,
                         testing::Values(Variant{.name = "mock", .mock = true}), name_of);
INSTANTIATE_TEST_SUITE_P(Pvfs2, Conformance,
                         testing::Values(Variant{.name = "real", .server = "PVFS2"}), name_of);
INSTANTIATE_TEST_SUITE_P(Ceph, StripedConformance, ceph, name_of);

}  // namespace
}  // namespace ferry::storage
