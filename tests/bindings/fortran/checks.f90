! Checks of test programs in Fortran, which end the program.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit, int8
  use ferry_errno, only: ferry_offset_kind
  implicit none
  private
  public :: check, check_errno, check_text, byte_at, file_bytes

contains

  subroutine check(right, what)
    logical, intent(in) :: right
    character(*), intent(in) :: what
    if (right) return
    write (error_unit, '(2a)') 'not so: ', what
    error stop 1
  end subroutine check

  subroutine check_errno(got, want, what)
    integer, intent(in) :: got, want
    character(*), intent(in) :: what
    if (got == want) return
    write (error_unit, '(2a,i0,a,i0)') what, ': errno is ', got, ', not ', want
    error stop 1
  end subroutine check_errno

  subroutine check_text(text, part)
    character(*), intent(in) :: text, part
    if (index(text, part) > 0) return
    write (error_unit, '(4a)') '"', part, '" is not in: ', text
    error stop 1
  end subroutine check_text

  ! The byte that tests write at an offset of a file.
  elemental integer(int8) function byte_at(offset)
    integer(ferry_offset_kind), intent(in) :: offset
    integer(ferry_offset_kind) :: value
    value = modulo(offset * 31 + offset / 4096, 256_ferry_offset_kind)
    byte_at = int(merge(value - 256, value, value > 127), int8)
  end function byte_at

  ! What is in a file, by Fortran's own I/O.
  subroutine file_bytes(path, bytes)
    character(*), intent(in) :: path
    integer(int8), allocatable, intent(out) :: bytes(:)
    integer :: unit, length
    open (newunit=unit, file=path, access='stream', form='unformatted', action='read', status='old')
    inquire (unit=unit, size=length)
    allocate (bytes(length))
    if (length > 0) read (unit) bytes
    close (unit)
  end subroutine file_bytes
end module checks
