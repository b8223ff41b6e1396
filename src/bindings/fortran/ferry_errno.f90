! The values of `errno` that programs ask for, under Linux. errno(3) explains them.
module ferry_errno
  implicit none
  private

  integer, parameter, public :: ferry_enoent = 2       ! no such file
  integer, parameter, public :: ferry_eio = 5          ! the storage failed
  integer, parameter, public :: ferry_ebadf = 9        ! not open, or not for this
  integer, parameter, public :: ferry_enomem = 12      ! out of memory
  integer, parameter, public :: ferry_eacces = 13      ! not permitted
  integer, parameter, public :: ferry_eexist = 17      ! the file exists
  integer, parameter, public :: ferry_eisdir = 21      ! a directory
  integer, parameter, public :: ferry_einval = 22      ! an invalid argument
  integer, parameter, public :: ferry_enospc = 28      ! the storage is full
  integer, parameter, public :: ferry_enodata = 61     ! the file ends before the buffer does
  integer, parameter, public :: ferry_enopkg = 65      ! a client library is missing
  integer, parameter, public :: ferry_eproto = 71      ! ranks made different calls
  integer, parameter, public :: ferry_eopnotsupp = 95  ! the storage has no such operation
  integer, parameter, public :: ferry_ecanceled = 125  ! cancelled

  ! Of offsets and sizes.
  integer, parameter, public :: ferry_offset_kind = selected_int_kind(18)
end module ferry_errno
