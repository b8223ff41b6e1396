# needs: gfortran
cat > p.f90 << 'END'
program p
  integer :: i, x(100), n
  open (10, file='seq', form='unformatted')
  do i = 1, 50
    x = i
    write (10) x
  end do
  rewind (10)
  do i = 1, 25
    read (10) x
  end do
  print *, x(1)
  backspace (10)
  read (10) x
  print *, x(2)
  close (10)
  open (11, file='dir', access='direct', recl=400)
  do i = 50, 1, -1
    x = i
    write (11, rec=i) x
  end do
  read (11, rec=33) x
  print *, x(3)
  close (11)
  open (12, file='str', access='stream', form='formatted')
  write (12, '(i0)') (i, i = 1, 3000)
  close (12)
  open (12, file='str', position='append')
  write (12, *) 'end'
  close (12)
  inquire (file='str', size=n)
  print *, n
end program
END
gfortran p.f90 -o p
./p
rm p
