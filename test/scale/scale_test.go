package scale

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	rounds  = 3
	samples = 200

	// far is the factor by which a target must be missed for the benchmark to fail: a busy box is not a defect.
	far = 2
)

// figure is a line of the table. Of a rate and a ratio more is better, of the rest less.
type figure struct {
	what   string
	got    float64
	unit   string
	target float64
	more   bool
	note   string
	strict bool // a target that is missed at all fails
}

// suite is one run.
type suite struct {
	*testing.B
	ctx     context.Context
	admin   kubernetes.Interface
	figures []figure
}

// BenchmarkScale takes its own number of rounds, not the framework's.
func BenchmarkScale(b *testing.B) {
	config, err := plane.User(user)
	if err != nil {
		b.Fatal(err)
	}
	s := &suite{B: b, ctx: b.Context(), admin: unlimited(b, plane.Config)}
	s.grant()
	s.burst(unlimited(b, config))
	s.slow()
	s.single("", "")
	s.single("listed, with labels and taints", inventory(1, ", labels: {example.com/disk: nvme}, taints: [{key: "+
		"example.com/gpu, effect: NoSchedule}]"))
	s.large()
	s.report()
}

// grant makes user an administrator: permissions are measured elsewhere.
func (s *suite) grant() {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scale"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	if _, err := s.admin.RbacV1().ClusterRoleBindings().Create(s.ctx, binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *suite) add(f figure) { s.figures = append(s.figures, f) }

// burst lets Nodes appear all at once, in turn for the bare client and for the cloud-controller-manager.
func (s *suite) burst(bare kubernetes.Interface) {
	var floor, silent, adopted, listed, complete []float64
	var perNode, late float64
	events := math.Inf(1)
	for round := range rounds {
		floor = append(floor, s.theirs(fmt.Sprintf("bare%d", round), bare, true))
		silent = append(silent, s.theirs(fmt.Sprintf("silent%d", round), bare, false))
		rate, _, _ := s.ours(fmt.Sprintf("adopted%d", round), *crowd, "")
		adopted = append(adopted, rate)
		rate, last, r := s.ours(fmt.Sprintf("listed%d", round), *crowd, inventory(*crowd, ""))
		listed = append(listed, rate)
		perNode, late = float64(r.writes())/float64(*crowd), r.last["create events"].Sub(last).Seconds()
		events = min(events, float64(r.by["create events"]))
		complete = append(complete, float64(*crowd)/(float64(*crowd)/rate+max(0, late)))
	}
	at := fmt.Sprintf("%d Nodes at once: ", *crowd)
	s.add(figure{what: at + "bare client, 3 requests each", got: median(floor), unit: "Nodes/s", note: spread(floor)})
	s.add(figure{what: "  bare client, without the Event", got: median(silent), unit: "Nodes/s", note: spread(silent)})
	s.add(figure{what: "  ccm, adopted", got: median(adopted), unit: "Nodes/s", note: spread(adopted)})
	s.add(figure{what: "  ccm, listed machines", got: median(listed), unit: "Nodes/s", note: spread(listed)})
	s.add(figure{what: "  ratio, adopted", got: median(adopted) / median(floor), target: 0.9, more: true})
	s.add(figure{what: "  ratio, listed machines", got: median(listed) / median(floor), target: 0.9, more: true})
	s.add(figure{what: "  ratio, listed machines, to the bare client without the " +
		"Event", got: median(listed) / median(silent)})
	s.add(figure{what: "  writes a Node, listed machines", got: perNode, target: 3.1})
	s.add(figure{
		what: "  of them Events, the fewest of any run", got: events, target: float64(*crowd), more: true,
		strict: true,
	})
	s.add(figure{what: "  ratio, listed machines, until the last Event is " +
		"written", got: median(complete) / median(floor), target: 0.9, more: true})
	s.add(figure{what: "  the last Event comes after the last Node by", got: late, unit: "s"})
	_, _, r := s.ours("tainted", *crowd/10, inventory(*crowd/10, ", labels: {example.com/disk: nvme}, taints: [{key: "+
		"example.com/gpu, effect: NoSchedule}]"))
	s.add(figure{
		what: "  writes a Node, with labels and taints", got: float64(r.writes()) / float64(*crowd/10),
		target: 4.1,
	})
}

// theirs lets the bare client initialize n Nodes, and returns its rate.
func (s *suite) theirs(prefix string, bare kubernetes.Interface, withEvent bool) float64 {
	nodes := register(s.ctx, s.B, s.admin, prefix, *crowd)
	p := watchNodes(s.ctx, s.B, s.admin, *crowd)
	parallel(s.B, *crowd, func(i int) error { return initialize(s.ctx, bare, nodes[i], withEvent) })
	p.wait(s.B)
	remove(s.ctx, s.B, s.admin)
	return p.rate()
}

// ours lets the process find n Nodes, and returns its rate, when the last of them was initialized, and what it did
// until it had nothing left to write.
func (s *suite) ours(
	prefix string, n int, inventory string, args ...string,
) (rate float64, last time.Time, r requests) {
	register(s.ctx, s.B, s.admin, prefix, n)
	p, from := watchNodes(s.ctx, s.B, s.admin, n), mark(s.B)
	ccm := start(s.B, inventory, args...)
	p.wait(s.B)
	s.quiet(from)
	s.Logf("%s: %d Nodes, %.1f s of processor time, %v", prefix, n, ccm.cpu(), since(s.B, from).by)
	ccm.stop()
	r = since(s.B, from)
	remove(s.ctx, s.B, s.admin)
	return p.rate(), p.at[n-1], r
}

// quiet waits until nothing was written for two seconds.
func (s *suite) quiet(from int64) {
	for before := -1; ; {
		now := since(s.B, from).writes()
		if now == before {
			return
		}
		before = now
		select {
		case <-s.ctx.Done():
			s.Fatal(s.ctx.Err())
		case <-time.After(2 * time.Second):
		}
	}
}

// slow is what upstream's defaults make of fewer Nodes.
func (s *suite) slow() {
	rate, _, _ := s.ours("default", *crowd/10, "", "--kube-api-qps=20", "--kube-api-burst=30", "--concurrent-node-syncs=1")
	s.add(figure{what: fmt.Sprintf("  upstream's defaults, %d Nodes", *crowd/10), got: rate, unit: "Nodes/s"})
}

// single measures one Node after the other, from its creation until a watch shows it initialized.
func (s *suite) single(what, inventory string) {
	ccm := start(s.B, inventory)
	defer ccm.stop()
	var times []float64
	for i := range samples + 1 {
		p := watchNodes(s.ctx, s.B, s.admin, 1)
		before := time.Now()
		node, err := s.admin.CoreV1().Nodes().Create(s.ctx, kubelet(fmt.Sprintf("single-%d", i), 0), metav1.CreateOptions{})
		if err != nil {
			s.Fatal(err)
		}
		p.wait(s.B)
		if i > 0 { // the first one waits for the process
			times = append(times, float64(p.at[0].Sub(before).Microseconds())/1000)
		}
		if err := s.admin.CoreV1().Nodes().Delete(s.ctx, node.Name, metav1.DeleteOptions{}); err != nil {
			s.Fatal(err)
		}
	}
	slices.Sort(times)
	if what != "" {
		what = ", " + what
	}
	s.add(figure{
		what: "one Node, created to initialized" + what + ": p50", got: times[len(times)/2], unit: "ms",
		target: 100, note: spread(times),
	})
	s.add(figure{what: "  p99", got: times[len(times)*99/100], unit: "ms", target: 500})
}

// large is a cluster that is initialized, and then has nothing to do for a minute.
func (s *suite) large() {
	register(s.ctx, s.B, s.admin, "large", *size)
	p, from := watchNodes(s.ctx, s.B, s.admin, *size), mark(s.B)
	ccm := start(s.B, inventory(*size, ""))
	p.wait(s.B)
	s.quiet(from)
	r := since(s.B, from)
	at := fmt.Sprintf("%d Nodes: ", *size)
	s.add(figure{what: at + "listed machines", got: p.rate(), unit: "Nodes/s"})
	s.add(figure{what: "  requests a Node, all there are", got: float64(r.total()) / float64(*size), target: 3.1})
	s.add(figure{what: "  memory of the ccm, at most", got: ccm.megabytes("VmHWM"), unit: "MB"})
	from = mark(s.B)
	used := ccm.cpu()
	select {
	case <-s.ctx.Done():
	case <-time.After(time.Minute):
	}
	r = since(s.B, from)
	s.add(figure{what: "  memory in steady state", got: ccm.megabytes("VmRSS"), unit: "MB"})
	s.add(figure{what: "  requests a minute in steady state", got: float64(r.total()), note: fmt.Sprint(r.by)})
	s.add(figure{what: "  processor time in that minute", got: ccm.cpu() - used, unit: "s"})
	ccm.stop()
	remove(s.ctx, s.B, s.admin)
}

// report prints the table, and fails where a target was missed by far.
func (s *suite) report() {
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-70s %10s            %-16s %s\n", "", "measured", "target", "runs")
	for _, f := range s.figures {
		target := ""
		if f.target > 0 {
			sign, missed, factor := "<=", f.got > f.target, f.got/f.target
			if f.more {
				sign, missed, factor = ">=", f.got < f.target, f.target/f.got
			}
			target = fmt.Sprintf("%s %g %s", sign, f.target, f.unit)
			if missed {
				target += " MISSED"
			}
			if factor > far || f.strict && missed {
				s.Errorf("%s: got %.2f %s, want %s", strings.TrimSpace(f.what), f.got, f.unit, target)
			}
		}
		fmt.Fprintf(&table, "%-70s %10.2f %-8s   %-16s %s\n", f.what, f.got, f.unit, target, f.note)
		s.ReportMetric(f.got, strings.ReplaceAll(strings.TrimSpace(f.what+" "+f.unit), " ", "-"))
	}
	s.Log(table.String())
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func spread(values []float64) string {
	return fmt.Sprintf("%.1f to %.1f, n=%d", slices.Min(values), slices.Max(values), len(values))
}
