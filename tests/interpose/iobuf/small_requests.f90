! A Fortran program with many small records, of all kinds of files: small_requests_f write|read FILE
program small_requests
  use iso_fortran_env, only: int64, real64
  implicit none
  character(len=512) :: what, path
  integer :: i, found, lines
  real(real64) :: x, total
  character(len=40) :: line

  call get_command_argument(1, what)
  call get_command_argument(2, path)
  if (what == 'write') then
    open (10, file=trim(path)//'.seq', form='unformatted', status='replace')
    do i = 1, 5000
      write (10) i, i * 0.25_real64
    end do
    close (10)
    open (11, file=trim(path)//'.dir', form='unformatted', access='direct', recl=8, status='replace')
    do i = 1, 5000
      write (11, rec=mod(i * 7919, 5000) + 1) i * 1.5_real64
    end do
    close (11)
    open (12, file=trim(path)//'.txt', form='formatted', status='replace')
    do i = 1, 5000
      write (12, '(a,i8)') 'line', i
    end do
    rewind (12)
    read (12, '(a)') line
    print *, trim(line)
    close (12)
  else
    total = 0
    open (10, file=trim(path)//'.seq', form='unformatted', status='old', action='read')
    do i = 1, 5000
      read (10) found, x
      total = total + found + x
    end do
    backspace (10)
    read (10) found, x
    close (10)
    open (11, file=trim(path)//'.dir', form='unformatted', access='direct', recl=8, status='old')
    do i = 5000, 1, -3
      read (11, rec=i) x
      total = total + x
    end do
    close (11)
    lines = 0
    open (12, file=trim(path)//'.txt', form='formatted', status='old', action='read')
    do
      read (12, '(a)', end=20) line
      lines = lines + 1
    end do
20  close (12)
    print *, total, found, lines
  end if
end program small_requests
