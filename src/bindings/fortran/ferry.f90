! Ferry in Fortran: bulk transfers between files and memory, and layouts. Over ferry.h; needs no MPI.
!
!   use ferry
!   type(ferry_file) :: file
!   real :: field(100, 200)
!   call ferry_open(file, 'nfs://server/export/input', action='read')
!   call ferry_read(file, field, offset_bytes=0_ferry_offset_kind)
!   call ferry_close(file)
!
! Errors. Every procedure ends with the optional argument `errno`: 0, or a positive errno, of which
! some have names here (ferry_enoent). ferry_error_text() then has one line that says more. Without
! `errno` a failure ends the program by ERROR STOP with that line.
!
! Buffers are of any type and rank. Blocking calls take array sections of any kind; the compiler
! copies those that are not contiguous. Asynchronous calls refuse them (ferry_einval), because the
! copy would not last; declare their buffers `asynchronous`, and pass no component of an array of
! derived type (a%x), of which gfortran makes a copy unasked. Text goes by ferry_read_text and
! ferry_write_text.
!
! Offsets and sizes are in bytes, from 0, and of kind ferry_offset_kind. Paths end before their
! trailing blanks.
!
! Threads. Any thread may call any procedure at any time, also with a file that others use. A future
! belongs to one thread at a time.
module ferry
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_int, c_int32_t, c_int64_t, c_loc, &
    c_null_char, c_null_ptr, c_ptr, c_sizeof
  use ferry_arguments
  use ferry_errno
  implicit none
  private

  public :: ferry_enoent, ferry_eio, ferry_ebadf, ferry_enomem, ferry_eacces, ferry_eexist
  public :: ferry_eisdir, ferry_einval, ferry_enospc, ferry_enodata, ferry_enopkg
  public :: ferry_eopnotsupp, ferry_ecanceled, ferry_offset_kind
  public :: ferry_file, ferry_future, ferry_layout, ferry_path_status
  public :: ferry_version, ferry_error_text
  public :: ferry_open, ferry_close, ferry_read, ferry_write, ferry_read_text, ferry_write_text
  public :: ferry_size, ferry_truncate, ferry_sync, ferry_copy
  public :: ferry_read_async, ferry_write_async
  public :: ferry_wait, ferry_wait_all, ferry_wait_any, ferry_test, ferry_cancel
  public :: ferry_stat, ferry_unlink, ferry_rename
  public :: ferry_layout_get, ferry_layout_set, ferry_explain

  ! An open file.
  type :: ferry_file
    private
    type(c_ptr) :: handle = c_null_ptr
  end type ferry_file

  ! A transfer in flight, until a wait has returned for it.
  type :: ferry_future
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(c_int64_t) :: wanted_bytes = 0
  end type ferry_future

  ! How a file is striped over a storage's servers. 0, -1 and '' let the storage choose, and stand
  ! for what it does not report.
  type :: ferry_layout
    integer(ferry_offset_kind) :: stripe_bytes = 0  ! in a row on one server
    integer(ferry_offset_kind) :: object_bytes = 0  ! CephFS: the size of an object
    integer :: stripe_count = 0                     ! number of servers
    integer :: first_server = -1
    logical :: all_servers = .false.                ! as many as there are
    logical :: overstriping = .false.               ! Lustre: one server may have several stripes
    logical :: at_most = .false.                    ! of a request: less where less is granted
    integer :: parts = 0                            ! reported: parts with layouts of their own
    character(255) :: pool = ''
  end type ferry_layout

  ! Attributes of a path.
  type :: ferry_path_status
    integer(ferry_offset_kind) :: size_bytes = 0
    integer(ferry_offset_kind) :: modified_ns = 0  ! since 1970
    integer :: mode = 0                            ! type and permission bits, as in stat(2)
    logical :: is_directory = .false.
  end type ferry_path_status

  type, bind(c) :: c_layout
    integer(c_int64_t) :: struct_bytes, stripe_bytes, object_bytes
    integer(c_int32_t) :: stripe_count, first_server, all_servers, overstriping, at_most, parts
    character(c_char) :: pool(256)
  end type c_layout

  type, bind(c) :: c_path_status
    integer(c_int64_t) :: size_bytes, modified_ns
    integer(c_int32_t) :: mode, reserved
  end type c_path_status

  interface
    type(c_ptr) function c_version() bind(c, name='ferry_version')
      import :: c_ptr
    end function c_version
    type(c_ptr) function c_error_text() bind(c, name='ferry_error_text')
      import :: c_ptr
    end function c_error_text

    integer(c_int) function c_open(file, path, flags, mode) bind(c, name='ferry_open')
      import :: c_char, c_int, c_int32_t, c_ptr
      type(c_ptr), intent(out) :: file
      character(c_char), intent(in) :: path(*)
      integer(c_int), value :: flags
      integer(c_int32_t), value :: mode
    end function c_open
    integer(c_int) function c_close(file) bind(c, name='ferry_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_close
    integer(c_int64_t) function c_pread(file, data, bytes, offset_bytes) bind(c, name='ferry_pread')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes, offset_bytes
    end function c_pread
    integer(c_int64_t) function c_pwrite(file, data, bytes, offset_bytes) bind(c, name='ferry_pwrite')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes, offset_bytes
    end function c_pwrite
    integer(c_int) function c_pread_async(future, file, data, bytes, offset_bytes) &
        bind(c, name='ferry_pread_async')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: future
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes, offset_bytes
    end function c_pread_async
    integer(c_int) function c_pwrite_async(future, file, data, bytes, offset_bytes) &
        bind(c, name='ferry_pwrite_async')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: future
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes, offset_bytes
    end function c_pwrite_async
    integer(c_int) function c_future_test(future) bind(c, name='ferry_future_test')
      import :: c_int, c_ptr
      type(c_ptr), value :: future
    end function c_future_test
    integer(c_int64_t) function c_future_wait_any(futures, count) bind(c, name='ferry_future_wait_any')
      import :: c_int64_t, c_ptr
      type(c_ptr), intent(in) :: futures(*)
      integer(c_int64_t), value :: count
    end function c_future_wait_any
    integer(c_int64_t) function c_future_result(future) bind(c, name='ferry_future_result')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: future
    end function c_future_result
    integer(c_int) function c_future_cancel(future) bind(c, name='ferry_future_cancel')
      import :: c_int, c_ptr
      type(c_ptr), value :: future
    end function c_future_cancel
    integer(c_int) function c_future_free(future) bind(c, name='ferry_future_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: future
    end function c_future_free
    integer(c_int64_t) function c_size(file) bind(c, name='ferry_size')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file
    end function c_size
    integer(c_int) function c_truncate(file, size_bytes) bind(c, name='ferry_truncate')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: size_bytes
    end function c_truncate
    integer(c_int) function c_sync(file) bind(c, name='ferry_sync')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_sync
    integer(c_int64_t) function c_copy(from, from_offset_bytes, to, to_offset_bytes, bytes) &
        bind(c, name='ferry_copy')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: from, to
      integer(c_int64_t), value :: from_offset_bytes, to_offset_bytes, bytes
    end function c_copy
    integer(c_int) function c_stat(path, status) bind(c, name='ferry_stat')
      import :: c_char, c_int, c_path_status
      character(c_char), intent(in) :: path(*)
      type(c_path_status), intent(out) :: status
    end function c_stat
    integer(c_int) function c_unlink(path) bind(c, name='ferry_unlink')
      import :: c_char, c_int
      character(c_char), intent(in) :: path(*)
    end function c_unlink
    integer(c_int) function c_rename(from, to) bind(c, name='ferry_rename')
      import :: c_char, c_int
      character(c_char), intent(in) :: from(*), to(*)
    end function c_rename
    integer(c_int) function c_layout_get(path, layout) bind(c, name='ferry_layout_get')
      import :: c_char, c_int, c_layout
      character(c_char), intent(in) :: path(*)
      type(c_layout), intent(inout) :: layout
    end function c_layout_get
    integer(c_int) function c_layout_set(path, layout) bind(c, name='ferry_layout_set')
      import :: c_char, c_int, c_layout
      character(c_char), intent(in) :: path(*)
      type(c_layout), intent(in) :: layout
    end function c_layout_set
    integer(c_int64_t) function c_explain(path, text, text_bytes) bind(c, name='ferry_explain')
      import :: c_char, c_int64_t
      character(c_char), intent(in) :: path(*)
      character(c_char), intent(out) :: text(*)
      integer(c_int64_t), value :: text_bytes
    end function c_explain
  end interface

contains

  ! The version of the library that runs, like '0.1.0'.
  function ferry_version() result(text)
    character(:), allocatable :: text
    type(c_ptr) :: address
    address = c_version()
    call copy_text(address, text)
  end function ferry_version

  ! One line on this thread's last failure, '' if there was none.
  function ferry_error_text() result(text)
    character(:), allocatable :: text
    type(c_ptr) :: address
    address = noted_text()
    if (.not. c_associated(address)) address = c_error_text()
    call copy_text(address, text)
  end function ferry_error_text

  ! ---- files --------------------------------------------------------------------------------------

  ! Opens a file by its path, or a file of a server by its URI (nfs://, ceph:/, pvfs2:/). As in OPEN:
  ! `action` is 'read', 'write' or 'readwrite', `status` 'old', 'new', 'replace' or 'unknown', which
  ! makes the file if it is to be written; the last ones are the default. `direct` keeps to direct
  ! I/O. `mode` has the permissions of a new file, less those that the umask takes; o'666'.
  subroutine ferry_open(file, path, action, status, direct, mode, errno)
    type(ferry_file), intent(out) :: file
    character(*), intent(in) :: path
    character(*), intent(in), optional :: action, status
    logical, intent(in), optional :: direct
    integer, intent(in), optional :: mode
    integer, intent(out), optional :: errno
    integer(c_int) :: flags, is_direct
    integer(c_int32_t) :: permissions
    is_direct = 0
    if (present(direct)) is_direct = merge(1_c_int, 0_c_int, direct)
    permissions = int(o'666', c_int32_t)
    if (present(mode)) permissions = int(mode, c_int32_t)
    flags = open_flags(c_word(action, 'readwrite'), c_word(status, 'unknown'), is_direct)
    if (flags < 0) then
      call settle_here('ferry_open', flags, errno)
      return
    end if
    call settle('ferry_open', int(c_open(file%handle, c_text(path), flags, permissions), c_int64_t), &
                errno)
  end subroutine ferry_open

  ! Waits for transfers in flight, then closes. Reports errors of writes that the storage reports on
  ! close.
  subroutine ferry_close(file, errno)
    type(ferry_file), intent(inout) :: file
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: result
    result = c_close(file%handle)
    file%handle = c_null_ptr
    call settle('ferry_close', result, errno)
  end subroutine ferry_close

  ! Fills the buffer from the file. With `read_bytes`, the end of the file may come before that of
  ! the buffer; without it that is ferry_enodata.
  subroutine ferry_read(file, buffer, offset_bytes, read_bytes, errno)
    type(ferry_file), intent(in) :: file
    type(*), dimension(..), contiguous, intent(inout) :: buffer
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    integer(ferry_offset_kind), intent(out), optional :: read_bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes
    integer(c_int) :: wrong
    if (present(read_bytes)) read_bytes = 0
    wrong = buffer_memory(buffer, memory, bytes)
    if (wrong < 0) then
      call settle_here('ferry_read', wrong, errno)
      return
    end if
    call settle_read('ferry_read', c_pread(file%handle, memory, bytes, offset_bytes), bytes, &
                     read_bytes, errno)
  end subroutine ferry_read

  ! Writes all of the buffer. It is handed over to the storage when this returns.
  subroutine ferry_write(file, buffer, offset_bytes, errno)
    type(ferry_file), intent(in) :: file
    type(*), dimension(..), contiguous, intent(in) :: buffer
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes
    integer(c_int) :: wrong
    wrong = buffer_memory(buffer, memory, bytes)
    if (wrong < 0) then
      call settle_here('ferry_write', wrong, errno)
      return
    end if
    call settle('ferry_write', c_pwrite(file%handle, memory, bytes, offset_bytes), errno)
  end subroutine ferry_write

  ! The same with the characters of a text. What is not read stays as it is.
  subroutine ferry_read_text(file, text, offset_bytes, read_bytes, errno)
    type(ferry_file), intent(in) :: file
    character(*), intent(inout), target :: text
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    integer(ferry_offset_kind), intent(out), optional :: read_bytes
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: bytes
    bytes = len(text, c_int64_t)
    if (present(read_bytes)) read_bytes = 0
    call settle_read('ferry_read_text', c_pread(file%handle, c_loc(text), bytes, offset_bytes), bytes, &
                     read_bytes, errno)
  end subroutine ferry_read_text

  subroutine ferry_write_text(file, text, offset_bytes, errno)
    type(ferry_file), intent(in) :: file
    character(*), intent(in), target :: text
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    integer, intent(out), optional :: errno
    call settle('ferry_write_text', &
                c_pwrite(file%handle, c_loc(text), len(text, c_int64_t), offset_bytes), errno)
  end subroutine ferry_write_text

  subroutine ferry_size(file, size_bytes, errno)
    type(ferry_file), intent(in) :: file
    integer(ferry_offset_kind), intent(out) :: size_bytes
    integer, intent(out), optional :: errno
    size_bytes = c_size(file%handle)
    call settle('ferry_size', size_bytes, errno)
  end subroutine ferry_size

  subroutine ferry_truncate(file, size_bytes, errno)
    type(ferry_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: size_bytes
    integer, intent(out), optional :: errno
    call settle('ferry_truncate', int(c_truncate(file%handle, size_bytes), c_int64_t), errno)
  end subroutine ferry_truncate

  ! Data and metadata are durable when it returns.
  subroutine ferry_sync(file, errno)
    type(ferry_file), intent(in) :: file
    integer, intent(out), optional :: errno
    call settle('ferry_sync', int(c_sync(file%handle), c_int64_t), errno)
  end subroutine ferry_sync

  ! Copies up to `bytes` between any two storages, fewer only at the end of `from`.
  subroutine ferry_copy(from, from_offset_bytes, to, to_offset_bytes, bytes, copied_bytes, errno)
    type(ferry_file), intent(in) :: from, to
    integer(ferry_offset_kind), intent(in) :: from_offset_bytes, to_offset_bytes, bytes
    integer(ferry_offset_kind), intent(out), optional :: copied_bytes
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: copied
    copied = c_copy(from%handle, from_offset_bytes, to%handle, to_offset_bytes, bytes)
    if (present(copied_bytes)) copied_bytes = max(copied, 0_c_int64_t)
    call settle('ferry_copy', copied, errno)
  end subroutine ferry_copy

  ! ---- transfers in flight ------------------------------------------------------------------------

  ! Start a transfer. The buffer must stay, and may not be used, until a wait returns for the future.
  subroutine ferry_read_async(file, buffer, offset_bytes, future, errno)
    type(ferry_file), intent(in) :: file
    type(*), dimension(..), asynchronous, intent(inout) :: buffer
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(ferry_future), intent(out) :: future
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: wrong
    wrong = lasting_memory(buffer, memory, future%wanted_bytes)
    if (wrong < 0) then
      call settle_here('ferry_read_async', wrong, errno)
      return
    end if
    wrong = c_pread_async(future%handle, file%handle, memory, future%wanted_bytes, offset_bytes)
    call settle('ferry_read_async', int(wrong, c_int64_t), errno)
  end subroutine ferry_read_async

  subroutine ferry_write_async(file, buffer, offset_bytes, future, errno)
    type(ferry_file), intent(in) :: file
    type(*), dimension(..), asynchronous, intent(in) :: buffer
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(ferry_future), intent(out) :: future
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: wrong
    wrong = lasting_memory(buffer, memory, future%wanted_bytes)
    if (wrong < 0) then
      call settle_here('ferry_write_async', wrong, errno)
      return
    end if
    wrong = c_pwrite_async(future%handle, file%handle, memory, future%wanted_bytes, offset_bytes)
    call settle('ferry_write_async', int(wrong, c_int64_t), errno)
  end subroutine ferry_write_async

  ! Waits for the transfer, which is over then, after success or failure. `bytes`: that were
  ! transferred. Without it, a read that the end of the file cut short is ferry_enodata.
  subroutine ferry_wait(future, bytes, errno)
    type(ferry_future), intent(inout) :: future
    integer(ferry_offset_kind), intent(out), optional :: bytes
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: result
    if (present(bytes)) bytes = 0
    result = c_future_result(future%handle)
    call settle_read('ferry_wait', result, future%wanted_bytes, bytes, errno)
    call end_of(future)
  end subroutine ferry_wait

  ! Waits for all of them. `bytes` has an element for each. If some failed, `errno` is that of the
  ! first. Futures that are over count as done.
  subroutine ferry_wait_all(futures, bytes, errno)
    type(ferry_future), intent(inout) :: futures(:)
    integer(ferry_offset_kind), intent(out), optional :: bytes(:)
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: failed, result
    integer :: i
    failed = 0
    if (present(bytes)) then
      bytes = 0
      if (size(bytes) < size(futures)) then
        call note_text(c_text('bytes: an element for each future'))
        call settle_here('ferry_wait_all', int(-ferry_einval, c_int), errno)
        return
      end if
    end if
    do i = 1, size(futures)
      if (.not. c_associated(futures(i)%handle)) cycle
      result = c_future_result(futures(i)%handle)
      if (present(bytes)) bytes(i) = max(result, 0_c_int64_t)
      if (failed == 0 .and. result < 0) then  ! its text stays, whichever fails later
        failed = result
        call note_text_at(c_error_text())
      else if (failed == 0 .and. result < futures(i)%wanted_bytes .and. .not. present(bytes)) then
        failed = -ferry_enodata
        call note_text(short_text(result, futures(i)%wanted_bytes))
      end if
      call end_of(futures(i))
    end do
    call settle_here('ferry_wait_all', int(failed, c_int), errno)
  end subroutine ferry_wait_all

  ! Waits until one of them is over, and ends it like ferry_wait. `index`: which one; 0 if there was
  ! none to wait for.
  subroutine ferry_wait_any(futures, index, bytes, errno)
    type(ferry_future), intent(inout) :: futures(:)
    integer, intent(out) :: index
    integer(ferry_offset_kind), intent(out), optional :: bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: handles(size(futures))
    integer :: places(size(futures))
    integer(c_int64_t) :: found
    integer :: count, i
    index = 0
    if (present(bytes)) bytes = 0
    count = 0
    do i = 1, size(futures)
      if (.not. c_associated(futures(i)%handle)) cycle
      count = count + 1
      handles(count) = futures(i)%handle
      places(count) = i
    end do
    found = 0
    if (count > 0) found = c_future_wait_any(handles, int(count, c_int64_t))
    if (count == 0 .or. found < 0) then
      call settle('ferry_wait_any', found, errno)
      return
    end if
    index = places(int(found) + 1)
    call ferry_wait(futures(index), bytes, errno)
  end subroutine ferry_wait_any

  ! Whether waiting would not block. A future that is over is ready.
  subroutine ferry_test(future, is_ready, errno)
    type(ferry_future), intent(in) :: future
    logical, intent(out) :: is_ready
    integer, intent(out), optional :: errno
    integer(c_int) :: found
    found = 1
    if (c_associated(future%handle)) found = c_future_test(future%handle)
    is_ready = found == 1
    call settle('ferry_test', int(found, c_int64_t), errno)
  end subroutine ferry_test

  ! Cancels the transfer: the wait for it, which is still needed, ends soon, with ferry_ecanceled
  ! unless it was over already.
  subroutine ferry_cancel(future, errno)
    type(ferry_future), intent(in) :: future
    integer, intent(out), optional :: errno
    call settle('ferry_cancel', int(c_future_cancel(future%handle), c_int64_t), errno)
  end subroutine ferry_cancel

  ! ---- paths and layouts --------------------------------------------------------------------------

  subroutine ferry_stat(path, status, errno)
    character(*), intent(in) :: path
    type(ferry_path_status), intent(out) :: status
    integer, intent(out), optional :: errno
    type(c_path_status) :: found
    integer(c_int) :: result
    result = c_stat(c_text(path), found)
    if (result == 0) then
      status%size_bytes = found%size_bytes
      status%modified_ns = found%modified_ns
      status%mode = int(found%mode)
      status%is_directory = iand(status%mode, int(o'170000')) == int(o'040000')
    end if
    call settle('ferry_stat', int(result, c_int64_t), errno)
  end subroutine ferry_stat

  subroutine ferry_unlink(path, errno)
    character(*), intent(in) :: path
    integer, intent(out), optional :: errno
    call settle('ferry_unlink', int(c_unlink(c_text(path)), c_int64_t), errno)
  end subroutine ferry_unlink

  ! Replaces an existing file, and stays within one storage.
  subroutine ferry_rename(from, to, errno)
    character(*), intent(in) :: from, to
    integer, intent(out), optional :: errno
    call settle('ferry_rename', int(c_rename(c_text(from), c_text(to)), c_int64_t), errno)
  end subroutine ferry_rename

  ! How a file is striped, as granted; of a directory, what its new files get. ferry_eopnotsupp where
  ! nothing is striped.
  subroutine ferry_layout_get(path, layout, errno)
    character(*), intent(in) :: path
    type(ferry_layout), intent(out) :: layout
    integer, intent(out), optional :: errno
    type(c_layout) :: found
    integer(c_int) :: result
    integer :: i
    found = packed(layout)
    result = c_layout_get(c_text(path), found)
    if (result == 0) then
      layout%stripe_bytes = found%stripe_bytes
      layout%object_bytes = found%object_bytes
      layout%stripe_count = int(found%stripe_count)
      layout%first_server = int(found%first_server)
      layout%all_servers = found%all_servers /= 0
      layout%overstriping = found%overstriping /= 0
      layout%at_most = found%at_most /= 0
      layout%parts = int(found%parts)
      do i = 1, len(layout%pool)
        if (found%pool(i) == c_null_char) exit
        layout%pool(i:i) = found%pool(i)
      end do
    end if
    call settle('ferry_layout_get', int(result, c_int64_t), errno)
  end subroutine ferry_layout_get

  ! Makes a new, empty file with this layout (ferry_eexist if the file exists), or gives it to the new
  ! files of an existing directory. What the storage does not grant is refused unless `at_most`.
  subroutine ferry_layout_set(path, layout, errno)
    character(*), intent(in) :: path
    type(ferry_layout), intent(in) :: layout
    integer, intent(out), optional :: errno
    call settle('ferry_layout_set', int(c_layout_set(c_text(path), packed(layout)), c_int64_t), errno)
  end subroutine ferry_layout_set

  ! Says in lines of text which storage serves a path, how, and why it cannot. May ask a server.
  subroutine ferry_explain(path, text, errno)
    character(*), intent(in) :: path
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: errno
    character(c_char), allocatable :: memory(:)
    integer(c_int64_t) :: length
    integer :: i
    allocate (memory(4096))
    do
      length = c_explain(c_text(path), memory, size(memory, kind=c_int64_t))
      if (length < size(memory, kind=c_int64_t)) exit
      deallocate (memory)
      allocate (memory(length + 1))
    end do
    allocate (character(max(length, 0_c_int64_t)) :: text)
    do i = 1, len(text)
      text(i:i) = memory(i)
    end do
    call settle('ferry_explain', length, errno)
  end subroutine ferry_explain

  ! ---- between Fortran and C ----------------------------------------------------------------------

  ! Ends a call with what the library returned.
  subroutine settle(name, result, errno)
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: result
    integer, intent(out), optional :: errno
    if (result < 0) call forget_text()
    call settle_here(name, int(min(result, 0_c_int64_t), c_int), errno)
  end subroutine settle

  ! Ends a call that was refused before the library saw it: its text is noted.
  subroutine settle_here(name, result, errno)
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: result
    integer, intent(out), optional :: errno
    character(:), allocatable :: line
    if (present(errno)) then
      errno = -int(result)
    else if (result < 0) then
      line = name // ': ' // ferry_error_text()
      error stop line
    end if
  end subroutine settle_here

  ! Ends a call that transferred `result` of `wanted` bytes.
  subroutine settle_read(name, result, wanted, bytes, errno)
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: result, wanted
    integer(c_int64_t), intent(out), optional :: bytes
    integer, intent(out), optional :: errno
    if (present(bytes)) then
      bytes = max(result, 0_c_int64_t)
    else if (result >= 0 .and. result < wanted) then
      call note_text(short_text(result, wanted))
      call settle_here(name, int(-ferry_enodata, c_int), errno)
      return
    end if
    call settle(name, result, errno)
  end subroutine settle_read

  subroutine end_of(future)
    type(ferry_future), intent(inout) :: future
    integer(c_int) :: ignored
    if (c_associated(future%handle)) ignored = c_future_free(future%handle)
    future = ferry_future()
  end subroutine end_of

  function packed(layout) result(c)
    type(ferry_layout), intent(in) :: layout
    type(c_layout) :: c
    integer :: i
    c%struct_bytes = c_sizeof(c)
    c%stripe_bytes = layout%stripe_bytes
    c%object_bytes = layout%object_bytes
    c%stripe_count = int(layout%stripe_count, c_int32_t)
    c%first_server = int(layout%first_server, c_int32_t)
    c%all_servers = merge(1_c_int32_t, 0_c_int32_t, layout%all_servers)
    c%overstriping = merge(1_c_int32_t, 0_c_int32_t, layout%overstriping)
    c%at_most = merge(1_c_int32_t, 0_c_int32_t, layout%at_most)
    c%parts = 0
    c%pool = c_null_char
    do i = 1, len_trim(layout%pool)
      c%pool(i) = layout%pool(i:i)
    end do
  end function packed
end module ferry
