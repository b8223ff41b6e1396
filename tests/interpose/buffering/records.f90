! Writes or checks the records that fortran_records_test.cpp knows:
!   fortran_records write|read FILE
! GFORTRAN_CONVERT_UNIT chooses the byte order.
program records
  use iso_fortran_env, only: int8, int16, int32, int64, real64
  implicit none
  character(len=512) :: what, path
  integer(int32) :: numbers(10)
  real(real64) :: field(1000)
  character(len=5) :: word
  integer(int64) :: large
  integer(int16) :: small
  complex(real64) :: pairs(3)
  integer :: i

  call get_command_argument(1, what)
  call get_command_argument(2, path)
  if (what == 'write') then
    open (10, file=trim(path), form='unformatted', access='sequential', status='replace', action='write')
    write (10) (i * 1000, i = 1, 10)
    write (10) (i * 0.5_real64, i = 1, 1000)
    write (10)
    write (10) 'hello', 1234567890123456789_int64, -77_int16
    write (10) (cmplx(i, -i, real64), i = 1, 3)
    close (10)
  else
    open (10, file=trim(path), form='unformatted', access='sequential', status='old', action='read')
    read (10) numbers
    if (any(numbers /= [(i * 1000, i = 1, 10)])) stop 1
    read (10) field
    if (any(field /= [(i * 0.5_real64, i = 1, 1000)])) stop 2
    read (10)
    read (10) word, large, small
    if (word /= 'hello' .or. large /= 1234567890123456789_int64 .or. small /= -77_int16) stop 3
    read (10) pairs
    if (any(pairs /= [(cmplx(i, -i, real64), i = 1, 3)])) stop 4
    read (10, end=20)
    stop 5
20  close (10)
  end if
end program records
