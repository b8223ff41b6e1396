! What the modules share: the functions of arguments.c, and texts between Fortran and C. Each
! library has its own copy, hidden.
module ferry_arguments
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_int, c_int64_t, c_null_char, c_ptr, &
    c_size_t
  implicit none
  private

  public :: buffer_memory, lasting_memory, open_flags
  public :: note_text, note_text_at, forget_text, noted_text
  public :: c_text, c_word, copy_text, short_text

  interface
    ! The memory of a buffer. 0, or a negative errno and its text.
    integer(c_int) function buffer_memory(buffer, memory, bytes) bind(c, name='ferry_fortran_buffer')
      import :: c_int, c_int64_t, c_ptr
      type(*), dimension(..), intent(in) :: buffer
      type(c_ptr), intent(out) :: memory
      integer(c_int64_t), intent(out) :: bytes
    end function buffer_memory

    ! The same for memory that is in use after the call.
    integer(c_int) function lasting_memory(buffer, memory, bytes) bind(c, name='ferry_fortran_buffer')
      import :: c_int, c_int64_t, c_ptr
      type(*), dimension(..), asynchronous, intent(in) :: buffer
      type(c_ptr), intent(out) :: memory
      integer(c_int64_t), intent(out) :: bytes
    end function lasting_memory

    ! Flags of open(2), or a negative errno and its text.
    integer(c_int) function open_flags(action, status, direct) bind(c, name='ferry_fortran_open_flags')
      import :: c_int, c_char
      character(c_char), intent(in) :: action(*), status(*)
      integer(c_int), value :: direct
    end function open_flags

    ! Sets the text of this thread's last failure; forgets it, so that the library's is the last.
    subroutine note_text(text) bind(c, name='ferry_fortran_note')
      import :: c_char
      character(c_char), intent(in) :: text(*)
    end subroutine note_text
    subroutine note_text_at(text) bind(c, name='ferry_fortran_note')
      import :: c_ptr
      type(c_ptr), value :: text
    end subroutine note_text_at
    subroutine forget_text() bind(c, name='ferry_fortran_forget')
    end subroutine forget_text
    ! That text, or null.
    type(c_ptr) function noted_text() bind(c, name='ferry_fortran_noted')
      import :: c_ptr
    end function noted_text

    integer(c_size_t) function c_length(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function c_length
  end interface

contains

  function c_text(text) result(c)
    character(*), intent(in) :: text
    character(:), allocatable :: c
    c = trim(text) // c_null_char
  end function c_text

  ! The word, or what stands for one that is absent.
  function c_word(word, absent) result(c)
    character(*), intent(in), optional :: word
    character(*), intent(in) :: absent
    character(:), allocatable :: c
    if (present(word)) then
      c = c_text(word)
    else
      c = c_text(absent)
    end if
  end function c_word

  subroutine copy_text(address, text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable, intent(out) :: text
    character(c_char), pointer :: characters(:)
    integer :: i
    call c_f_pointer(address, characters, [c_length(address)])
    allocate (character(size(characters)) :: text)
    do i = 1, len(text)
      text(i:i) = characters(i)
    end do
  end subroutine copy_text

  ! Why a read is an error where nobody asks for its bytes.
  function short_text(got, wanted) result(text)
    integer(c_int64_t), intent(in) :: got, wanted
    character(:), allocatable :: text
    character(80) :: line
    write (line, '(a,i0,a,i0,a)') 'the file ends after ', got, ' of ', wanted, ' bytes'
    text = c_text(line)
  end function short_text
end module ferry_arguments
