# needs: awk diff find grep perl sed
for i in $(seq 300); do echo "line $i of $((i % 7))" >> text; done
cp text old
sed -i 's/of 3/of THREE/' text
sed -i -n '2,$p' text
grep -c THREE text
grep -rn 'line 29[0-9]' . | sort
diff old text | sha256sum
perl -i -pe 's/(\d+)$/$1 * 2/e' text
awk '{ n += $2 } END { print n > "sum" }' text
cat sum
perl -e 'open F, "+<", "text"; seek F, 100, 0; print F "HERE"; seek F, -5, 2; truncate F, tell F'

# Four count in one file, under a lock.
cat > count.pl << 'END'
use Fcntl ":flock";
for (1 .. 4) {
  next if fork;
  for (1 .. 100) {
    open F, "+<", "count";
    flock F, LOCK_EX;
    $n = <F>;
    seek F, 0, 0;
    print F $n + 1;
    close F;
  }
  exit;
}
1 while wait > 0;
END
echo 0 > count
perl count.pl
cat count
find . -type f -size +1k -newermt 2000-01-01 -printf '%P %s\n' | sort
