# needs: cc make ar strip
cat > m.c << 'END'
#include <stdio.h>
#include "n.h"
int main(void) {
  printf("%d\n", N + f());
  return 0;
}
END
echo 'int f(void) { return 4; }' > f.c
printf '#define N 38\nint f(void);\n' > n.h
cat > Makefile << 'END'
m: m.o f.o ; cc -o $@ $^
%.o: %.c n.h ; cc -g0 -O1 -c -o $@ $<
lib.a: f.o ; ar rcD $@ $^
END
make -s -j2 m lib.a
./m
make -q m
sleep 1.1
sed -i s/38/39/ n.h
make -s m
./m
strip m
