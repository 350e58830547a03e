package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// figure is one line of what `make bench` prints.
type figure struct {
	what   string
	got    float64
	unit   string
	target float64
	note   string
}

// BenchmarkBootstrap measures ccmadm against bare kubeadm, in turn on machines of one run: the box may be busy, and
// only what was measured side by side can be compared. It takes its own number of rounds, not the framework's.
func BenchmarkBootstrap(b *testing.B) {
	const rounds = 3
	l := up(b, "bench", 1, 2)
	var figures []figure
	add := func(what string, got float64, unit string, target float64, note string) {
		figures = append(figures, figure{what, got, unit, target, note})
	}
	var bare, ours, after, daemon, floor []float64
	for range rounds {
		bare = append(bare, l.timed(b, "cp1", "kubeadm init --config "+kubeadmYAML+" "+ignore))
		l.wipe(b, "cp1")
		total, initialized := l.timedInit(b, "", "")
		ours, after = append(ours, total), append(after, initialized)
		l.wipe(b, "cp1")
		_, initialized = l.timedInit(b, watchKubeProxy, "--mode DaemonSet")
		daemon, floor = append(daemon, initialized), append(floor, l.kubeProxyPod(b))
		l.wipe(b, "cp1")
	}
	add("kubeadm init, bare", median(bare), "s", 0, spread(bare))
	add("ccmadm init, static pod", median(ours), "s", 0, spread(ours))
	add("  more than bare", median(ours)-median(bare), "s", 0.7, "")
	add("  node initialized after kubeadm returned", median(after), "s", 1, spread(after))
	add("ccmadm init, DaemonSet: initialized after kubeadm", median(daemon), "s", 4, spread(daemon))
	add("  kubeadm's own DaemonSet, kube-proxy: first pod", median(floor), "s", 0, spread(floor))
	add("vendor-style DaemonSet by hand, after kubeadm", l.vendorStyle(b), "s", 0, "one run")
	l.wipe(b, "cp1")

	l.must(b, "cp1", ccmadmInit)
	bareJoin, ourJoin := l.joins(b, rounds)
	add("kubeadm join, bare, until initialized", median(bareJoin), "s", 0, spread(bareJoin))
	add("ccmadm join, until initialized", median(ourJoin), "s", 0, spread(ourJoin))
	add("  more than bare", median(ourJoin)-median(bareJoin), "s", 0.5, "")
	add("bin/ccmadm", sizeOf(b, ccmadmBinary)/1e6, "MB", 40, "")
	add("ccmadm --help", median(helpTimes(b)), "ms", 50, "")
	report(b, figures)
}

// forgetServices removes what kube-proxy has told the kernel. kubeadm reset leaves it, and so the next round would begin
// with the service addresses of the last one: where kube-proxy saw the API server leave, with one that refuses.
const forgetServices = "for family in ip ip6; do nft delete table $family kube-proxy 2>/dev/null; done; true"

// wipe makes a machine bare again, without counting the time.
func (l *lab) wipe(b testing.TB, node string) {
	l.must(b, node, "ccmadm reset --force >/dev/null 2>&1; kubeadm reset -f >/dev/null 2>&1; rm -rf /etc/cni/net.d/* /var/lib/etcd/*; "+forgetServices)
}

// timed returns the seconds that a script took on the machine itself.
func (l *lab) timed(b testing.TB, node, script string) float64 {
	out := l.must(b, node, "a=$(date +%s%N); "+script+" > /tmp/timed.log 2>&1; code=$?; z=$(date +%s%N); tail -n 5 /tmp/timed.log; echo took $((z-a)); exit $code")
	return lastNumber(b, out) / 1e9
}

// stamp puts the clock before each line.
const stamp = ` 2>&1 | while IFS= read -r line; do echo "$(date +%s%N) $line"; done`

// timedInit returns how long `ccmadm init` took, and how long after the end of kubeadm's last phase the node was
// seen to be initialized. What is done beside it takes its part of the processors: nothing, where the total counts.
func (l *lab) timedInit(b testing.TB, beside, flags string) (total, after float64) {
	out := l.must(b, "cp1", beside+"date +%s%N; "+ccmadmInit+" "+flags+stamp+"; date +%s%N")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var kubeadmEnd, addressed float64
	inFinish := false
	for _, line := range lines {
		at, text, _ := strings.Cut(line, " ")
		now, err := strconv.ParseFloat(at, 64)
		if err != nil {
			continue
		}
		if strings.HasPrefix(text, "[kubeadm-finish]") {
			inFinish = true
		}
		if inFinish && strings.HasPrefix(text, "[node-agent]") { // the phase behind it
			kubeadmEnd, inFinish = now, false
		}
		if strings.Contains(text, "Addressed") && addressed == 0 {
			addressed = now
		}
	}
	if kubeadmEnd == 0 || addressed == 0 {
		b.Fatalf("the output does not show when kubeadm ended and when the node was initialized:\n%s", out)
	}
	l.kubeadmEnd = kubeadmEnd
	first, last := lastNumber(b, lines[0]), lastNumber(b, lines[len(lines)-1])
	return (last - first) / 1e9, (addressed - kubeadmEnd) / 1e9
}

