# needs: python3
cat > use.py << 'END'
import sqlite3, sys

data = sqlite3.connect(sys.argv[1], timeout=60)
for i in range(40):
    with data:
        data.execute("insert into t values (?, ?)", (int(sys.argv[2]), i))
END
cat > make.py << 'END'
import sqlite3, sys

data = sqlite3.connect(sys.argv[1])
print(data.execute("pragma journal_mode=" + sys.argv[2]).fetchone())
data.execute("create table t (a, b)")
END
cat > check.py << 'END'
import sqlite3, sys

data = sqlite3.connect(sys.argv[1])
print(data.execute("pragma integrity_check").fetchone())
print(data.execute("select count(*), sum(b) from t").fetchone())
data.execute("vacuum")
END
for mode in delete wal; do
  python3 make.py $mode.db $mode
  python3 use.py $mode.db 1 &
  python3 use.py $mode.db 2
  wait
  python3 check.py $mode.db
  rm $mode.db
done
