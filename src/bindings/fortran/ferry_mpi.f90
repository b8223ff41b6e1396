! Collective I/O in Fortran: many MPI ranks share one file, through a few writing ranks. Over
! ferry_mpi.h, with the MPI library that Ferry was built with.
!
!   use mpi_f08
!   use ferry_mpi
!   type(ferry_mpi_file) :: file
!   type(ferry_mpi_map) :: view
!   call ferry_mpi_map_subarray(view, sizes, shape(mine), first, element_bytes=8)
!   call ferry_mpi_open(file, MPI_COMM_WORLD, '/data/field', status='replace')
!   call ferry_mpi_set_view(file, 0_ferry_offset_kind, view)
!   call ferry_mpi_write_all(file, mine)
!   call ferry_mpi_close(file)
!
! Collective procedures are marked so: all ranks of the communicator call them, in the same order; a
! rank without data passes an array of size 0. A rank that makes no call blocks the others.
!
! Communicators, hints and datatypes are those of mpi_f08, or integers as in mpif.h.
!
! Errors. Every procedure ends with the optional argument `errno`: 0, or a positive errno.
! ferry_mpi_error_text() then has one line that says more. A collective procedure fails on all ranks
! or on none, with the same errno, also where one rank alone has a wrong argument; the text names
! that rank. Without `errno` a failure ends the program by ERROR STOP with that line. Not collective
! are the errors of a file that is not open, and ferry_enodata: a read that the end of the file cuts
! short on this rank, where it does not ask for `read_bytes`.
!
! Buffers, offsets and paths are as in the module `ferry`.
!
! Threads. Use a file on the thread that opened it, between MPI's initialisation and finalisation.
! Where MPI was initialised with MPI_THREAD_MULTIPLE any thread may wait for a transfer, else the
! one that opened the file.
module ferry_mpi
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_int, c_int32_t, c_int64_t, &
    c_null_ptr, c_ptr, c_sizeof
  use mpi_f08, only: MPI_Comm, MPI_Datatype, MPI_Info
  use ferry_arguments
  use ferry_errno
  implicit none
  private

  public :: ferry_enoent, ferry_eio, ferry_ebadf, ferry_enomem, ferry_eacces, ferry_eexist
  public :: ferry_eisdir, ferry_einval, ferry_enospc, ferry_enodata, ferry_enopkg, ferry_eproto
  public :: ferry_eopnotsupp, ferry_offset_kind
  public :: ferry_mpi_file, ferry_mpi_map, ferry_mpi_transfer, ferry_mpi_options
  public :: ferry_mpi_phases, ferry_mpi_statistics
  public :: ferry_mpi_error_text
  public :: ferry_mpi_map_contiguous, ferry_mpi_map_strided, ferry_mpi_map_subarray
  public :: ferry_mpi_map_list, ferry_mpi_map_datatype, ferry_mpi_map_free
  public :: ferry_mpi_open, ferry_mpi_close, ferry_mpi_set_view
  public :: ferry_mpi_write_at_all, ferry_mpi_read_at_all, ferry_mpi_write_all, ferry_mpi_read_all
  public :: ferry_mpi_write_at, ferry_mpi_read_at
  public :: ferry_mpi_iwrite_at_all, ferry_mpi_iread_at_all, ferry_mpi_iwrite_all, ferry_mpi_iread_all
  public :: ferry_mpi_wait, ferry_mpi_wait_all, ferry_mpi_test
  public :: ferry_mpi_sync, ferry_mpi_resize, ferry_mpi_size
  public :: ferry_mpi_get_statistics, ferry_mpi_explain
  public :: ferry_mpi_writers, ferry_mpi_get_hints, ferry_mpi_warnings

  ! How a collective call moves data; ferry_mpi.h explains them.
  integer, parameter, public :: ferry_mpi_method_automatic = 0
  integer, parameter, public :: ferry_mpi_method_independent = 1
  integer, parameter, public :: ferry_mpi_method_serial = 2
  integer, parameter, public :: ferry_mpi_method_aggregate = 3
  integer, parameter, public :: ferry_mpi_method_mpiio = 4

  ! Settings that can be switched.
  integer, parameter, public :: ferry_mpi_default = 0
  integer, parameter, public :: ferry_mpi_on = 1
  integer, parameter, public :: ferry_mpi_off = 2
  integer, parameter, public :: ferry_mpi_automatic = 3

  ! The byte order of a file's elements.
  integer, parameter, public :: ferry_mpi_order_native = 0
  integer, parameter, public :: ferry_mpi_order_little = 1
  integer, parameter, public :: ferry_mpi_order_big = 2

  ! An open file.
  type :: ferry_mpi_file
    private
    type(c_ptr) :: handle = c_null_ptr
  end type ferry_mpi_file

  ! The positions of a stream's bytes in a file: a list of extents that repeats.
  type :: ferry_mpi_map
    private
    type(c_ptr) :: handle = c_null_ptr
  end type ferry_mpi_map

  ! A nonblocking transfer, until a wait has returned for it.
  type :: ferry_mpi_transfer
    private
    type(c_ptr) :: handle = c_null_ptr
    integer(c_int64_t) :: wanted_bytes = 0
  end type ferry_mpi_transfer

  ! Rank 0's values count, but for the last two. 0 means the default.
  type :: ferry_mpi_options
    integer(ferry_offset_kind) :: buffer_bytes = 0     ! of a writer (cb_buffer_size)
    integer(ferry_offset_kind) :: alignment_bytes = 0  ! stripe size of a new file (striping_unit)
    integer :: stripe_count = 0                        ! of a new file (striping_factor)
    integer :: write_method = 0                        ! ferry_mpi_method_...
    integer :: read_method = 0
    integer :: writers = 0                             ! number of ranks that access the file
    integer :: files = 0                               ! a file for each of so many groups
    integer :: write_out = 0                           ! ferry_mpi_on, ...
    integer :: read_sieving = 0
    integer :: write_sieving = 0
    integer :: node_merge = 0
    logical :: quiet = .false.                         ! does not report bad hints
    integer :: progress_thread = 0
    integer :: writes_first = 0
  end type ferry_mpi_options

  ! One rank's time by phase, since the file was opened.
  type, bind(c) :: ferry_mpi_phases
    integer(c_int64_t) :: plan_ns = 0
    integer(c_int64_t) :: exchange_ns = 0
    integer(c_int64_t) :: pack_ns = 0
    integer(c_int64_t) :: file_io_ns = 0
    integer(c_int64_t) :: sync_ns = 0
    integer(c_int64_t) :: wait_ns = 0
  end type ferry_mpi_phases

  ! The time split, and what all ranks together counted.
  type :: ferry_mpi_statistics
    type(ferry_mpi_phases) :: mean     ! over ranks
    type(ferry_mpi_phases) :: maximum  ! over ranks, for each phase
    integer(ferry_offset_kind) :: messages = 0
    integer(ferry_offset_kind) :: message_bytes = 0
    integer(ferry_offset_kind) :: remote_messages = 0  ! between nodes
    integer(ferry_offset_kind) :: remote_bytes = 0
    integer(ferry_offset_kind) :: shared_bytes = 0     ! through memory shared by a node's ranks
    integer(ferry_offset_kind) :: storage_requests = 0
    integer(ferry_offset_kind) :: storage_bytes = 0
    integer(ferry_offset_kind) :: storage_opens = 0
    integer(ferry_offset_kind) :: gpu_bytes = 0
    integer(ferry_offset_kind) :: buffer_bytes = 0     ! size of a writer's window
    integer(ferry_offset_kind) :: stripe_bytes = 0     ! 0: unknown
    integer :: stripe_count = 0
    integer :: method = 0                              ! of the last collective transfer
    integer :: writers = 0                             ! ranks that accessed the file in it
  end type ferry_mpi_statistics

  type, bind(c) :: c_options
    integer(c_int64_t) :: struct_bytes, buffer_bytes, alignment_bytes
    integer(c_int32_t) :: stripe_count, write_method, read_method, writers, files, write_out
    integer(c_int32_t) :: read_sieving, write_sieving, node_merge, progress_thread, writes_first, quiet
  end type c_options

  type, bind(c) :: c_statistics
    integer(c_int64_t) :: struct_bytes
    type(ferry_mpi_phases) :: mean, maximum
    integer(c_int64_t) :: counts(11)
    integer(c_int32_t) :: stripe_count, method, writers, reserved
  end type c_statistics

  type, bind(c) :: c_extent
    integer(c_int64_t) :: offset_bytes, bytes
  end type c_extent

  integer(c_int32_t), parameter :: call_set_view = 1, call_read_all = 2, call_write_all = 3

  ! Of mpi_f08, or with integers.
  interface ferry_mpi_open
    module procedure open_f08, open_integer
  end interface ferry_mpi_open
  interface ferry_mpi_map_datatype
    module procedure map_datatype_f08, map_datatype_integer
  end interface ferry_mpi_map_datatype
  interface ferry_mpi_get_hints
    module procedure get_hints_f08, get_hints_integer
  end interface ferry_mpi_get_hints
  ! With numbers of the default kind, or of ferry_offset_kind.
  interface ferry_mpi_map_subarray
    module procedure map_subarray, map_subarray_long
  end interface ferry_mpi_map_subarray

  interface
    type(c_ptr) function c_error_text() bind(c, name='ferry_mpi_error_text')
      import :: c_ptr
    end function c_error_text
    integer(c_int) function c_map_contiguous(map, bytes) bind(c, name='ferry_mpi_map_contiguous')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: map
      integer(c_int64_t), value :: bytes
    end function c_map_contiguous
    integer(c_int) function c_map_strided(map, count, block_bytes, stride_bytes) &
        bind(c, name='ferry_mpi_map_strided')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: map
      integer(c_int64_t), value :: count, block_bytes, stride_bytes
    end function c_map_strided
    integer(c_int) function c_map_subarray(map, dimensions, sizes, subsizes, starts, element_bytes) &
        bind(c, name='ferry_mpi_map_subarray')
      import :: c_int, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: map
      integer(c_int32_t), value :: dimensions
      integer(c_int64_t), intent(in) :: sizes(*), subsizes(*), starts(*)
      integer(c_int64_t), value :: element_bytes
    end function c_map_subarray
    integer(c_int) function c_map_list(map, extents, count, period_bytes) &
        bind(c, name='ferry_mpi_map_list')
      import :: c_extent, c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: map
      type(c_extent), intent(in) :: extents(*)
      integer(c_int64_t), value :: count, period_bytes
    end function c_map_list
    integer(c_int) function c_map_datatype(map, datatype) bind(c, name='ferry_fortran_mpi_map_datatype')
      import :: c_int, c_ptr
      type(c_ptr), intent(out) :: map
      integer(c_int), value :: datatype
    end function c_map_datatype
    integer(c_int) function c_map_free(map) bind(c, name='ferry_mpi_map_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: map
    end function c_map_free

    integer(c_int) function c_open(file, communicator, path, flags, mode, hints, options) &
        bind(c, name='ferry_fortran_mpi_open')
      import :: c_char, c_int, c_int32_t, c_options, c_ptr
      type(c_ptr), intent(out) :: file
      integer(c_int), value :: communicator
      character(c_char), intent(in) :: path(*)
      integer(c_int), value :: flags
      integer(c_int32_t), value :: mode
      integer(c_int), value :: hints
      type(c_options), intent(in) :: options
    end function c_open
    integer(c_int) function c_refuse_open(communicator, path, why) &
        bind(c, name='ferry_fortran_mpi_refuse_open')
      import :: c_char, c_int, c_ptr
      integer(c_int), value :: communicator
      character(c_char), intent(in) :: path(*)
      type(c_ptr), value :: why
    end function c_refuse_open
    integer(c_int) function c_no_hints() bind(c, name='ferry_fortran_mpi_no_hints')
      import :: c_int
    end function c_no_hints
    integer(c_int) function c_get_hints(file, hints) bind(c, name='ferry_fortran_mpi_get_hints')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
      integer(c_int), intent(out) :: hints
    end function c_get_hints
    integer(c_int) function c_close(file) bind(c, name='ferry_mpi_close')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_close
    integer(c_int) function c_set_view(file, displacement_bytes, view, byte_order, element_bytes) &
        bind(c, name='ferry_mpi_set_view')
      import :: c_int, c_int32_t, c_int64_t, c_ptr
      type(c_ptr), value :: file, view
      integer(c_int64_t), value :: displacement_bytes
      integer(c_int32_t), value :: byte_order, element_bytes
    end function c_set_view
    integer(c_int) function c_refuse(file, call, error, why) bind(c, name='ferry_mpi_refuse')
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), value :: file, why
      integer(c_int32_t), value :: call
      integer(c_int), value :: error
    end function c_refuse
    integer(c_int) function c_irefuse(transfer, file, call, error, why) bind(c, name='ferry_mpi_irefuse')
      import :: c_int, c_int32_t, c_ptr
      type(c_ptr), intent(out) :: transfer
      type(c_ptr), value :: file, why
      integer(c_int32_t), value :: call
      integer(c_int), value :: error
    end function c_irefuse

    integer(c_int64_t) function c_write_at_all(file, offset_bytes, data, bytes) &
        bind(c, name='ferry_mpi_write_at_all')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_write_at_all
    integer(c_int64_t) function c_read_at_all(file, offset_bytes, data, bytes) &
        bind(c, name='ferry_mpi_read_at_all')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_read_at_all
    integer(c_int64_t) function c_write_all(file, data, bytes) bind(c, name='ferry_mpi_write_all')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes
    end function c_write_all
    integer(c_int64_t) function c_read_all(file, data, bytes) bind(c, name='ferry_mpi_read_all')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes
    end function c_read_all
    integer(c_int64_t) function c_write_at(file, offset_bytes, data, bytes) &
        bind(c, name='ferry_mpi_write_at')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_write_at
    integer(c_int64_t) function c_read_at(file, offset_bytes, data, bytes) bind(c, name='ferry_mpi_read_at')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_read_at
    integer(c_int) function c_iwrite_at_all(transfer, file, offset_bytes, data, bytes) &
        bind(c, name='ferry_mpi_iwrite_at_all')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: transfer
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_iwrite_at_all
    integer(c_int) function c_iread_at_all(transfer, file, offset_bytes, data, bytes) &
        bind(c, name='ferry_mpi_iread_at_all')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: transfer
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: offset_bytes, bytes
    end function c_iread_at_all
    integer(c_int) function c_iwrite_all(transfer, file, data, bytes) bind(c, name='ferry_mpi_iwrite_all')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: transfer
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes
    end function c_iwrite_all
    integer(c_int) function c_iread_all(transfer, file, data, bytes) bind(c, name='ferry_mpi_iread_all')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), intent(out) :: transfer
      type(c_ptr), value :: file, data
      integer(c_int64_t), value :: bytes
    end function c_iread_all
    integer(c_int64_t) function c_wait(transfer) bind(c, name='ferry_mpi_transfer_wait')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: transfer
    end function c_wait
    integer(c_int) function c_test(transfer) bind(c, name='ferry_mpi_transfer_test')
      import :: c_int, c_ptr
      type(c_ptr), value :: transfer
    end function c_test
    integer(c_int) function c_transfer_free(transfer) bind(c, name='ferry_mpi_transfer_free')
      import :: c_int, c_ptr
      type(c_ptr), value :: transfer
    end function c_transfer_free

    integer(c_int) function c_sync(file) bind(c, name='ferry_mpi_sync')
      import :: c_int, c_ptr
      type(c_ptr), value :: file
    end function c_sync
    integer(c_int) function c_resize(file, size_bytes) bind(c, name='ferry_mpi_resize')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int64_t), value :: size_bytes
    end function c_resize
    integer(c_int64_t) function c_size(file) bind(c, name='ferry_mpi_size')
      import :: c_int64_t, c_ptr
      type(c_ptr), value :: file
    end function c_size
    integer(c_int) function c_get_statistics(file, statistics) bind(c, name='ferry_mpi_get_statistics')
      import :: c_int, c_ptr, c_statistics
      type(c_ptr), value :: file
      type(c_statistics), intent(inout) :: statistics
    end function c_get_statistics
    integer(c_int64_t) function c_explain(file, text, text_bytes) bind(c, name='ferry_mpi_explain')
      import :: c_char, c_int64_t, c_ptr
      type(c_ptr), value :: file
      character(c_char), intent(inout) :: text(*)
      integer(c_int64_t), value :: text_bytes
    end function c_explain
    integer(c_int64_t) function c_warnings(file, text, text_bytes) bind(c, name='ferry_mpi_warnings')
      import :: c_char, c_int64_t, c_ptr
      type(c_ptr), value :: file
      character(c_char), intent(inout) :: text(*)
      integer(c_int64_t), value :: text_bytes
    end function c_warnings
    integer(c_int64_t) function c_writers(file, ranks, count) bind(c, name='ferry_mpi_writers')
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: file
      integer(c_int), intent(inout) :: ranks(*)
      integer(c_int64_t), value :: count
    end function c_writers
  end interface

