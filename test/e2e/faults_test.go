package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"
)

// injected is something that is made to be wrong in a cluster that is well.
type injected struct {
	// id is what the doctor has to name: as root cause, and nothing beside it.
	id finding.ID
	// what is injected, in words for docs/contributing/faults.md, and unique in its library.
	what string
	// on is the machine where inject runs, a shell script with KUBECONFIG set. Empty: cp1.
	on, inject string
	// host has the doctor look at that machine itself, as somebody does who has no kubeconfig there.
	host bool
	// first runs before inject, on another machine: where the cloud is, say.
	first step
	// choice is what a person decides where the doctor cannot: it runs on that machine in place of the printed remedy,
	// and is in the table. choiceOn is where it runs, if not there.
	choice, choiceOn string
	// known is why it is not named as yet, for docs/contributing/faults.md, where no row says NO without a reason.
	known string
	// undo takes back, on that machine, what the remedy is not about. It runs after it.
	undo string
	// within bounds the doctor's word, and then the way back to health. Zero: foundWithin.
	within time.Duration
}

// foundWithin is enough for a manager whose Lease has to run out first: 15 s, and a pod that starts.
const foundWithin = 45 * time.Second

// cause is what is read of the doctor's.
type cause struct {
	ID      finding.ID `json:"id"`
	Object  string     `json:"object"`
	Message string     `json:"message"`
	Next    string     `json:"next"`
	// Severity is error, warning or info, which is their order, too.
	Severity string `json:"severity"`
}

// outcome is a line of the table.
type outcome struct {
	ID       finding.ID
	What     string
	Known    string
	Cluster  string
	Transit  string // what else was named on the way, while the cluster changed
	Found    float64
	Remedy   string
	Chosen   bool
	Restored float64
}

// library runs faults one after another in a cluster.
type library struct {
	*lab
	cluster string
	table   *faultTable
	// host is the machine that the doctor is asked about. Empty: the cluster, as seen from cp1.
	host string
	// flags are further ones of the doctor's.
	flags string
}

// roots asks the doctor. The error is what it says where it could not look.
func (l *library) roots(t testing.TB) []cause {
	t.Helper()
	args := "--kubeconfig /etc/kubernetes/admin.conf"
	if l.host != "" {
		args = "--host"
	}
	r := l.sh(t, cmp.Or(l.host, "cp1"),
		"ccmadm doctor -o json "+args+" "+l.flags+" 2>/tmp/doctor.err || { s=$?; [ $s = 6 ] || cat /tmp/doctor.err; exit $s; }")
	var d struct {
		Causes []cause `json:"causes"`
	}
	if err := json.Unmarshal([]byte(r.out), &d); err != nil || r.code != 0 && r.code != 6 {
		return []cause{{ID: "doctor", Message: r.out}}
	}
	return d.Causes
}

// ids are roots in short, in no order that means anything.
func ids(causes []cause) string {
	var list []string
	for _, c := range causes {
		list = append(list, string(c.ID))
	}
	slices.Sort(list)
	return strings.Join(list, "+")
}

// until asks the doctor until its roots are these, twice in a row, and returns the last answer and what else it has said.
func (l *library) until(t testing.TB, want string, within time.Duration) (last []cause, others []string, ok bool) {
	t.Helper()
	seen, row := "", 0
	for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(400 * time.Millisecond) {
		last = l.roots(t)
		got := ids(last)
		if got == want {
			if row++; row == 2 {
				return last, others, true
			}
			continue
		}
		if row = 0; got != seen && got != "" {
			others = append(others, got)
		}
		seen = got
	}
	return last, others, false
}

// one injects a fault, has the doctor name it, does what it says, and has it be silent again.
func (l *library) one(t *testing.T, f injected) {
	within := cmp.Or(f.within, foundWithin)
	l.expectSilent(t, "before", within)
	l.inject(t, f)
	if f.host {
		l.host = f.on
		defer func() { l.host = "" }()
	}
	start := time.Now()
	out := outcome{ID: f.id, What: f.what, Cluster: l.cluster, Chosen: f.choice != "", Known: f.known}
	named, others, ok := l.until(t, string(f.id), within)
	out.Found, out.Transit = time.Since(start).Seconds(), strings.Join(others, ", ")
	if !ok {
		t.Errorf("want %s, got %+v; before that %v", f.id, named, others)
		l.table.add(out, false)
		l.repair(t, f)
		return
	}
	t.Logf("%.1f s, on the way %v: %s %s: %s\n  next: %s", out.Found, others, f.id, named[0].Object, named[0].Message, named[0].Next)
	start = time.Now()
	out.Remedy = l.heal(t, f, named[0].Next)
	ok = l.expectSilent(t, "after the remedy", within)
	if l.host != "" {
		l.host = ""
		ok = l.expectSilent(t, "in the cluster, after the remedy", within) && ok
	}
	out.Restored = time.Since(start).Seconds()
	l.table.add(out, ok && !t.Failed())
	if !ok {
		l.repair(t, f)
	}
}

