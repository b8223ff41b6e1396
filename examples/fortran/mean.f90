! ferry-mean FILE: the mean of a file of 64-bit numbers, read ahead. FILE may be a URI.
!
!   gfortran -std=f2018 mean.f90 $(pkg-config --cflags --libs ferry-fortran) -o ferry-mean
!
! While it adds up one piece of the file, it reads the next.
program mean
  use, intrinsic :: iso_fortran_env, only: error_unit, real64
  use ferry
  implicit none
  integer, parameter :: piece = 131072  ! numbers
  real(real64), asynchronous, save :: numbers(piece, 2)
  type(ferry_file) :: file
  type(ferry_future) :: futures(2)
  character(4096) :: path
  integer(ferry_offset_kind) :: at, bytes, count
  integer :: errno, now
  real(real64) :: total

  if (command_argument_count() /= 1) call fail('usage: ferry-mean FILE')
  call get_command_argument(1, path)
  call ferry_open(file, path, action='read', errno=errno)
  if (errno /= 0) call fail('ferry-mean: ' // ferry_error_text())
  total = 0
  count = 0
  at = 0
  now = 1
  call ferry_read_async(file, numbers(:, now), at, futures(now))
  do
    call ferry_wait(futures(now), bytes, errno)
    if (errno /= 0) call fail('ferry-mean: ' // ferry_error_text())
    at = at + bytes
    if (bytes > 0) call ferry_read_async(file, numbers(:, 3 - now), at, futures(3 - now))
    total = total + sum(numbers(:bytes / 8, now))
    count = count + bytes / 8
    if (bytes == 0) exit
    now = 3 - now
  end do
  call ferry_close(file)
  if (count == 0) call fail('ferry-mean: ' // trim(path) // ': no numbers')
  print '(g0.16)', total / real(count, real64)

contains

  subroutine fail(line)
    character(*), intent(in) :: line
    write (error_unit, '(a)') line
    stop 2, quiet=.true.
  end subroutine fail
end program mean
