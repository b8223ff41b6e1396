// What Fortran cannot say of its arguments: where an assumed-type buffer lies, and the words of
// OPEN as flags of open(2). Each library has its own copy, hidden.
#define _GNU_SOURCE
#include <ISO_Fortran_binding.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <strings.h>

// As in ferry_errno.f90.
_Static_assert(ENOENT == 2 && EIO == 5 && EBADF == 9 && ENOMEM == 12 && EACCES == 13, "errno");
_Static_assert(EEXIST == 17 && EISDIR == 21 && EINVAL == 22 && ENOSPC == 28, "errno");
_Static_assert(ENODATA == 61 && ENOPKG == 65 && EPROTO == 71, "errno");
_Static_assert(EOPNOTSUPP == 95 && ECANCELED == 125, "errno");

// The text of this thread's last failure, if it was found here.
static _Thread_local char last_text[256];
static _Thread_local int is_noted;

void ferry_fortran_note(const char* text);
void ferry_fortran_forget(void);
const char* ferry_fortran_noted(void);
int ferry_fortran_buffer(const CFI_cdesc_t* buffer, void** memory, int64_t* bytes);
int ferry_fortran_open_flags(const char* action, const char* status, int direct);

void ferry_fortran_note(const char* text) {
  snprintf(last_text, sizeof last_text, "%s", text);
  is_noted = 1;
}

void ferry_fortran_forget(void) {
  is_noted = 0;
}

const char* ferry_fortran_noted(void) {
  return is_noted ? last_text : NULL;
}

static int refuse(const char* text) {
  ferry_fortran_note(text);
  return -EINVAL;
}

// Of gfortran, some have no address: an array constructor without elements, a copied section.
static int is_empty_array(const CFI_cdesc_t* buffer) {
  for (int i = 0; i < buffer->rank; ++i) {
    if (buffer->dim[i].extent == 0) return 1;
  }
  return 0;
}

int ferry_fortran_buffer(const CFI_cdesc_t* buffer, void** memory, int64_t* bytes) {
  *memory = NULL;
  *bytes = 0;
  if (buffer != NULL && is_empty_array(buffer)) return 0;
  if (buffer == NULL || buffer->base_addr == NULL) {
    return refuse("buffer: not allocated, or not associated");
  }
  // gfortran passes wrong lengths of literals, substrings and other expressions of type character,
  // literals as integers of one byte.
  if (buffer->rank == 0 &&
      (buffer->elem_len <= 1 || (buffer->type & CFI_type_mask) == CFI_type_Character)) {
    return refuse("buffer: a scalar of type character, or of one byte; pass an array");
  }
  int64_t length = (int64_t)buffer->elem_len;
  int is_contiguous = 1;
  for (int i = 0; i < buffer->rank; ++i) {
    const int64_t extent = buffer->dim[i].extent;
    if (extent < 0)
      return refuse("buffer: an assumed-size array has no size; pass a section of it");
    if (extent > 1 && buffer->dim[i].sm != length) is_contiguous = 0;
    if (__builtin_mul_overflow(length, extent, &length))
      return refuse("buffer: larger than memory");
  }
  if (!is_contiguous) {
    return refuse("buffer: an array section that is not contiguous; copy it into an array");
  }
  *memory = buffer->base_addr;
  *bytes = length;
  return 0;
}

int ferry_fortran_open_flags(const char* action, const char* status, int direct) {
  int flags = direct != 0 ? O_DIRECT : 0;
  if (strcasecmp(action, "readwrite") == 0) {
    flags |= O_RDWR;
  } else if (strcasecmp(action, "read") == 0) {
    flags |= O_RDONLY;
  } else if (strcasecmp(action, "write") == 0) {
    flags |= O_WRONLY;
  } else {
    return refuse("action: 'read', 'write' or 'readwrite'");
  }
  const int reads_only = (flags & O_ACCMODE) == O_RDONLY;
  if (strcasecmp(status, "unknown") == 0) return reads_only ? flags : flags | O_CREAT;
  if (strcasecmp(status, "old") == 0) return flags;
  if (strcasecmp(status, "new") != 0 && strcasecmp(status, "replace") != 0) {
    return refuse("status: 'old', 'new', 'replace' or 'unknown'");
  }
  if (reads_only) return refuse("status: a file that is only read must be 'old' or 'unknown'");
  return flags | O_CREAT | (strcasecmp(status, "new") == 0 ? O_EXCL : O_TRUNC);
}