// expectSilent waits until the doctor finds nothing.
func (l *library) expectSilent(t *testing.T, when string, within time.Duration) bool {
	t.Helper()
	last, others, ok := l.until(t, "", within)
	if !ok {
		t.Errorf("%s the doctor is not silent: %+v; before that %v", when, last, others)
	}
	return ok
}

func (l *library) inject(t *testing.T, f injected) {
	t.Helper()
	if f.first.command != "" {
		l.must(t, f.first.on, f.first.command)
	}
	l.must(t, cmp.Or(f.on, "cp1"), asAdmin+f.inject)
}

// heal does what the doctor has printed, or what a person chose, and returns it.
func (l *library) heal(t *testing.T, f injected, next string) string {
	t.Helper()
	on := cmp.Or(f.on, "cp1")
	steps := []step{{cmp.Or(f.choiceOn, on), f.choice}}
	if f.choice == "" {
		steps = commands(next, cmp.Or(l.host, "cp1"))
	}
	if len(steps) == 0 {
		t.Errorf("the remedy is no command: %s", next)
	}
	var done []string
	for _, s := range steps {
		done = append(done, s.command)
		if r := l.sh(t, s.on, asAdmin+s.command); r.code != 0 {
			t.Errorf("the remedy fails: %s: %s: exit status %d\n%s", s.on, s.command, r.code, r.out)
		}
	}
	if f.undo != "" {
		l.must(t, on, asAdmin+f.undo)
	}
	return strings.TrimSpace(strings.Join(done, "; "))
}

// repair gives the next fault a chance after one that went wrong.
func (l *library) repair(t *testing.T, f injected) {
	on := cmp.Or(f.on, "cp1")
	l.sh(t, cmp.Or(f.choiceOn, on), asAdmin+f.choice)
	l.sh(t, on, asAdmin+f.undo)
	l.sh(t, "cp1", asAdmin+"ccmadm apply --force")
	if _, others, ok := l.until(t, "", 2*foundWithin); !ok {
		t.Logf("not repaired: %v", others)
	}
}

// asAdmin is what every script begins with.
const asAdmin = "export KUBECONFIG=/etc/kubernetes/admin.conf\n"

// step is a command of a remedy.
type step struct{ on, command string }

var (
	// between are the words between two commands of one remedy.
	between = regexp.MustCompile(`,? then: |; and last: `)
	// commandAt finds the machine and the command behind the words that lead to it.
	commandAt = regexp.MustCompile(`^(?:[^:]*\bon (\S+): |[^:]*: )?((?:kubectl|ccmadm|systemctl|sysctl|rm|sed|chown) .*)$`)
)

// commands takes a remedy literally. What names no machine is for the one that was looked at, and for kubectl, for whoever has a
// kubeconfig.
func commands(next, on string) []step {
	var list []step
	for _, part := range between.Split(next, -1) {
		m := commandAt.FindStringSubmatch(part)
		if m == nil {
			return nil
		}
		if m[1] != "" {
			on = m[1]
		}
		at := on
		if strings.HasPrefix(m[2], "kubectl ") {
			at = "cp1"
		}
		list = append(list, step{at, m[2]})
	}
	return list
}

// all runs the faults as subtests; without -faults the first two of each kind. One that fails leaves the others.
func (l *library) all(t *testing.T, kinds ...[]injected) {
	for _, faults := range kinds {
		if !*allFaults {
			faults = faults[:min(len(faults), 2)]
		}
		for _, f := range faults {
			t.Run(fmt.Sprintf("%s %s", f.id, f.what), func(t *testing.T) { l.one(t, f) })
		}
	}
}
