seq 20000 > numbers
split -l 3000 numbers part-
cat part-* | cmp - numbers
mkdir -p a/b/c
cp numbers a/b
cp -a a a2
mv a2/b/numbers a2/moved
rm -r a/b
rmdir a2/b/c
dd if=numbers of=patched bs=1000 count=3 seek=5 conv=notrunc status=none
dd if=numbers of=patched bs=700 skip=2 seek=1 conv=notrunc status=none
truncate -s 12345 patched
truncate -s +100 patched
head -c 500 /dev/zero | tee -a patched | wc -c
tac numbers | sort -n | sha256sum
sort -R numbers | sort -n -o sorted
cmp sorted numbers
install -m 751 numbers program
touch -d 2001-02-03T04:05:06Z dated
touch -a -d 2002-03-04T05:06:07Z dated
stat -c '%n %s %a %X %Y' dated
tail -c 100 numbers
tail -n +19990 numbers
od -An -tx1 -j 100 -N 32 patched
ls -R
sync patched

ln -s numbers link
ln -s nowhere dangling
mkdir linked
ln -s ../numbers linked/back
readlink link dangling linked/back
cmp link numbers
cat dangling 2>&1 || echo "status $?"
cp -a linked copied
readlink copied/back
ln patched again
stat -c '%n %h' patched again
echo more >> again
cmp patched again
rm patched
tail -c 5 again
