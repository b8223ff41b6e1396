! FOLDER: what the module `ferry` writes is in the file, byte for byte, and it reads it back.
program transfers
  use, intrinsic :: iso_fortran_env, only: int8, real64
  use ferry
  use checks
  implicit none
  integer, parameter :: offset = ferry_offset_kind
  character(:), allocatable :: folder
  integer :: length

  call get_command_argument(1, length=length)
  allocate (character(length) :: folder)
  call get_command_argument(1, folder)
  call check(ferry_error_text() == '', 'no error yet')
  call check(index(ferry_version(), '.') > 0, 'a version')
  call whole_arrays()
  call sections()
  call other_types()
  call futures()
  call paths()

contains

  function bytes_from(begin, count) result(bytes)
    integer(offset), intent(in) :: begin
    integer, intent(in) :: count
    integer(int8) :: bytes(count)
    integer :: i
    bytes = [(byte_at(begin + i), i = 0, count - 1)]
  end function bytes_from

  subroutine whole_arrays()
    type(ferry_file) :: file
    real(real64) :: field(30, 20), back(30, 20)
    integer(int8) :: bytes(10000)
    integer(int8), allocatable :: got(:)
    integer(offset) :: size_bytes, read_bytes
    integer :: unit
    call random_number(field)
    call ferry_open(file, folder // '/field   ', status='new')  ! without the blanks
    call ferry_write(file, field, 100_offset)
    call ferry_sync(file)
    back = 0
    call ferry_read(file, back, 100_offset)
    call check(all(back == field), 'the field')
    call ferry_size(file, size_bytes)
    call check(size_bytes == 100 + 8 * size(field), 'the size')
    call ferry_close(file)
    open (newunit=unit, file=folder // '/field', access='stream', form='unformatted', action='read')
    read (unit, pos=101) back
    close (unit)
    call check(all(back == field), 'the field by another reader')

    bytes = bytes_from(0_offset, size(bytes))
    call ferry_open(file, folder // '/field', action='write', status='replace')
    call ferry_write(file, bytes, 0_offset)
    call ferry_close(file)
    call file_bytes(folder // '/field', got)
    call check(size(got) == size(bytes) .and. all(got == bytes), 'the bytes')
    call ferry_open(file, folder // '/field', action='read')
    block
      integer(int8) :: longer(12000)
      longer = 7
      call ferry_read(file, longer, 4000_offset, read_bytes)
      call check(read_bytes == 6000, 'a read at the end')
      call check(all(longer(:6000) == bytes(4001:)) .and. all(longer(6001:) == 7), 'and its bytes')
      call ferry_read(file, longer, 20000_offset, read_bytes=read_bytes)
      call check(read_bytes == 0, 'a read behind the end')
    end block
    call ferry_close(file)
  end subroutine whole_arrays

  ! The compiler packs and unpacks what is not contiguous.
  subroutine sections()
    type(ferry_file) :: file
    integer(int8), target :: grid(60, 50)
    integer(int8), pointer :: every_other(:, :)
    integer(int8) :: back(60, 50)
    integer(int8), allocatable :: got(:)
    grid = reshape(bytes_from(0_offset, size(grid)), shape(grid))
    call ferry_open(file, folder // '/sections', status='replace')
    call ferry_write(file, grid(11:20, :), 0_offset)
    call ferry_write(file, grid(:, 50:1:-1), 500_offset)
    every_other => grid(::2, ::5)
    call ferry_write(file, every_other, 3500_offset)
    call ferry_write(file, grid(:, 7), 3800_offset)
    call file_bytes(folder // '/sections', got)
    call check(size(got) == 3860, 'the size of sections')
    call check(all(got(:500) == reshape(grid(11:20, :), [500])), 'rows')
    call check(all(got(501:3500) == reshape(grid(:, 50:1:-1), [3000])), 'backwards')
    call check(all(got(3501:3800) == reshape(grid(::2, ::5), [300])), 'a pointer with strides')
    call check(all(got(3801:) == grid(:, 7)), 'a column')
    back = 0
    call ferry_read(file, back(11:20, :), 0_offset)
    call check(all(back(11:20, :) == grid(11:20, :)), 'rows, read')
    call check(all(back(:10, :) == 0) .and. all(back(21:, :) == 0), 'the others stay')
    call ferry_close(file)
  end subroutine sections

  subroutine other_types()
    type :: point
      integer :: number
      real(real64) :: place(3)
    end type point
    type(ferry_file) :: file
    type(point) :: points(5), points_back(5)
    complex :: z(2, 2), z_back(2, 2)
    logical :: flags(3), flags_back(3)
    character(5) :: names(4), names_back(4), text
    real(real64) :: one, one_back
    integer, allocatable :: none(:)
    integer(offset) :: at, read_bytes
    integer :: i
    points = [(point(i, [real(real64) :: i, 2 * i, 3 * i]), i = 1, 5)]
    z = reshape([(cmplx(i, -i), i = 1, 4)], [2, 2])
    flags = [.true., .false., .true.]
    names = ['one  ', 'two  ', 'three', 'four ']
    one = 1.25_real64
    call ferry_open(file, folder // '/types', status='replace')
    call ferry_write(file, points, 0_offset)
    call ferry_write(file, z, 1000_offset)
    call ferry_write(file, flags, 2000_offset)
    call ferry_write(file, names, 3000_offset)
    call ferry_write(file, one, 4000_offset)
    call ferry_write(file, [3, 2, 1], 5000_offset)
    call ferry_write(file, points%number, 6000_offset)
    allocate (none(0))
    call ferry_write(file, none, 9000_offset)
    call ferry_write(file, [real ::], 9000_offset)  ! these two have no address
    call ferry_write(file, z(1:0, :), 9000_offset)
    call ferry_size(file, at)
    call check(at == 6020, 'an array of no size')
    call ferry_read(file, points_back, 0_offset)
    call ferry_read(file, z_back, 1000_offset)
    call ferry_read(file, flags_back, 2000_offset)
    call ferry_read(file, names_back, 3000_offset)
    call ferry_read(file, one_back, 4000_offset)
    do i = 1, 5
      call check(points_back(i)%number == i .and. all(points_back(i)%place == points(i)%place), 'points')
    end do
    call check(all(z_back == z), 'complex numbers')
    call check(all(flags_back .eqv. flags), 'logical values')
    call check(all(names_back == names), 'names')
    call check(one_back == one, 'a scalar')
    points%number = 0
    call ferry_read(file, points%number, 6000_offset)
    call check(all(points%number == [1, 2, 3, 4, 5]), 'a component')

    call ferry_write_text(file, 'a line of text', 7000_offset)
    call ferry_write_text(file, trim(names(1)) // '!', 8000_offset)
    call ferry_read_text(file, text, 7002_offset)
    call check(text == 'line ', 'a text')
    text = '-----'
    call ferry_read_text(file, text, 8000_offset, read_bytes)
    call check(text == 'one!-' .and. read_bytes == 4, 'a text at the end')
    call ferry_close(file)
  end subroutine other_types

  subroutine futures()
    integer, parameter :: pieces = 6, piece_bytes = 50000
    type(ferry_file) :: file
    type(ferry_future) :: parts(pieces), one
    integer(int8), asynchronous, save :: memory(piece_bytes, pieces)
    integer(int8), asynchronous, save :: back(piece_bytes, pieces)
    integer(int8), allocatable :: got(:)
    integer(offset) :: bytes(pieces), moved
    logical :: is_ready, seen(pieces)
    integer :: i, which
    call ferry_open(file, folder // '/futures', status='replace')
    do i = 1, pieces
      memory(:, i) = bytes_from(int(i - 1, offset) * piece_bytes, piece_bytes)
      call ferry_write_async(file, memory(:, i), int(i - 1, offset) * piece_bytes, parts(i))
    end do
    call ferry_wait_all(parts, bytes)
    call check(all(bytes == piece_bytes), 'all are written')
    call file_bytes(folder // '/futures', got)
    call check(size(got) == size(memory) .and. all(got == reshape(memory, [size(memory)])), 'their bytes')
    call ferry_test(parts(1), is_ready)
    call check(is_ready, 'a future that is over')
    call ferry_wait_all(parts)
    call ferry_wait_any(parts, which)
    call check(which == 0, 'none to wait for')

    back = 0
    do i = 1, pieces
      call ferry_read_async(file, back(:, i), int(i - 1, offset) * piece_bytes, parts(i))
    end do
    seen = .false.
    do i = 1, pieces
      call ferry_wait_any(parts, which, moved)
      call check(which > 0 .and. moved == piece_bytes, 'one of them')
      call check(.not. seen(which), 'each once')
      seen(which) = .true.
    end do
    call check(all(back == memory), 'they are read')

    call ferry_read_async(file, back(:, 1), int(pieces, offset) * piece_bytes - 10, one)
    do
      call ferry_test(one, is_ready)
      if (is_ready) exit
    end do
    call ferry_wait(one, moved)
    call check(moved == 10, 'a read at the end')
    call ferry_close(file)
  end subroutine futures

  subroutine paths()
    type(ferry_file) :: from, to
    type(ferry_path_status) :: status
    type(ferry_layout) :: layout
    character(:), allocatable :: text
    integer(int8), allocatable :: got(:)
    integer(offset) :: copied
    integer :: errno
    call ferry_open(from, folder // '/field', action='read', status='old')
    call ferry_open(to, folder // '/copy', mode=int(o'600'))
    call ferry_copy(from, 1000_offset, to, 0_offset, 20000_offset, copied)
    call check(copied == 9000, 'a copy up to the end')
    call ferry_truncate(to, 8000_offset)
    call ferry_close(from)
    call ferry_close(to)
    call file_bytes(folder // '/copy', got)
    call check(size(got) == 8000 .and. all(got == bytes_from(1000_offset, 8000)), 'the copy')
    call ferry_stat(folder // '/copy', status)
    call check(status%size_bytes == 8000 .and. .not. status%is_directory, 'its status')
    call check(iand(status%mode, int(o'777')) == int(o'600') .and. status%modified_ns > 0, 'its mode')
    call ferry_stat(folder, status)
    call check(status%is_directory, 'a directory')
    call ferry_rename(folder // '/copy', folder // '/renamed')
    call ferry_unlink(folder // '/renamed')
    call ferry_stat(folder // '/renamed', status, errno)
    call check_errno(errno, ferry_enoent, 'a file that was removed')
    call ferry_explain(folder // '/field', text)
    call check(len(text) > 20, 'an explanation')
    call ferry_layout_get(folder, layout, errno)
    call check(errno == 0 .or. errno == ferry_eopnotsupp, 'a layout, or none')
    ! On the mock of PVFS2, which stripes.
    layout%stripe_bytes = 65536
    layout%stripe_count = 2
    call ferry_layout_set('pvfs2:/mock/striped', layout)
    layout = ferry_layout()
    call ferry_layout_get('pvfs2:/mock/striped', layout)
    call check(layout%stripe_bytes == 65536 .and. layout%stripe_count == 2, 'a layout as granted')
  end subroutine paths
end program transfers