contains

  ! One line on this thread's last failure, '' if there was none.
  function ferry_mpi_error_text() result(text)
    character(:), allocatable :: text
    type(c_ptr) :: address
    address = noted_text()
    if (.not. c_associated(address)) address = c_error_text()
    call copy_text(address, text)
  end function ferry_mpi_error_text

  ! ---- type maps, which are not collective --------------------------------------------------------

  ! A map that could not be made is refused on all ranks by the next collective call that gets it.

  ! `bytes` bytes in a row; as a view, with 1 or any other number, all bytes of the file.
  subroutine ferry_mpi_map_contiguous(map, bytes, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer(ferry_offset_kind), intent(in) :: bytes
    integer, intent(out), optional :: errno
    call settle('ferry_mpi_map_contiguous', int(c_map_contiguous(map%handle, bytes), c_int64_t), errno)
  end subroutine ferry_mpi_map_contiguous

  ! `count` blocks, `stride_bytes` apart from start to start. A gap also follows the last.
  subroutine ferry_mpi_map_strided(map, count, block_bytes, stride_bytes, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer(ferry_offset_kind), intent(in) :: count, block_bytes, stride_bytes
    integer, intent(out), optional :: errno
    integer(c_int) :: result
    result = c_map_strided(map%handle, count, block_bytes, stride_bytes)
    call settle('ferry_mpi_map_strided', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_map_strided

  ! The block of `subsizes` elements in an array of `sizes`, as Fortran stores it: the first
  ! dimension is contiguous. `first`: the indices of the block's first element, from 1.
  subroutine map_subarray(map, sizes, subsizes, first, element_bytes, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer, intent(in) :: sizes(:), subsizes(:), first(:)
    integer, intent(in) :: element_bytes
    integer, intent(out), optional :: errno
    call map_subarray_long(map, int(sizes, c_int64_t), int(subsizes, c_int64_t), &
                           int(first, c_int64_t), element_bytes, errno)
  end subroutine map_subarray

  subroutine map_subarray_long(map, sizes, subsizes, first, element_bytes, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer(ferry_offset_kind), intent(in) :: sizes(:), subsizes(:), first(:)
    integer, intent(in) :: element_bytes
    integer, intent(out), optional :: errno
    integer(c_int) :: result
    integer :: n
    n = size(sizes)
    if (size(subsizes) /= n .or. size(first) /= n) then
      call note_text(c_text('sizes, subsizes and first: as many numbers each'))
      call settle_here('ferry_mpi_map_subarray', int(-ferry_einval, c_int), errno)
      return
    end if
    result = c_map_subarray(map%handle, int(n, c_int32_t), sizes(n:1:-1), subsizes(n:1:-1), &
                            first(n:1:-1) - 1, int(element_bytes, c_int64_t))
    call settle('ferry_mpi_map_subarray', int(result, c_int64_t), errno)
  end subroutine map_subarray_long

  ! Any list. A view's extents ascend without overlap. `period_bytes`: after which it repeats; absent:
  ! up to the end of the extent that reaches furthest.
  subroutine ferry_mpi_map_list(map, offsets_bytes, bytes, period_bytes, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer(ferry_offset_kind), intent(in) :: offsets_bytes(:), bytes(:)
    integer(ferry_offset_kind), intent(in), optional :: period_bytes
    integer, intent(out), optional :: errno
    type(c_extent) :: extents(size(bytes))
    integer(c_int64_t) :: period
    integer :: i
    if (size(offsets_bytes) /= size(bytes)) then
      call note_text(c_text('offsets_bytes and bytes: as many numbers each'))
      call settle_here('ferry_mpi_map_list', int(-ferry_einval, c_int), errno)
      return
    end if
    extents = [(c_extent(offsets_bytes(i), bytes(i)), i = 1, size(bytes))]
    period = -1
    if (present(period_bytes)) period = period_bytes
    call settle('ferry_mpi_map_list', &
                int(c_map_list(map%handle, extents, size(bytes, kind=c_int64_t), period), c_int64_t), errno)
  end subroutine ferry_mpi_map_list

  ! An MPI datatype, which need not be committed.
  subroutine map_datatype_f08(map, datatype, errno)
    type(ferry_mpi_map), intent(out) :: map
    type(MPI_Datatype), intent(in) :: datatype
    integer, intent(out), optional :: errno
    call map_datatype_integer(map, datatype%MPI_VAL, errno)
  end subroutine map_datatype_f08

  subroutine map_datatype_integer(map, datatype, errno)
    type(ferry_mpi_map), intent(out) :: map
    integer, intent(in) :: datatype
    integer, intent(out), optional :: errno
    call settle('ferry_mpi_map_datatype', int(c_map_datatype(map%handle, int(datatype, c_int)), c_int64_t), errno)
  end subroutine map_datatype_integer

  ! Frees the map. Views do not need it any more.
  subroutine ferry_mpi_map_free(map, errno)
    type(ferry_mpi_map), intent(inout) :: map
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: result
    result = c_map_free(map%handle)
    map%handle = c_null_ptr
    call settle('ferry_mpi_map_free', result, errno)
  end subroutine ferry_mpi_map_free

  ! ---- files --------------------------------------------------------------------------------------

  ! Collective. Opens a file by its path or URI; all ranks pass the same. `action`, `status` and
  ! `mode` as in ferry_open. Rank 0's hints count.
  subroutine open_f08(file, communicator, path, action, status, options, hints, mode, errno)
    type(ferry_mpi_file), intent(out) :: file
    type(MPI_Comm), intent(in) :: communicator
    character(*), intent(in) :: path
    character(*), intent(in), optional :: action, status
    type(ferry_mpi_options), intent(in), optional :: options
    type(MPI_Info), intent(in), optional :: hints
    integer, intent(in), optional :: mode
    integer, intent(out), optional :: errno
    integer :: info
    info = int(c_no_hints())
    if (present(hints)) info = hints%MPI_VAL
    call open_integer(file, communicator%MPI_VAL, path, action, status, options, info, mode, errno)
  end subroutine open_f08

  subroutine open_integer(file, communicator, path, action, status, options, hints, mode, errno)
    type(ferry_mpi_file), intent(out) :: file
    integer, intent(in) :: communicator
    character(*), intent(in) :: path
    character(*), intent(in), optional :: action, status
    type(ferry_mpi_options), intent(in), optional :: options
    integer, intent(in), optional :: hints, mode
    integer, intent(out), optional :: errno
    integer(c_int) :: flags, result
    integer(c_int32_t) :: permissions
    type(ferry_mpi_options) :: wanted
    integer :: info
    if (present(options)) wanted = options
    info = int(c_no_hints())
    if (present(hints)) info = hints
    permissions = int(o'666', c_int32_t)
    if (present(mode)) permissions = int(mode, c_int32_t)
    flags = open_flags(c_word(action, 'readwrite'), c_word(status, 'unknown'), 0_c_int)
    if (flags < 0) then
      result = c_refuse_open(int(communicator, c_int), c_text(path), noted_text())
    else
      result = c_open(file%handle, int(communicator, c_int), c_text(path), flags, permissions, &
                      int(info, c_int), packed(wanted))
    end if
    call settle('ferry_mpi_open', int(result, c_int64_t), errno)
  end subroutine open_integer

  ! Collective. Waits for nonblocking transfers, then closes. Reports the first error of any rank.
  subroutine ferry_mpi_close(file, errno)
    type(ferry_mpi_file), intent(inout) :: file
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: result
    result = c_close(file%handle)
    file%handle = c_null_ptr
    call settle('ferry_mpi_close', result, errno)
  end subroutine ferry_mpi_close

  ! Collective; views may differ between ranks. Offsets now count the bytes of the view from
  ! `displacement_bytes` on, and the position is 0. `byte_order` (ferry_mpi_order_...) and
  ! `element_bytes` (1, 2, 4, 8 or 16) must be the same on every rank.
  subroutine ferry_mpi_set_view(file, displacement_bytes, view, byte_order, element_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: displacement_bytes
    type(ferry_mpi_map), intent(in) :: view
    integer, intent(in), optional :: byte_order, element_bytes
    integer, intent(out), optional :: errno
    integer(c_int32_t) :: order, element
    order = ferry_mpi_order_native
    if (present(byte_order)) order = int(byte_order, c_int32_t)
    element = 1
    if (present(element_bytes)) element = int(element_bytes, c_int32_t)
    call settle('ferry_mpi_set_view', &
                int(c_set_view(file%handle, displacement_bytes, view%handle, order, element), c_int64_t), &
                errno)
  end subroutine ferry_mpi_set_view

  ! Collective. Transfer this rank's buffer: the _at_ procedures at an offset, the others at this
  ! rank's position, which they move. Reads at the end of the file are short; see `read_bytes` above.
  subroutine ferry_mpi_write_at_all(file, offset_bytes, buffer, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), contiguous, intent(in) :: buffer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes, result
    if (buffer_memory(buffer, memory, bytes) < 0) then
      result = refused(file, call_write_all)
    else
      result = c_write_at_all(file%handle, offset_bytes, memory, bytes)
    end if
    call settle('ferry_mpi_write_at_all', result, errno)
  end subroutine ferry_mpi_write_at_all

  subroutine ferry_mpi_read_at_all(file, offset_bytes, buffer, read_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), contiguous, intent(inout) :: buffer
    integer(ferry_offset_kind), intent(out), optional :: read_bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes, result
    if (buffer_memory(buffer, memory, bytes) < 0) then
      result = refused(file, call_read_all)
    else
      result = c_read_at_all(file%handle, offset_bytes, memory, bytes)
    end if
    call settle_read('ferry_mpi_read_at_all', result, bytes, read_bytes, errno)
  end subroutine ferry_mpi_read_at_all

  subroutine ferry_mpi_write_all(file, buffer, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(*), dimension(..), contiguous, intent(in) :: buffer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes, result
    if (buffer_memory(buffer, memory, bytes) < 0) then
      result = refused(file, call_write_all)
    else
      result = c_write_all(file%handle, memory, bytes)
    end if
    call settle('ferry_mpi_write_all', result, errno)
  end subroutine ferry_mpi_write_all

  subroutine ferry_mpi_read_all(file, buffer, read_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(*), dimension(..), contiguous, intent(inout) :: buffer
    integer(ferry_offset_kind), intent(out), optional :: read_bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes, result
    if (buffer_memory(buffer, memory, bytes) < 0) then
      result = refused(file, call_read_all)
    else
      result = c_read_all(file%handle, memory, bytes)
    end if
    call settle_read('ferry_mpi_read_all', result, bytes, read_bytes, errno)
  end subroutine ferry_mpi_read_all

  ! Transfers of this rank alone, through the same view. Not collective.
  subroutine ferry_mpi_write_at(file, offset_bytes, buffer, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), contiguous, intent(in) :: buffer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes
    integer(c_int) :: wrong
    wrong = buffer_memory(buffer, memory, bytes)
    if (wrong < 0) then
      call settle_here('ferry_mpi_write_at', wrong, errno)
      return
    end if
    call settle('ferry_mpi_write_at', c_write_at(file%handle, offset_bytes, memory, bytes), errno)
  end subroutine ferry_mpi_write_at

  subroutine ferry_mpi_read_at(file, offset_bytes, buffer, read_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), contiguous, intent(inout) :: buffer
    integer(ferry_offset_kind), intent(out), optional :: read_bytes
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int64_t) :: bytes
    integer(c_int) :: wrong
    if (present(read_bytes)) read_bytes = 0
    wrong = buffer_memory(buffer, memory, bytes)
    if (wrong < 0) then
      call settle_here('ferry_mpi_read_at', wrong, errno)
      return
    end if
    call settle_read('ferry_mpi_read_at', c_read_at(file%handle, offset_bytes, memory, bytes), bytes, &
                     read_bytes, errno)
  end subroutine ferry_mpi_read_at

  ! Collective. Makes durable what any rank wrote before.
  subroutine ferry_mpi_sync(file, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer, intent(out), optional :: errno
    call settle('ferry_mpi_sync', int(c_sync(file%handle), c_int64_t), errno)
  end subroutine ferry_mpi_sync

  ! Collective. Truncates or extends the file.
  subroutine ferry_mpi_resize(file, size_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: size_bytes
    integer, intent(out), optional :: errno
    call settle('ferry_mpi_resize', int(c_resize(file%handle, size_bytes), c_int64_t), errno)
  end subroutine ferry_mpi_resize

  ! Collective. The size of the file.
  subroutine ferry_mpi_size(file, size_bytes, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(out) :: size_bytes
    integer, intent(out), optional :: errno
    size_bytes = c_size(file%handle)
    call settle('ferry_mpi_size', size_bytes, errno)
  end subroutine ferry_mpi_size

  ! ---- nonblocking transfers ----------------------------------------------------------------------

  ! Collective. Start a transfer. All ranks start the same ones in the same order, and they run one
  ! at a time. The buffer must stay, and may not be used, until a wait returns for the transfer. What
  ! is wrong with the arguments is an error of the wait.
  subroutine ferry_mpi_iwrite_at_all(file, offset_bytes, buffer, transfer, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), asynchronous, intent(in) :: buffer
    type(ferry_mpi_transfer), intent(out) :: transfer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: result
    if (lasting_memory(buffer, memory, transfer%wanted_bytes) < 0) then
      result = irefused(transfer, file, call_write_all)
    else
      result = c_iwrite_at_all(transfer%handle, file%handle, offset_bytes, memory, transfer%wanted_bytes)
    end if
    call settle('ferry_mpi_iwrite_at_all', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_iwrite_at_all

  subroutine ferry_mpi_iread_at_all(file, offset_bytes, buffer, transfer, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(ferry_offset_kind), intent(in) :: offset_bytes
    type(*), dimension(..), asynchronous, intent(inout) :: buffer
    type(ferry_mpi_transfer), intent(out) :: transfer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: result
    if (lasting_memory(buffer, memory, transfer%wanted_bytes) < 0) then
      result = irefused(transfer, file, call_read_all)
    else
      result = c_iread_at_all(transfer%handle, file%handle, offset_bytes, memory, transfer%wanted_bytes)
    end if
    call settle('ferry_mpi_iread_at_all', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_iread_at_all

  subroutine ferry_mpi_iwrite_all(file, buffer, transfer, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(*), dimension(..), asynchronous, intent(in) :: buffer
    type(ferry_mpi_transfer), intent(out) :: transfer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: result
    if (lasting_memory(buffer, memory, transfer%wanted_bytes) < 0) then
      result = irefused(transfer, file, call_write_all)
    else
      result = c_iwrite_all(transfer%handle, file%handle, memory, transfer%wanted_bytes)
    end if
    call settle('ferry_mpi_iwrite_all', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_iwrite_all

  subroutine ferry_mpi_iread_all(file, buffer, transfer, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(*), dimension(..), asynchronous, intent(inout) :: buffer
    type(ferry_mpi_transfer), intent(out) :: transfer
    integer, intent(out), optional :: errno
    type(c_ptr) :: memory
    integer(c_int) :: result
    if (lasting_memory(buffer, memory, transfer%wanted_bytes) < 0) then
      result = irefused(transfer, file, call_read_all)
    else
      result = c_iread_all(transfer%handle, file%handle, memory, transfer%wanted_bytes)
    end if
    call settle('ferry_mpi_iread_all', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_iread_all

  ! Waits for the transfer and earlier ones, and ends it. `bytes`: that were transferred; without it,
  ! a read that the end of the file cut short is ferry_enodata.
  subroutine ferry_mpi_wait(transfer, bytes, errno)
    type(ferry_mpi_transfer), intent(inout) :: transfer
    integer(ferry_offset_kind), intent(out), optional :: bytes
    integer, intent(out), optional :: errno
    integer(c_int64_t) :: result, wanted
    integer(c_int) :: ignored
    result = c_wait(transfer%handle)
    wanted = transfer%wanted_bytes
    if (c_associated(transfer%handle)) ignored = c_transfer_free(transfer%handle)
    transfer = ferry_mpi_transfer()
    call settle_read('ferry_mpi_wait', result, wanted, bytes, errno)
  end subroutine ferry_mpi_wait

  ! Waits for all of them. If some failed, `errno` is that of the first. Transfers that are over
  ! count as done.
  subroutine ferry_mpi_wait_all(transfers, errno)
    type(ferry_mpi_transfer), intent(inout) :: transfers(:)
    integer, intent(out), optional :: errno
    integer :: failed, i, one
    failed = 0
    do i = 1, size(transfers)
      if (.not. c_associated(transfers(i)%handle)) cycle
      call ferry_mpi_wait(transfers(i), errno=one)
      if (failed == 0 .and. one /= 0) then  ! its text stays, whichever fails later
        failed = one
        if (.not. c_associated(noted_text())) call note_text_at(c_error_text())
        exit
      end if
    end do
    do i = 1, size(transfers)
      if (c_associated(transfers(i)%handle)) call end_quietly(transfers(i))
    end do
    call settle_here('ferry_mpi_wait_all', int(-failed, c_int), errno)
  end subroutine ferry_mpi_wait_all

  ! Whether waiting would not block. A transfer that is over is ready.
  subroutine ferry_mpi_test(transfer, is_ready, errno)
    type(ferry_mpi_transfer), intent(in) :: transfer
    logical, intent(out) :: is_ready
    integer, intent(out), optional :: errno
    integer(c_int) :: found
    found = 1
    if (c_associated(transfer%handle)) found = c_test(transfer%handle)
    is_ready = found == 1
    call settle('ferry_mpi_test', int(found, c_int64_t), errno)
  end subroutine ferry_mpi_test

  ! ---- what was chosen, and where the time went ---------------------------------------------------

  ! Collective.
  subroutine ferry_mpi_get_statistics(file, statistics, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(ferry_mpi_statistics), intent(out) :: statistics
    integer, intent(out), optional :: errno
    type(c_statistics) :: found
    integer(c_int) :: result
    found%struct_bytes = c_sizeof(found)
    result = c_get_statistics(file%handle, found)
    if (result == 0) then
      statistics = ferry_mpi_statistics(found%mean, found%maximum, found%counts(1), found%counts(2), &
        found%counts(3), found%counts(4), found%counts(5), found%counts(6), found%counts(7), &
        found%counts(8), found%counts(9), found%counts(10), found%counts(11), int(found%stripe_count), &
        int(found%method), int(found%writers))
    end if
    call settle('ferry_mpi_get_statistics', int(result, c_int64_t), errno)
  end subroutine ferry_mpi_get_statistics

  ! Collective. The same as one line of JSON, with the reasons for method, writers, buffers and stripes.
  subroutine ferry_mpi_explain(file, text, errno)
    type(ferry_mpi_file), intent(in) :: file
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: errno
    character(c_char), allocatable :: memory(:)
    integer(c_int64_t) :: length
    allocate (memory(16384))
    length = c_explain(file%handle, memory, size(memory, kind=c_int64_t))
    call take_text(memory, length, text)
    call settle('ferry_mpi_explain', length, errno)
  end subroutine ferry_mpi_explain

  ! What is wrong with the hints, one line each. Not collective.
  subroutine ferry_mpi_warnings(file, text, errno)
    type(ferry_mpi_file), intent(in) :: file
    character(:), allocatable, intent(out) :: text
    integer, intent(out), optional :: errno
    character(c_char), allocatable :: memory(:)
    integer(c_int64_t) :: length
    allocate (memory(0))
    length = c_warnings(file%handle, memory, 0_c_int64_t)
    if (length > 0) then
      deallocate (memory)
      allocate (memory(length + 1))
      length = c_warnings(file%handle, memory, length + 1)
    end if
    call take_text(memory, length, text)
    call settle('ferry_mpi_warnings', length, errno)
  end subroutine ferry_mpi_warnings

  ! The ranks that write in collective transfers. Not collective.
  subroutine ferry_mpi_writers(file, ranks, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer, allocatable, intent(out) :: ranks(:)
    integer, intent(out), optional :: errno
    integer(c_int), allocatable :: found(:)
    integer(c_int64_t) :: count
    allocate (found(0))
    count = c_writers(file%handle, found, 0_c_int64_t)
    if (count > 0) then
      deallocate (found)
      allocate (found(count))
      count = c_writers(file%handle, found, count)
    end if
    allocate (ranks(size(found)))
    ranks(:) = int(found)
    call settle('ferry_mpi_writers', count, errno)
  end subroutine ferry_mpi_writers

  ! The hints in force. Free them by MPI_Info_free. Not collective.
  subroutine get_hints_f08(file, hints, errno)
    type(ferry_mpi_file), intent(in) :: file
    type(MPI_Info), intent(out) :: hints
    integer, intent(out), optional :: errno
    call get_hints_integer(file, hints%MPI_VAL, errno)
  end subroutine get_hints_f08

  subroutine get_hints_integer(file, hints, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer, intent(out) :: hints
    integer, intent(out), optional :: errno
    integer(c_int) :: found, result
    result = c_get_hints(file%handle, found)
    hints = int(found)
    call settle('ferry_mpi_get_hints', int(result, c_int64_t), errno)
  end subroutine get_hints_integer

  ! ---- between Fortran and C ----------------------------------------------------------------------

  ! Has all ranks fail, with the text that is noted.
  integer(c_int64_t) function refused(file, call)
    type(ferry_mpi_file), intent(in) :: file
    integer(c_int32_t), intent(in) :: call
    refused = c_refuse(file%handle, call, int(ferry_einval, c_int), noted_text())
  end function refused

  integer(c_int) function irefused(transfer, file, call)
    type(ferry_mpi_transfer), intent(inout) :: transfer
    type(ferry_mpi_file), intent(in) :: file
    integer(c_int32_t), intent(in) :: call
    irefused = c_irefuse(transfer%handle, file%handle, call, int(ferry_einval, c_int), noted_text())
  end function irefused

  ! Ends a call with what the library returned.
  subroutine settle(name, result, errno)
    character(*), intent(in) :: name
    integer(c_int64_t), intent(in) :: result
    integer, intent(out), optional :: errno
    if (result < 0) call forget_text()
    call settle_here(name, int(min(result, 0_c_int64_t), c_int), errno)
  end subroutine settle

  ! Ends a call of this rank alone, whose text is noted.
  subroutine settle_here(name, result, errno)
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: result
    integer, intent(out), optional :: errno
    character(:), allocatable :: line
    if (present(errno)) then
      errno = -int(result)
    else if (result < 0) then
      line = name // ': ' // ferry_mpi_error_text()
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

  ! After a failure of an earlier one, whose text stays.
  subroutine end_quietly(transfer)
    type(ferry_mpi_transfer), intent(inout) :: transfer
    integer(c_int64_t) :: ignored
    ignored = c_wait(transfer%handle)
    ignored = c_transfer_free(transfer%handle)
    transfer = ferry_mpi_transfer()
  end subroutine end_quietly

  subroutine take_text(memory, length, text)
    character(c_char), intent(in) :: memory(:)
    integer(c_int64_t), intent(in) :: length
    character(:), allocatable, intent(out) :: text
    integer :: i
    allocate (character(min(max(length, 0_c_int64_t), size(memory, kind=c_int64_t))) :: text)
    do i = 1, len(text)
      text(i:i) = memory(i)
    end do
  end subroutine take_text

  function packed(options) result(c)
    type(ferry_mpi_options), intent(in) :: options
    type(c_options) :: c
    c%struct_bytes = c_sizeof(c)
    c%buffer_bytes = options%buffer_bytes
    c%alignment_bytes = options%alignment_bytes
    c%stripe_count = int(options%stripe_count, c_int32_t)
    c%write_method = int(options%write_method, c_int32_t)
    c%read_method = int(options%read_method, c_int32_t)
    c%writers = int(options%writers, c_int32_t)
    c%files = int(options%files, c_int32_t)
    c%write_out = int(options%write_out, c_int32_t)
    c%read_sieving = int(options%read_sieving, c_int32_t)
    c%write_sieving = int(options%write_sieving, c_int32_t)
    c%node_merge = int(options%node_merge, c_int32_t)
    c%progress_thread = int(options%progress_thread, c_int32_t)
    c%writes_first = int(options%writes_first, c_int32_t)
    c%quiet = merge(1_c_int32_t, 0_c_int32_t, options%quiet)
  end function packed
end module ferry_mpi
