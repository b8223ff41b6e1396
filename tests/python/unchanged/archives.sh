# needs: tar gzip xz
mkdir -p tree/sub
for i in $(seq 60); do seq $((i * 50)) > tree/f$i; done
cp tree/f1* tree/sub
chmod 640 tree/f2
find tree -exec touch -d 2020-01-01T00:00:00Z {} +
tar cf a.tar --sort=name --owner=0 --group=0 tree
sha256sum < a.tar
tar rf a.tar -C tree f3
tar tf a.tar | tail -3
mkdir out
tar xf a.tar -C out
rm out/f3
diff -r tree out/tree
gzip -kn a.tar
xz -k a.tar
gunzip -c a.tar.gz | cmp - a.tar
tar xJf a.tar.xz -C out --overwrite
diff -r tree out/tree
tar cf - tree | tar df -
