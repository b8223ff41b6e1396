# needs: python3
cat > use.py << 'END'
import mmap, os, tempfile

data = bytes(range(256)) * 4096
with open("f", "wb") as file:
    file.write(data)
f = os.open("f", os.O_RDONLY)
for _ in range(40):  # enough of them to be served
    assert b"".join(os.pread(f, 8192, at) for at in range(0, len(data), 8192)) == data
os.close(f)
f = os.open("f", os.O_RDWR)
with mmap.mmap(f, 0) as memory:
    memory[5000:5003] = b"map"
    memory.flush()
print(os.pread(f, 5, 4999))
os.pwrite(f, b"write", 100)
os.pwritev(f, [b"ve", b"ctor"], 200)
pieces = [bytearray(4), bytearray(5)]
print(os.pread(f, 10, 98), os.preadv(f, pieces, 199), pieces)
os.ftruncate(f, 600_000)
print(os.fstat(f).st_size, os.lseek(f, 0, os.SEEK_END), os.lseek(f, 10, os.SEEK_SET), os.read(f, 3))
print(os.lseek(f, 0, os.SEEK_CUR), os.lseek(f, 0, os.SEEK_DATA), os.lseek(f, 0, os.SEEK_HOLE))

g = os.open("g", os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
os.lseek(f, 0, os.SEEK_SET)
print(os.sendfile(g, f, 0, 100_000), os.copy_file_range(f, g, 50_000, 0, 100_000), os.fstat(g).st_size)
d = os.dup(f)
os.lseek(d, 7, os.SEEK_SET)
if os.fork() == 0:
    os.read(f, 5)
    os._exit(0)
os.wait()
print(os.lseek(d, 0, os.SEEK_CUR))
os.unlink("g")
print(len(os.pread(g, 200_000, 0)), os.fstat(g).st_nlink)
os.rename("f", "h")
os.fsync(f)
os.fdatasync(f)
print(os.path.samestat(os.stat("h"), os.fstat(f)))

for _ in range(6):
    if os.fork() == 0:
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for i in range(300):
            os.write(log, b"%8d\n" % i)
        os._exit(0)
for _ in range(6):
    os.wait()
print(sorted(open("log")) == sorted("%8d\n" % i for i in range(300) for _ in range(6)))
os.unlink("log")

with tempfile.TemporaryFile(dir=".") as file:
    file.write(data)
    file.seek(1000)
    print(file.read(4), file.tell())
for mode in ("w+b", "r+b", "ab"):
    with open("s", mode, buffering=100) as file:
        for i in range(500):
            file.write(b"%d," % i)
    print(mode, os.stat("s").st_size)
for call in (
    lambda: os.open("s", os.O_CREAT | os.O_EXCL),
    lambda: os.open("none", 0),
    lambda: os.pread(f, 1, -1),
    lambda: os.mkdir("s"),
    lambda: os.rmdir("."),
):
    try:
        call()
    except OSError as error:
        print(error)
END
python3 use.py
python3 -m zipfile -c z.zip h use.py
python3 -m zipfile -t z.zip
rm z.zip
