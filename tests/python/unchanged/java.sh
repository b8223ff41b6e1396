# needs: javac java
cat > P.java << 'END'
import java.nio.*;
import java.nio.channels.*;
import java.nio.file.*;

public class P {
  public static void main(String[] words) throws Exception {
    Path f = Path.of("f");
    var options = new OpenOption[] {
      StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE};
    try (FileChannel file = FileChannel.open(f, options)) {
      for (int i = 0; i < 100; i++)
        file.write(ByteBuffer.wrap(("line " + i + "\n").getBytes()), i * 10L);
      MappedByteBuffer memory = file.map(FileChannel.MapMode.READ_WRITE, 0, 100);
      memory.put(3, (byte) '!');
      memory.force();
      ByteBuffer begin = ByteBuffer.allocate(10);
      for (int i = 0; i < 50; i++) {
        begin.clear();
        file.read(begin, 0);
      }
      System.out.println(new String(begin.array()) + file.size());
      file.truncate(500);
      System.out.println(file.tryLock() != null);
    }
    Files.copy(f, Path.of("g"));
    Files.move(Path.of("g"), Path.of("h"));
    System.out.println(Files.readAllLines(Path.of("h")).size());
  }
}
END
javac P.java
java P
rm P.class
