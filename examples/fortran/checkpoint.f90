! ferry-checkpoint-fortran write|read FILE: the checkpoint of examples/checkpoint in Fortran, and the
! same file.
!
!   mpifort -std=f2018 checkpoint.f90 $(pkg-config --cflags --libs ferry-mpi-fortran) -o ferry-checkpoint-fortran
!   mpiexec -n 16 ferry-checkpoint-fortran write /data/field
!   mpiexec -n 9 ferry-checkpoint-fortran read /data/field
!
! The file is one array field(x, y, z) of 64-bit numbers. The ranks divide X and Y among them.
program checkpoint
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use mpi_f08
  use ferry_mpi
  implicit none
  integer, parameter :: sizes(3) = [240, 180, 20]  ! X, Y and Z
  character(4096) :: path
  character(8) :: verb
  integer :: rank, ranks, status

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  verb = ''
  if (command_argument_count() == 2) call get_command_argument(1, verb)
  if (verb /= 'write' .and. verb /= 'read') then
    if (rank == 0) write (error_unit, '(a)') 'usage: ferry-checkpoint-fortran write|read FILE'
    status = 2
  else
    call get_command_argument(2, path)
    call run(verb == 'write', status)
    call MPI_Allreduce(MPI_IN_PLACE, status, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  end if
  call MPI_Finalize()
  if (status /= 0) stop status, quiet=.true.

contains

  subroutine run(writes, status)
    logical, intent(in) :: writes
    integer, intent(out) :: status
    type(ferry_mpi_file) :: file
    type(ferry_mpi_map) :: view
    type(ferry_mpi_options) :: options
    real(real64), allocatable :: field(:, :, :), got(:, :, :)
    character(:), allocatable :: text
    integer(ferry_offset_kind) :: bytes
    integer :: grid(2), row, column, from(3), to(3), errno
    grid = 0
    call MPI_Dims_create(ranks, 2, grid)
    row = rank / grid(1)
    column = mod(rank, grid(1))
    from = [column * sizes(1) / grid(1), row * sizes(2) / grid(2), 0] + 1
    to = [(column + 1) * sizes(1) / grid(1), (row + 1) * sizes(2) / grid(2), sizes(3)]
    call fill(field, from, to)
    allocate (got, mold=field)

    ! One writer per row of the decomposition: what it gathers is contiguous in each plane.
    options%writers = grid(2)
    call ferry_mpi_map_subarray(view, sizes, shape(field), from, element_bytes=8)
    call ferry_mpi_open(file, MPI_COMM_WORLD, path, action=merge('write', 'read ', writes), &
                        status=merge('replace', 'old    ', writes), options=options, errno=errno)
    if (errno /= 0) then  ! the same on every rank
      if (rank == 0) write (error_unit, '(2a)') 'ferry-checkpoint-fortran: ', ferry_mpi_error_text()
      status = 1
      return
    end if
    call ferry_mpi_set_view(file, 0_ferry_offset_kind, view)
    status = 0
    if (writes) then
      call ferry_mpi_write_all(file, field)
      call ferry_mpi_sync(file)
    else
      call ferry_mpi_read_all(file, got, bytes)
      if (bytes /= 8 * size(got, kind=ferry_offset_kind) .or. any(got /= field)) status = 1
      if (status == 1) write (error_unit, '(a,i0,a)') 'ferry-checkpoint-fortran: rank ', rank, &
        ' has read something else'
    end if
    call ferry_mpi_explain(file, text)
    call ferry_mpi_close(file)
    call ferry_mpi_map_free(view)
    if (rank == 0) print '(a)', text
  end subroutine run

  ! The field's values in a block; all differ.
  subroutine fill(field, from, to)
    real(real64), allocatable, intent(out) :: field(:, :, :)
    integer, intent(in) :: from(3), to(3)
    integer :: x, y, z
    allocate (field(from(1):to(1), from(2):to(2), from(3):to(3)))
    do z = from(3), to(3)
      do y = from(2), to(2)
        do x = from(1), to(1)
          field(x, y, z) = ((z - 1) * sizes(2) + y - 1) * sizes(1) + x - 1
        end do
      end do
    end do
  end subroutine fill
end program checkpoint
