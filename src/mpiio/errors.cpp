#include "mpiio/errors.hpp"

#include <cerrno>
#include <map>
#include <mutex>
#include <new>
#include <string>

namespace ferry::mpiio {
namespace {

int class_of(int error) {
  switch (error) {
    case EINVAL:
    case EOVERFLOW:
      return MPI_ERR_ARG;
    case EACCES:
    case EPERM:
    case EBADF:
      return MPI_ERR_ACCESS;
    case ENOENT:
      return MPI_ERR_NO_SUCH_FILE;
    case EEXIST:
      return MPI_ERR_FILE_EXISTS;
    case EROFS:
      return MPI_ERR_READ_ONLY;
    case ENOSPC:
    case EFBIG:
      return MPI_ERR_NO_SPACE;
    case EDQUOT:
      return MPI_ERR_QUOTA;
    case ENOMEM:
      return MPI_ERR_NO_MEM;
    case EBUSY:
    case ETXTBSY:
      return MPI_ERR_FILE_IN_USE;
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR:
      return MPI_ERR_BAD_FILE;
    case ENOTSUP:
      return MPI_ERR_UNSUPPORTED_OPERATION;
    default:
      return MPI_ERR_IO;
  }
}

}  // namespace

int code_of(const std::system_error& error) {
  static std::mutex mutex;
  static std::map<std::string, int> codes;
  const int error_class = class_of(error.code().value());
  std::string text = std::string("Ferry: ") + error.what();
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  const std::lock_guard guard(mutex);
  if (const auto found = codes.find(text); found != codes.end()) return found->second;
  if (codes.size() >= texts_max) return error_class;
  int code = error_class;
  if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return error_class;
  PMPI_Add_error_string(code, text.c_str());
  codes.emplace(std::move(text), code);
  return code;
}

int code_of_exception() {
  try {
    throw;
  } catch (const std::system_error& error) {
    return code_of(error);
  } catch (const std::bad_alloc&) {
    return MPI_ERR_NO_MEM;
  } catch (...) {
    return MPI_ERR_OTHER;
  }
}

}  // namespace ferry::mpiio
