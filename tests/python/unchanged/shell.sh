# needs: bash
bash -c 'exec 3<> both; echo one >&3; echo two >&3; exec 4< both; read -r x <&4; echo $x; cat <&4'
for i in 1 2 3; do echo $i; done > loop
(echo a; echo b >&2; exec echo c) > out 2> err
cat out err

# A child moves its parent's place in a file.
exec 5< loop
read -r x <&5
(read -r y <&5; echo "child $y")
read -r z <&5
echo "parent $x $z"
exec 5<&-

# Eight append at once.
for i in 1 2 3 4 5 6 7 8; do
  (for j in $(seq 200); do echo "$i $j" >> log; done) &
done
wait
sort log | sha256sum
rm log

set -C
echo x > once
(echo y > once) 2> /dev/null || echo 'it is there'
printf '#!/bin/sh\necho run "$@"\nexit 3\n' > script
chmod +x script
./script a 'b c' || echo "status $?"
cat << END > here
text $((6 * 7))
END
sleep 9 > /dev/null 2>&1 &
kill $!
wait $! 2> /dev/null || echo "status $?"
yes | head -c 300000 > yes
(trap 'echo end > ended' EXIT)
