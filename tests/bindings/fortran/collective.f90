! FOLDER: what ranks write together by the module `ferry_mpi` is in the file, and what one rank gets
! wrong is the same errno on all.
program collective
  use, intrinsic :: iso_fortran_env, only: int8, real64
  use mpi_f08
  use ferry_mpi
  use checks
  implicit none
  integer, parameter :: offset = ferry_offset_kind
  character(:), allocatable :: folder
  character(16) :: culprit
  integer :: length, provided, rank, ranks
  logical :: is_wrong  ! this rank makes the mistake: the last one

  call get_command_argument(1, length=length)
  allocate (character(length) :: folder)
  call get_command_argument(1, folder)
  call before_mpi()
  call MPI_Init_thread(MPI_THREAD_MULTIPLE, provided)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  is_wrong = rank == ranks - 1
  write (culprit, '(a,i0)') 'rank ', ranks - 1
  call field()
  call strided()
  call datatypes()
  call choices()
  call wrong_maps()
  call wrong_opening()
  call wrong_calls()
  call MPI_Finalize()

contains

  ! A collective call must give the same errno on all ranks.
  subroutine same(errno, want, part)
    integer, intent(in) :: errno, want
    character(*), intent(in) :: part
    integer :: ends(2)
    ends = [errno, -errno]
    call MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD)
    call check_errno(errno, want, part)
    call check(ends(1) == -ends(2), 'ranks differ: ' // part)
    if (want /= 0) call check_text(ferry_mpi_error_text(), part)
  end subroutine same

  subroutine refused(errno, want, part)
    integer, intent(in) :: errno, want
    character(*), intent(in) :: part
    call same(errno, want, part)
    call check_text(ferry_mpi_error_text(), trim(culprit))
  end subroutine refused

  subroutine before_mpi()
    type(ferry_mpi_file) :: file
    integer :: errno
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/file', errno=errno)
    call check_errno(errno, ferry_einval, 'before MPI')
    call check_text(ferry_mpi_error_text(), 'not initialised')
  end subroutine before_mpi

  ! Each rank has some rows, within an array that has a border.
  subroutine field()
    integer, parameter :: rows = 4, columns = 6
    type(ferry_mpi_file) :: file
    type(ferry_mpi_map) :: view
    real(real64) :: mine(0:rows + 1, columns), back(rows, columns)
    real(real64), allocatable :: all(:, :)
    integer(offset) :: size_bytes, read_bytes
    integer :: i, j, unit
    mine = -1
    do j = 1, columns
      do i = 1, rows
        mine(i, j) = place(rows * rank + i, j)
      end do
    end do
    call ferry_mpi_map_subarray(view, [rows * ranks, columns], [rows, columns], [rows * rank + 1, 1], 8)
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/field', status='replace')
    call ferry_mpi_set_view(file, 0_offset, view)
    call ferry_mpi_map_free(view)  ! the view does not need it
    call ferry_mpi_write_all(file, mine(1:rows, :))
    call ferry_mpi_sync(file)
    call ferry_mpi_size(file, size_bytes)
    call check(size_bytes == 8 * rows * columns * ranks, 'the size')
    back = 0
    call ferry_mpi_read_at_all(file, 0_offset, back)
    call check(.not. any(back /= mine(1:rows, :)), 'the rows, read')
    mine = -1
    call ferry_mpi_read_at(file, 0_offset, mine(1:rows, :))
    call check(.not. any(back /= mine(1:rows, :)), 'the rows, by this rank')
    call check(.not. any(mine(0, :) /= -1) .and. .not. any(mine(rows + 1, :) /= -1), 'the border')
    call ferry_mpi_read_all(file, back, read_bytes)
    call check(read_bytes == 0, 'a read at the end')
    ! The last rank has no rows to write again.
    call ferry_mpi_write_at_all(file, 0_offset, mine(1:merge(0, rows, is_wrong), :))
    call ferry_mpi_close(file)
    if (rank == 0) then
      allocate (all(rows * ranks, columns))
      open (newunit=unit, file=folder // '/field', access='stream', form='unformatted', action='read')
      read (unit) all
      close (unit)
      do j = 1, columns
        do i = 1, rows * ranks
          call check(all(i, j) == place(i, j), 'the field by another reader')
        end do
      end do
    end if
  end subroutine field

  pure real(real64) function place(i, j)
    integer, intent(in) :: i, j
    place = 1000 * i + j
  end function place

  ! Blocks of bytes that go round the ranks, nonblocking, with an integer communicator.
  subroutine strided()
    integer, parameter :: block = 500, blocks = 4
    type(ferry_mpi_file) :: file
    type(ferry_mpi_map) :: view
    type(ferry_mpi_transfer) :: transfers(2), one
    integer(int8), asynchronous :: mine(block, blocks), back(block, blocks)
    integer(int8), allocatable :: got(:)
    integer(offset) :: at, bytes
    integer :: i, j
    logical :: is_ready
    do j = 1, blocks
      at = int(block, offset) * ((j - 1) * ranks + rank)
      mine(:, j) = [(byte_at(at + i), i = 0, block - 1)]
    end do
    call ferry_mpi_map_strided(view, int(blocks, offset), int(block, offset), int(block, offset) * ranks)
    call ferry_mpi_open(file, MPI_COMM_WORLD%MPI_VAL, folder // '/strided', status='replace')
    call ferry_mpi_set_view(file, int(block, offset) * rank, view)
    call ferry_mpi_iwrite_at_all(file, 0_offset, mine(:, 1:2), transfers(1))
    call ferry_mpi_iwrite_at_all(file, 2_offset * block, mine(:, 3:4), transfers(2))
    call ferry_mpi_wait_all(transfers)
    call ferry_mpi_test(transfers(1), is_ready)
    call check(is_ready, 'a transfer that is over')
    back = 0
    call ferry_mpi_iread_all(file, back(:, 1:1), transfers(1))
    call ferry_mpi_iread_at_all(file, int(block, offset), back(:, 2:4), transfers(2))
    call ferry_mpi_wait_all(transfers)
    call check(.not. any(back /= mine), 'the blocks, read')
    call ferry_mpi_iwrite_all(file, mine(:, 2), one)  ! at the position
    call ferry_mpi_wait(one, bytes)
    call check(bytes == block, 'a block')
    call ferry_mpi_map_free(view)
    call ferry_mpi_close(file)
    if (rank == 0) then
      call file_bytes(folder // '/strided', got)
      call check(size(got) == block * blocks * ranks, 'the size of the blocks')
      call check(.not. any(got /= [(byte_at(int(i, offset)), i = 0, size(got) - 1)]), 'the blocks')
    end if
  end subroutine strided

  ! A datatype as the view, in the other byte order; a list.
  subroutine datatypes()
    type(ferry_mpi_file) :: file
    type(ferry_mpi_map) :: view
    type(MPI_Datatype) :: type
    integer :: numbers(3), back(3)
    integer(int8), allocatable :: got(:)
    integer :: i
    call MPI_Type_vector(3, 4, 4 * ranks, MPI_BYTE, type)
    call ferry_mpi_map_datatype(view, type)
    call ferry_mpi_map_free(view)
    call ferry_mpi_map_datatype(view, type%MPI_VAL)
    call MPI_Type_free(type)
    numbers = [(i * ranks + rank + 1, i = 0, 2)]
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/numbers', action='readwrite', status='replace', &
                        mode=int(o'600'))
    call ferry_mpi_set_view(file, 4_offset * rank, view, ferry_mpi_order_big, 4)
    call ferry_mpi_write_at_all(file, 0_offset, numbers)
    call ferry_mpi_map_free(view)
    ! The last byte of each number of rank 0, and of the next.
    call ferry_mpi_map_list(view, [3_offset, 7_offset], [1_offset, 1_offset], 8_offset)
    call ferry_mpi_set_view(file, 0_offset, view)
    call MPI_Barrier(MPI_COMM_WORLD)
    block
      integer(int8) :: bytes(2)
      call ferry_mpi_read_all(file, bytes)
      call check(bytes(1) == 1 .and. bytes(2) == 2, 'a list')
    end block
    call ferry_mpi_map_free(view)
    call ferry_mpi_map_contiguous(view, 1_offset)
    call ferry_mpi_set_view(file, 0_offset, view, byte_order=ferry_mpi_order_big, element_bytes=4)
    call ferry_mpi_read_all(file, back)
    call check(.not. any(back /= [1, 2, 3]), 'numbers in the other order')
    call ferry_mpi_write_at(file, 4_offset * rank, [rank + 1])
    call ferry_mpi_map_free(view)
    call ferry_mpi_close(file)
    if (rank == 0) then
      call file_bytes(folder // '/numbers', got)
      call check(size(got) == 12 * ranks, 'the size of the numbers')
      call check(.not. any(got(4::4) /= [(int(i, int8), i = 1, 3 * ranks)]), 'their last bytes')
      call check(.not. any(got(1::4) /= 0), 'their first bytes')
    end if
  end subroutine datatypes

  subroutine choices()
    type(ferry_mpi_file) :: file
    type(ferry_mpi_options) :: options
    type(ferry_mpi_statistics) :: statistics
    type(MPI_Info) :: hints
    character(:), allocatable :: text
    character(MPI_MAX_INFO_VAL) :: value
    integer, allocatable :: writers(:)
    integer(int8) :: bytes(100)
    integer(offset) :: size_bytes
    logical :: found
    bytes = 1
    options%write_method = ferry_mpi_method_aggregate
    options%writers = 1
    options%buffer_bytes = 2**20
    options%progress_thread = ferry_mpi_off
    options%quiet = .true.
    call MPI_Info_create(hints)
    call MPI_Info_set(hints, 'ferry_no_such_hint', 'x')
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/choices', options=options, hints=hints)
    call MPI_Info_free(hints)
    call ferry_mpi_write_at_all(file, 100_offset * rank, bytes)
    call ferry_mpi_sync(file)
    call ferry_mpi_get_statistics(file, statistics)
    call check(statistics%method == ferry_mpi_method_aggregate .and. statistics%writers == 1, 'the method')
    call check(statistics%buffer_bytes == 2**20, 'the buffer')
    call check(statistics%storage_bytes == 100 * ranks, 'bytes of the storage')
    call check(statistics%maximum%sync_ns > 0 .and. statistics%mean%file_io_ns > 0, 'the time split')
    call ferry_mpi_explain(file, text)
    call check_text(text, '"method":"aggregate"')
    call check(text(len(text):) == '}', 'the end of the text')
    call ferry_mpi_warnings(file, text)
    call check_text(text, 'ferry_no_such_hint')
    call ferry_mpi_writers(file, writers)
    call check(size(writers) == 1, 'one writer')
    call check(writers(1) == 0, 'rank 0')
    call ferry_mpi_get_hints(file, hints)
    call MPI_Info_get(hints, 'cb_nodes', len(value), value, found)
    call check(found .and. value == '1', 'a hint in force')
    call MPI_Info_free(hints)
    call ferry_mpi_resize(file, 10_offset)
    call ferry_mpi_size(file, size_bytes)
    call check(size_bytes == 10, 'a smaller file')
    call ferry_mpi_close(file)
  end subroutine choices

  subroutine wrong_maps()
    type(ferry_mpi_map) :: map
    integer :: errno
    call ferry_mpi_map_contiguous(map, -1_offset, errno)
    call same(errno, ferry_einval, 'nvalid')
    call ferry_mpi_map_subarray(map, [4, 4], [2, 2], [1], 8, errno)
    call same(errno, ferry_einval, 'as many numbers')
    call ferry_mpi_map_subarray(map, [4, 4], [2, 2], [0, 1], 8, errno)
    call same(errno, ferry_einval, 'nvalid')
    call ferry_mpi_map_subarray(map, [4_offset, 4_offset], [2_offset, 2_offset], [4_offset, 1_offset], 8, errno)
    call same(errno, ferry_einval, 'nvalid')
    call ferry_mpi_map_list(map, [1_offset], [1_offset, 2_offset], errno=errno)
    call same(errno, ferry_einval, 'as many numbers')
    call ferry_mpi_map_free(map, errno)
    call same(errno, ferry_einval, 'NULL')
    call ferry_mpi_map_datatype(map, MPI_DATATYPE_NULL, errno)
    call same(errno, ferry_einval, 'MPI_DATATYPE_NULL')
  end subroutine wrong_maps

  subroutine wrong_opening()
    type(ferry_mpi_file) :: file
    type(ferry_mpi_options) :: options
    logical :: exists
    integer :: errno
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/missing', status='old', errno=errno)
    call same(errno, ferry_enoent, '/missing')
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/new', action=merge('append', 'write ', is_wrong), &
                        errno=errno)
    call refused(errno, ferry_einval, 'action: ')
    if (is_wrong) options%write_method = 9
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/new', options=options, errno=errno)
    call refused(errno, ferry_einval, 'write_method')
    options%write_method = 0
    if (is_wrong) options%writers = -1
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/new', options=options, errno=errno)
    call refused(errno, ferry_einval, 'writers')
    inquire (file=folder // '/new', exist=exists)
    call check(.not. exists, 'no file is made')
    call ferry_mpi_open(file, MPI_COMM_NULL, folder // '/new', errno=errno)
    call same(errno, ferry_einval, 'MPI_COMM_NULL')
  end subroutine wrong_opening

  subroutine wrong_calls()
    type(ferry_mpi_file) :: file
    type(ferry_mpi_map) :: map, none
    type(ferry_mpi_transfer) :: transfer, two(2)
    integer(int8), asynchronous :: bytes(10, 10)
    integer(offset) :: got, size_bytes
    integer :: errno
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/new', status='new')
    call ferry_mpi_map_contiguous(map, 1_offset)
    call ferry_mpi_set_view(file, 0_offset, merge_maps(none, map), errno=errno)
    call refused(errno, ferry_einval, 'NULL')
    call ferry_mpi_set_view(file, 0_offset, map, byte_order=merge(7, 0, is_wrong), errno=errno)
    call refused(errno, ferry_einval, 'byte_order')
    bytes = 1
    call write_wrongly(file, bytes, errno)
    call refused(errno, ferry_einval, 'assumed-size')
    call read_wrongly(file, bytes, errno)
    call refused(errno, ferry_einval, 'assumed-size')
    call ferry_mpi_write_at_all(file, merge(-1_offset, 0_offset, is_wrong), bytes, errno)
    call refused(errno, ferry_einval, 'writing')
    call ferry_mpi_resize(file, merge(-1_offset, 0_offset, is_wrong), errno)
    call refused(errno, ferry_einval, 'size_bytes')
    call ferry_mpi_iwrite_at_all(file, 0_offset, bytes(merge(2, 1, is_wrong):, :), transfer, errno)
    call same(errno, 0, 'errors are those of the wait')
    call ferry_mpi_wait(transfer, errno=errno)
    call refused(errno, ferry_einval, 'not contiguous')
    call ferry_mpi_iread_all(file, bytes(merge(2, 1, is_wrong):, :), two(1))
    call ferry_mpi_iwrite_at_all(file, 0_offset, bytes, two(2))
    call ferry_mpi_wait_all(two, errno)
    call refused(errno, ferry_einval, 'not contiguous')
    call ferry_mpi_wait(transfer, errno=errno)
    call same(errno, ferry_einval, 'NULL')
    ! All of this leaves the file usable.
    call ferry_mpi_size(file, size_bytes)
    call check(size_bytes == 100, 'the second transfer is carried out')
    call ferry_mpi_read_at_all(file, 50_offset, bytes, errno=errno)
    call same(errno, ferry_enodata, 'after 50 of 100')
    call ferry_mpi_read_at_all(file, 50_offset, bytes, got, errno)
    call check(errno == 0 .and. got == 50, 'a short read that is asked for')
    call ferry_mpi_close(file)
    call ferry_mpi_close(file, errno)
    call same(errno, ferry_einval, 'NULL')
    call ferry_mpi_open(file, MPI_COMM_WORLD, folder // '/new', action='read')
    call ferry_mpi_write_all(file, bytes, errno)
    call same(errno, ferry_ebadf, 'writing')
    if (ranks > 1) then
      if (is_wrong) then
        call ferry_mpi_sync(file, errno)
      else
        call ferry_mpi_size(file, size_bytes, errno)
      end if
      call same(errno, ferry_eproto, 'do not match')
    end if
    call ferry_mpi_close(file, errno)
    call ferry_mpi_map_free(map)
  end subroutine wrong_calls

  function merge_maps(wrong, right) result(map)
    type(ferry_mpi_map), intent(in) :: wrong, right
    type(ferry_mpi_map) :: map
    map = right
    if (is_wrong) map = wrong
  end function merge_maps

  ! The last rank passes an array of unknown size.
  subroutine write_wrongly(file, memory, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(int8), intent(in) :: memory(*)
    integer, intent(out) :: errno
    if (is_wrong) then
      call ferry_mpi_write_all(file, memory, errno)
    else
      call ferry_mpi_write_all(file, memory(:10), errno)
    end if
  end subroutine write_wrongly

  subroutine read_wrongly(file, memory, errno)
    type(ferry_mpi_file), intent(in) :: file
    integer(int8), intent(inout) :: memory(*)
    integer, intent(out) :: errno
    integer(offset) :: got
    if (is_wrong) then
      call ferry_mpi_read_at_all(file, 0_offset, memory, got, errno)
    else
      call ferry_mpi_read_at_all(file, 0_offset, memory(:10), got, errno)
    end if
  end subroutine read_wrongly
end program collective
