! FOLDER [stop]: what programs get wrong is an errno and a line of text. With `stop`, and without the
! argument `errno`, it ends the program.
program wrong_input
  use, intrinsic :: iso_fortran_env, only: int8
  use ferry
  use checks
  implicit none
  integer, parameter :: offset = ferry_offset_kind
  character(:), allocatable :: folder
  type(ferry_file) :: file, none
  integer :: length

  call get_command_argument(1, length=length)
  allocate (character(length) :: folder)
  call get_command_argument(1, folder)
  call opening()
  if (command_argument_count() == 2) call ferry_open(file, folder // '/missing', status='old')
  call ferry_open(file, folder // '/file', status='replace')
  call buffers()
  call ends()
  call futures()
  call paths()

contains

  subroutine refused(want, part, errno)
    integer, intent(in) :: want, errno
    character(*), intent(in) :: part
    call check_errno(errno, want, part)
    call check_text(ferry_error_text(), part)
  end subroutine refused

  subroutine opening()
    integer :: errno
    call ferry_open(file, folder // '/missing', status='old', errno=errno)
    call refused(ferry_enoent, '/missing', errno)
    call ferry_open(file, folder // '/missing', action='read', errno=errno)
    call refused(ferry_enoent, '/missing', errno)
    call ferry_open(file, folder, action='read', errno=errno)
    call refused(ferry_eisdir, folder, errno)
    call ferry_open(file, folder // '/file', action='append', errno=errno)
    call refused(ferry_einval, 'action: ', errno)
    call ferry_open(file, folder // '/file', status='scratch', errno=errno)
    call refused(ferry_einval, 'status: ', errno)
    call ferry_open(file, folder // '/file', action='READ', status='Replace', errno=errno)
    call refused(ferry_einval, 'only read', errno)
    call ferry_open(file, 'nfs://', errno=errno)
    call refused(ferry_einval, 'nfs://', errno)
    call ferry_open(file, folder // '/file', status='new', errno=errno)
    call check_errno(errno, 0, 'a new file')
    call ferry_close(file)
    call ferry_open(file, folder // '/file', status='new', errno=errno)
    call refused(ferry_eexist, '/file', errno)
    call ferry_close(file, errno)
    call refused(ferry_einval, 'NULL', errno)
  end subroutine opening

  subroutine buffers()
    integer, target :: grid(10, 10)
    integer, asynchronous :: lasting(10, 10)
    integer, allocatable, save :: absent(:)
    integer, pointer, asynchronous, save :: nowhere(:) => null()
    character(5) :: text, texts(2)
    integer(int8) :: byte
    type(ferry_future) :: future
    integer :: errno
    grid = 1
    call ferry_write(file, absent, 0_offset, errno)
    call refused(ferry_einval, 'not allocated', errno)
    call ferry_read_async(file, nowhere, 0_offset, future, errno)
    call refused(ferry_einval, 'not associated', errno)
    call assumed_size(grid)
    text = 'hello'
    byte = 1
    call ferry_write(file, text, 0_offset, errno)
    call refused(ferry_einval, 'character', errno)
    call ferry_write(file, 'hello', 0_offset, errno)
    call refused(ferry_einval, 'character', errno)
    call ferry_write(file, trim(text), 0_offset, errno)
    call refused(ferry_einval, 'character', errno)
    texts = text
    call ferry_write(file, texts(2)(2:3), 0_offset, errno)
    call refused(ferry_einval, 'character', errno)
    call ferry_write(file, byte, 0_offset, errno)
    call refused(ferry_einval, 'one byte', errno)
    lasting = 1
    call ferry_write_async(file, lasting(2:5, :), 0_offset, future, errno)
    call refused(ferry_einval, 'not contiguous', errno)
    call ferry_read_async(file, lasting(:, 10:1:-1), 0_offset, future, errno)
    call refused(ferry_einval, 'not contiguous', errno)
    call ferry_wait(future, errno=errno)
    call refused(ferry_einval, 'NULL', errno)
    call ferry_write(file, grid, -1_offset, errno)
    call refused(ferry_einval, 'beyond what a file can have', errno)
    call ferry_write(file, grid, huge(0_offset), errno)
    call refused(ferry_einval, 'beyond what a file can have', errno)
    call ferry_write(none, grid, 0_offset, errno)
    call refused(ferry_einval, 'NULL', errno)
    ! One column is contiguous, and so is one row of one element.
    call ferry_write_async(file, lasting(:, 3), 0_offset, future)
    call ferry_wait(future)
    call ferry_write_async(file, lasting(3:3, 2:2), 0_offset, future)
    call ferry_wait(future)
    call ferry_truncate(file, 0_offset)
  end subroutine buffers

  subroutine assumed_size(memory)
    integer, intent(inout) :: memory(*)
    integer :: errno
    call ferry_write(file, memory, 0_offset, errno)
    call refused(ferry_einval, 'assumed-size', errno)
    call ferry_write(file, memory(:25), 0_offset, errno)
    call check_errno(errno, 0, 'a section of it')
  end subroutine assumed_size

  ! A file that ends too soon is an error only where nobody asks for the bytes.
  subroutine ends()
    integer(int8) :: memory(100)
    integer(offset) :: bytes
    character(10) :: text
    type(ferry_file) :: reader
    integer :: errno
    memory = 1
    call ferry_write(file, memory(:60), 0_offset)
    call ferry_read(file, memory, 0_offset, errno=errno)
    call refused(ferry_enodata, 'the file ends after 60 of 100 bytes', errno)
    call ferry_read(file, memory, 0_offset, bytes, errno)
    call check(errno == 0 .and. bytes == 60, 'a short read that is asked for')
    call ferry_read_text(file, text, 55_offset, errno=errno)
    call refused(ferry_enodata, 'after 5 of 10', errno)
    call ferry_open(reader, folder // '/file', action='read')
    call ferry_write(reader, memory, 0_offset, errno)
    call refused(ferry_ebadf, '/file', errno)
    call ferry_truncate(reader, 1_offset, errno)
    call check(errno /= 0, 'a file that is only read')
    call ferry_close(reader)
    call ferry_truncate(file, -1_offset, errno)
    call refused(ferry_einval, 'size_bytes', errno)
    call ferry_copy(file, 0_offset, file, 10_offset, 20_offset, bytes, errno)
    call refused(ferry_einval, 'overlap', errno)
  end subroutine ends

  subroutine futures()
    integer(int8), asynchronous :: memory(100, 3)
    type(ferry_future) :: some(3)
    integer(offset) :: bytes(3), few(2)
    type(ferry_file) :: reader
    integer :: errno, which
    memory = 1
    call ferry_open(reader, folder // '/file', action='read')
    call ferry_read_async(reader, memory(:50, 1), 0_offset, some(1))
    call ferry_write_async(reader, memory(:, 2), 0_offset, some(2))  ! not open for this
    call ferry_read_async(reader, memory(:, 3), 0_offset, some(3))
    call ferry_wait_all(some, few, errno)
    call refused(ferry_einval, 'an element for each', errno)
    call ferry_wait_all(some, bytes, errno)
    call refused(ferry_ebadf, '/file', errno)
    call check(all(bytes == [50, 0, 60]), 'the others are transferred')
    call ferry_read_async(reader, memory(:, 3), 0_offset, some(3))
    call ferry_wait_all(some, errno=errno)
    call refused(ferry_enodata, 'after 60 of 100', errno)
    call ferry_read_async(reader, memory(:, 3), 0_offset, some(3))
    call ferry_wait_any(some, which, errno=errno)
    call check(which == 3, 'the only one')
    call refused(ferry_enodata, 'after 60 of 100', errno)
    call ferry_wait(some(3), errno=errno)
    call refused(ferry_einval, 'NULL', errno)
    call ferry_cancel(some(1), errno)
    call refused(ferry_einval, 'NULL', errno)
    call ferry_read_async(reader, memory(:, 1), 0_offset, some(1))
    call ferry_cancel(some(1))
    call ferry_wait(some(1), bytes(1), errno)
    call check(errno == ferry_ecanceled .or. (errno == 0 .and. bytes(1) == 60), 'cancelled, or over')
    call ferry_close(reader)
  end subroutine futures

  subroutine paths()
    type(ferry_layout) :: layout
    character(:), allocatable :: text
    integer :: errno
    call ferry_unlink(folder // '/missing', errno)
    call refused(ferry_enoent, '/missing', errno)
    call ferry_rename(folder // '/missing', folder // '/other', errno)
    call refused(ferry_enoent, '/missing', errno)
    call ferry_layout_get('pvfs2:/mock/missing', layout, errno)
    call refused(ferry_enoent, 'missing', errno)
    layout%pool = 'pool'
    call ferry_layout_set('pvfs2:/mock/pooled', layout, errno)
    call refused(ferry_einval, 'PVFS2', errno)
    call ferry_explain('nfs://', text, errno)
    call check(errno /= 0 .or. len(text) > 0, 'a path that is none')
  end subroutine paths
end program wrong_input