// watchKubeProxy notes when the first pod of kubeadm's own DaemonSet is there: no DaemonSet of a young cluster can be
// served earlier, for the controller in kube-controller-manager is one and the same.
const watchKubeProxy = `(rm -f /tmp/proxy; until kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system get pods -l k8s-app=kube-proxy -o name 2>/dev/null | grep -q pod; do sleep 0.2; done; date +%s%N > /tmp/proxy) > /dev/null 2>&1 &
`

// kubeProxyPod returns how long after the end of kubeadm's last phase that was.
func (l *lab) kubeProxyPod(b testing.TB) float64 {
	out := l.must(b, "cp1", "for i in $(seq 100); do [ -s /tmp/proxy ] && break; sleep 0.2; done; cat /tmp/proxy")
	return (lastNumber(b, out) - l.kubeadmEnd) / 1e9
}

// vendorStyle applies our own controller manager as vendors' manifests do: through the service address, after kubeadm.
func (l *lab) vendorStyle(b testing.TB) float64 {
	l.must(b, "cp1", "ccmadm init phase kubeadm-config --config "+kubeadmYAML+" --mode Manual && kubeadm init --config /etc/ccmadm/kubeadm.yaml "+ignore)
	l.must(b, "cp1", "ccmadm init phase rbac --mode DaemonSet")
	// Whatever our addon phase would apply, but with the endpoint that pods get by default.
	return l.timed(b, "cp1", `ccmadm init phase addon --mode DaemonSet >/dev/null
kubectl --kubeconfig /etc/kubernetes/admin.conf -n kube-system set env daemonset/onprem-cloud-controller-manager KUBERNETES_SERVICE_HOST- KUBERNETES_SERVICE_PORT-
ccmadm wait --timeout 180s`)
}

// joins alternates bare kubeadm and ccmadm on two workers, each until its node is initialized.
func (l *lab) joins(b testing.TB, rounds int) (bare, ours []float64) {
	join := l.joinCommand(b)
	const watch = "; until kubectl --kubeconfig /etc/kubernetes/kubelet.conf get node $(hostname) -o jsonpath='{.spec.providerID}' 2>/dev/null | grep -q onprem; do sleep 0.05; done"
	for i := range rounds {
		first, second := "w1", "w2"
		if i%2 == 1 {
			first, second = second, first
		}
		l.must(b, first, "ccmadm join phase kubelet "+strings.TrimPrefix(strings.TrimSuffix(join, " "+ignore), "ccmadm join "))
		bare = append(bare, l.timed(b, first, "kubeadm join --config /etc/ccmadm/kubeadm.yaml "+ignore+watch))
		ours = append(ours, l.timed(b, second, join))
		for _, w := range []string{first, second} {
			l.wipe(b, w)
			l.kubectl(b, "delete node "+w)
		}
	}
	return bare, ours
}

func helpTimes(b testing.TB) []float64 {
	var times []float64
	for range 11 {
		start := time.Now()
		if err := exec.Command(ccmadmBinary, "--help").Run(); err != nil {
			b.Fatal(err)
		}
		times = append(times, float64(time.Since(start).Microseconds())/1000)
	}
	return times
}

func sizeOf(b testing.TB, path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size())
}

func report(b *testing.B, figures []figure) {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-52s %10s    %-10s %s\n", "", "measured", "target", "runs")
	for _, f := range figures {
		target := ""
		if f.target > 0 {
			target = fmt.Sprintf("<= %g %s", f.target, f.unit)
			if f.got > f.target {
				target += " MISSED"
			}
		}
		fmt.Fprintf(&table, "%-52s %7.2f %-2s    %-10s %s\n", f.what, f.got, f.unit, target, f.note)
		b.ReportMetric(f.got, strings.ReplaceAll(strings.TrimSpace(f.what), " ", "-")+"-"+f.unit)
	}
	b.Log(table.String())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func spread(values []float64) string {
	return fmt.Sprintf("%.2f to %.2f, n=%d", slices.Min(values), slices.Max(values), len(values))
}

func lastNumber(b testing.TB, text string) float64 {
	fields := strings.Fields(text)
	n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	if err != nil {
		b.Fatalf("no number at the end of %q", text)
	}
	return n
}
