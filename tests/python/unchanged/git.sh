# needs: git
export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
git init -q -b main made
cd made
git config user.email a@b
git config user.name a
for i in $(seq 400); do seq $i > f$i; done
git add .
git commit -qm first
git checkout -q -b side
seq 9 > f400
git commit -qam side
git checkout -q main
git rm -q f7
git mv f8 g8
git commit -qm moved
git merge -q --no-edit side
git gc -q
git fsck --strict 2>&1
git log --format='%H %s'
git status --short
cd ..
git clone -q --no-hardlinks made cloned
git -C cloned log -1 --format=%H
git -C cloned grep -c 39 | wc -l
git -C cloned archive HEAD | sha256sum
diff -r -x .git made cloned
rm -rf made/.git cloned/.git
