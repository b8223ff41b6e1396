#include "mpiio/errors.hpp"

#include <cerrno>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>
#include <string>

#include "mpiio/library.hpp"

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
    case EILSEQ:  // a program's own function for it
      return MPI_ERR_CONVERSION;
    default:
      return MPI_ERR_IO;
  }
}

// Both ways between codes and texts. Entries stay, and so does a text's place in memory.
struct Texts {
  std::mutex mutex;
  std::map<std::string, int> codes;
  std::map<int, const std::string*> texts;
};

Texts& known() {
  static Texts texts;
  return texts;
}

bool ends_the_program(MPI_File handle) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (PMPI_File_get_errhandler(handle, &handler) != MPI_SUCCESS) return false;
  const bool ends = handler == MPI_ERRORS_ARE_FATAL;
  if (handler != MPI_ERRHANDLER_NULL) PMPI_Errhandler_free(&handler);
  return ends;
}

}  // namespace

int code_of(const std::system_error& error) {
  const int error_class = class_of(error.code().value());
  std::string text = std::string("Ferry: ") + error.what();
  if (text.size() >= MPI_MAX_ERROR_STRING) text.resize(MPI_MAX_ERROR_STRING - 1);
  const std::lock_guard guard(known().mutex);
  auto& codes = known().codes;
  if (const auto found = codes.find(text); found != codes.end()) return found->second;
  if (codes.size() >= texts_max) return error_class;
  int code = error_class;
  if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return error_class;
  PMPI_Add_error_string(code, text.c_str());
  known().texts.emplace(code, &codes.emplace(std::move(text), code).first->first);
  return code;
}

const char* text_of(int code) {
  const std::lock_guard guard(known().mutex);
  const auto found = known().texts.find(code);
  return found != known().texts.end() ? found->second->c_str() : nullptr;
}

void call_handler(MPI_File handle, int code) {
  const char* text = text_of(code);
  if (!library_shows_added_texts && text != nullptr && ends_the_program(handle)) {
    std::fprintf(stderr, "%s\n", text);
  }
  PMPI_File_call_errhandler(handle, code);
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

// What the front asks for MPI_Error_string.
extern "C" __attribute__((visibility("default"))) const char* ferry_mpiio_text(int code) {
  return ferry::mpiio::text_of(code);
}
