// Compares src/backend/cuda/cufile_abi.hpp with cufile.h: the layout of structures, sizes and kinds
// of parameters, and constants. It is only compiled.
#include "backend/cuda/cufile_abi.hpp"

#include <cstddef>
#include <type_traits>

#include <cufile.h>

#include "cuda/same_function.hpp"

// A macro of the header, as newer libraries have another function of that name.
#undef cuFileDriverClose

namespace ferry::cuda::cufile {
namespace {

// Numbers and pointers of the same size, structures too, as their layout is compared below.
struct PassedAlike {
  template <class Ours, class Theirs>
  static constexpr bool types() {
    if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
      return std::is_same_v<Ours, Theirs>;
    } else {
      return sizeof(Ours) == sizeof(Theirs) &&
             std::is_pointer_v<Ours> == std::is_pointer_v<Theirs> &&
             std::is_class_v<Ours> == std::is_class_v<Theirs> &&
             std::is_signed_v<Ours> == std::is_signed_v<Theirs>;
    }
  }
};

// The comparison does find differences.
static_assert(!SameFunction<PassedAlike, void(Handle), CuFileError(Handle)>::value);
static_assert(!SameFunction<PassedAlike, int(Handle), int(int)>::value);
static_assert(!SameFunction<PassedAlike, int(std::size_t), int(off_t)>::value);

#define FERRY_COMPARE(name, result, ...) \
  static_assert(SameFunction<PassedAlike, result(__VA_ARGS__), decltype(::name)>::value);
FERRY_CUFILE_FUNCTIONS(FERRY_COMPARE)

static_assert(sizeof(CuFileError) == sizeof(CUfileError_t));
static_assert(offsetof(CuFileError, code) == offsetof(CUfileError_t, err));
static_assert(offsetof(CuFileError, cuda_result) == offsetof(CUfileError_t, cu_err));

static_assert(sizeof(FileDescription) == sizeof(CUfileDescr_t));
static_assert(offsetof(FileDescription, type) == offsetof(CUfileDescr_t, type));
static_assert(offsetof(FileDescription, file) == offsetof(CUfileDescr_t, handle));
static_assert(offsetof(FileDescription, operations) == offsetof(CUfileDescr_t, fs_ops));
static_assert(sizeof(FileDescription::type) == sizeof(CUfileDescr_t::type));
static_assert(opaque_fd == CU_FILE_HANDLE_TYPE_OPAQUE_FD);

// Ours has room for more.
static_assert(sizeof(Properties) >= sizeof(CUfileDrvProps_t));
static_assert(offsetof(Properties, major_version) ==
              offsetof(CUfileDrvProps_t, nvfs.major_version));
static_assert(offsetof(Properties, minor_version) ==
              offsetof(CUfileDrvProps_t, nvfs.minor_version));
static_assert(offsetof(Properties, status_flags) == offsetof(CUfileDrvProps_t, nvfs.dstatusflags));
static_assert(offsetof(Properties, feature_flags) == offsetof(CUfileDrvProps_t, fflags));

static_assert(serves_lustre == 1U << CU_FILE_LUSTRE_SUPPORTED);
static_assert(serves_nfs == 1U << CU_FILE_NFS_SUPPORTED);
static_assert(serves_gpfs == 1U << CU_FILE_GPFS_SUPPORTED);
static_assert(serves_nvme == 1U << CU_FILE_NVME_SUPPORTED);
static_assert(serves_nvme_of == 1U << CU_FILE_NVMEOF_SUPPORTED);
static_assert(serves_scsi == 1U << CU_FILE_SCSI_SUPPORTED);
static_assert(serves_scaleflux == 1U << CU_FILE_SCALEFLUX_CSD_SUPPORTED);
static_assert(serves_nvmesh == 1U << CU_FILE_NVMESH_SUPPORTED);
static_assert(serves_beegfs == 1U << CU_FILE_BEEGFS_SUPPORTED);
static_assert(serves_nvme_p2p == 1U << CU_FILE_NVME_P2P_SUPPORTED);
static_assert(has_p2p == 1U << CU_FILE_P2P_SUPPORTED);

static_assert(base_code == CUFILEOP_BASE_ERR);
static_assert(not_initialized == CU_FILE_DRIVER_NOT_INITIALIZED);
static_assert(io_not_supported == CU_FILE_IO_NOT_SUPPORTED);
static_assert(pointer_invalid == CU_FILE_CUDA_POINTER_INVALID);
static_assert(mapping_invalid == CU_FILE_INVALID_MAPPING_RANGE);
static_assert(already_open == CU_FILE_DRIVER_ALREADY_OPEN);
static_assert(pinning_failed == CU_FILE_GPU_MEMORY_PINNING_FAILED);
static_assert(no_memory == CU_FILE_NOMEM_ERROR);
static_assert(io_error == CU_FILE_IO_ERROR);

}  // namespace
}  // namespace ferry::cuda::cufile
