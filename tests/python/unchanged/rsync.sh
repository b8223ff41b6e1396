# needs: rsync
mkdir -p from/a/b from/empty
seq 30000 > from/numbers
seq 100 > from/a/short
printf x > from/a/b/one
: > from/a/none
head -c 300000 /dev/zero > from/zeros
seq 9 >> from/zeros
ln -s ../numbers from/a/link
ln -s nowhere from/dangling
ln from/a/short from/a/twin
find from -exec touch -h -d 2020-01-02T03:04:05Z {} +
# -J: without the times of links, which some servers of NFS (Ganesha's) take and do not set. -O: nor of
# folders, which in CephFS keep a time that was set when names in them change.
copy() { rsync -rlptHJOi "$@" | sort; }
same() { rsync -rlptHJOcni --delete from/ "$1"/; diff -r --no-dereference from "$1"; }

copy from/ to
same to
copy --sparse from/ sparse
same sparse
# Blocks of a file that is there already, into a new one and in place.
for way in '' --inplace; do
  cp -a to changed
  dd if=from/zeros of=changed/numbers bs=1000 count=7 seek=40 conv=notrunc status=none
  truncate -s 5000 changed/zeros
  rm changed/a/link
  echo more > changed/a/extra
  copy --no-whole-file --checksum --delete $way from/ changed
  same changed
  rm -r changed
done
# What is missing at the end.
cp -a to shorter
truncate -s 70000 shorter/numbers
truncate -s 9 shorter/a/twin
copy --append-verify from/ shorter
rsync -rlptHJOcni from/ shorter
# Files that did not change become names of those that are there.
copy --link-dest="$PWD/to" from/ second
stat -c '%n %h' second/numbers to/numbers
copy --remove-source-files from/a/b/ to/moved
find from/a to/moved | sort
rsync -a --files-from=- from/ listed << 'END'
numbers
a/link
END
find listed | sort
rsync -r --exclude='*s' --max-size=1k from/ nowhere/ 2>&1 | sed 's/ at .*//'
rsync missing to 2>/dev/null || echo "status $?"
