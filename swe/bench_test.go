package swe

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// BenchmarkCapture: both snapshots and the patch of a repository of 10,000
// files, of which the agent changed 100 and added 2,000. peak-MB is the largest
// process of the capture in the sandbox, state-MB what it keeps there.
func BenchmarkCapture(b *testing.B) {
	w := &Workspace{Workdir: "/srv/big"}
	var s0, s1 time.Duration
	var peak, state, size float64
	for b.Loop() {
		b.StopTimer()
		sb := newBox(b)
		bash(b, sb, "", "/", `set -e; mkdir -p /srv/big; cd /srv/big; git init -q .
python3 - <<'EOF'
import os, random
random.seed(1)
for i in range(10000):
    d = f"src/d{i % 200}"
    os.makedirs(d, exist_ok=True)
    with open(f"{d}/f{i}.py", "w") as f:
        f.writelines(f"value_{j} = {random.random()}\n" for j in range(random.randrange(40, 400)))
EOF
git add -A; git -c user.name=b -c user.email=b@b commit -qm base`)
		if err := sandbox.EnsureUser(b.Context(), sb); err != nil {
			b.Fatal(err)
		}
		s := newSnap(sb, w.Workdir)
		b.StartTimer()
		start := time.Now()
		if _, err := s.base(b.Context(), ""); err != nil {
			b.Fatal(err)
		}
		s0 += time.Since(start)
		b.StopTimer()
		bash(b, sb, "", "/srv/big", `for i in $(seq 0 99); do echo changed >>src/d$i/f$i.py; done; mkdir new; for i in $(seq 2000); do echo $i >new/f$i; done`)
		b.StartTimer()
		start = time.Now()
		p, err := s.diff(b.Context())
		if err != nil || len(p.Files) != 2100 {
			b.Fatal(len(p.Files), err)
		}
		s1 += time.Since(start)
		b.StopTimer()
		size += float64(len(p.Bytes))
		peak += number(b, must(b, sb, "", "/", `python3 -c "
import resource, subprocess
subprocess.run(['sh', '-c', '. `+s.dir+`/lib.sh; lists junk 1048576; tree; difference \$(cat \$SNAP/s0) \$(cat \$SNAP/tree)'], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"`))
		state += number(b, must(b, sb, "", "/", "du -sm "+s.dir+" | cut -f1"))
		sb.Close()
		b.StartTimer()
	}
	n := float64(b.N)
	b.ReportMetric(s0.Seconds()/n, "S0-s")
	b.ReportMetric(s1.Seconds()/n, "S1+diff-s")
	b.ReportMetric(size/n/1e6, "patch-MB")
	b.ReportMetric(peak/n, "peak-MB")
	b.ReportMetric(state/n, "state-MB")
	b.ReportAllocs()
}

func number(b *testing.B, text string) float64 {
	b.Helper()
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	return f
}
