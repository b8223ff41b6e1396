# needs: fio
for engine in sync psync vsync pvsync2 mmap io_uring posixaio; do
  fio --name=$engine --filename=$engine --ioengine=$engine --rw=randrw --bs=4k --size=1m --iodepth=4 \
    --verify=crc32c --verify_fatal=1 --output=/dev/null
  echo "$engine $(stat -c %s $engine)"
  rm $engine
done
rm -f ./*.state
