package e2e

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	seeds     = flag.Int("seeds", 10, "how many mutations of a healthy cluster TestChaos makes")
	firstSeed = flag.Uint64("first", 1, "the seed of the first of them")
	clusters  = flag.Int("clusters", 2, "how many clusters TestChaos mutates at once: of provider onprem, of upstream's sample of a manager, and so on")
)

// chaosLasts is how long a mutation lasts until the cluster is checked.
const chaosLasts = time.Minute

// TestChaos mutates a healthy cluster at random, asks simple checks whether anything is broken, and then the doctor. No list
// names the mutations: what the doctor does not know shows as "broken, silent". bin/measured/chaos.md has a row for each seed;
// whether a cause is the right one, a person judges from it. It fails only where a cluster cannot be made or restored.
func TestChaos(t *testing.T) {
	s := &scores{file: measuredFile(t, "chaos.md")}
	image := answererArchive(t, buildProgram(t, "answerer"))
	for i := range max(*clusters, 1) {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			c := &chaos{kind: chaosKinds()[i%len(chaosKinds())]}
			c.lab = up(t, fmt.Sprintf("chaos%d", i), 1, 2, "--image", agentImage, "--image", adoptImage, "--image", image)
			c.make(t)
			for seed := *firstSeed + uint64(i); seed < *firstSeed+uint64(*seeds); seed += uint64(*clusters) { //nolint:gosec // both are small
				if !c.isWhole {
					t.Logf("seed %d: the cluster is made again", seed)
					c.again(t)
				}
				if row, made := c.one(t, seed); made {
					s.add(t, row)
				}
			}
		})
	}
}

// chaosKind is a kind of cluster: what comes with it, and whether its Services get addresses.
type chaosKind struct {
	name     string
	make     func(*chaos, *testing.T) (init string)
	services bool
}

func chaosKinds() []chaosKind {
	return []chaosKind{
		{"onprem, with agents", func(*chaos, *testing.T) string { return ccmadmInit + " --node-agent" }, true},
		{"upstream's sample of a manager", func(c *chaos, t *testing.T) string {
			t.Helper()
			c.loadCCM(t, "sample")
			c.sampleConfiguration(t)
			return strings.Replace(ccmadmInit, kubeadmYAML, realConfig, 1)
		}, false},
	}
}

type chaos struct {
	*lab
	kind    chaosKind
	isWhole bool
}

// seedRow is what became of a seed.
type seedRow struct {
	seed                uint64
	kind, what, verdict string
	broken, said        []string
}

// The verdicts. Right: what the doctor says names what was mutated, or the machine on which that was.
const (
	brokenSilent = "BROKEN, SILENT"
	brokenOther  = "broken, other"
	brokenRight  = "broken, right"
	wholeOther   = "WHOLE, OTHER"
	wholeRight   = "whole, right"
	wholeSilent  = "whole, silent"
)

// make is a cluster with a Service, and a pod on each machine that can ask for it.
func (c *chaos) make(t *testing.T) {
	t.Helper()
	c.must(t, "cp1", c.kind.make(c, t))
	join := c.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		c.must(t, w, join)
	}
	c.run(t, "network", "--name", c.name)
	c.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	c.apply(t, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "echo", "labels": {"app": "echo"}}, "spec": `+
		modest(`"nodeName":"w1",`+everywhere)+`}`)
	c.kubectl(t, "expose pod echo --port=80 --target-port=8080")
	if c.kind.services {
		network := netip.MustParseAddr(c.address(t, "cp1")).AsSlice()[:3]
		c.apply(t, fmt.Sprintf(`{"apiVersion": "ccmadm.dev/v1alpha1", "kind": "AddressPool", "metadata": {"name": "chaos"},
 "spec": {"ranges": ["%[1]d.%[2]d.%[3]d.200-%[1]d.%[2]d.%[3]d.209"]}}`, network[0], network[1], network[2]))
	}
	for _, m := range c.nodes {
		c.must(t, m, "tar -C / --ignore-failed-read -cf /root/before.tar etc/kubernetes etc/cni etc/containerd etc/hosts etc/resolv.conf "+
			"var/lib/kubelet/config.yaml var/lib/kubelet/kubeadm-flags.env var/lib/kubelet/pki etc/default etc/systemd/system 2>/dev/null; true")
	}
	eventually(t, 3*time.Minute, "the new cluster passes all checks, and the doctor is silent", func() bool { return c.whole(t) })
	c.isWhole = true
}

func (c *chaos) again(t *testing.T) {
	t.Helper()
	for _, m := range c.nodes {
		c.sh(t, m, "tar -C / -xf /root/before.tar etc/containerd etc/hosts etc/resolv.conf etc/systemd; systemctl daemon-reload; systemctl restart containerd")
		c.wipe(t, m)
		c.sh(t, m, "ip link delete cni0") // kubeadm reset leaves the bridge, with the address of a range that may be another Node's next time
	}
	c.make(t)
}

// whole says that nothing is broken, and that the doctor says so.
func (c *chaos) whole(t *testing.T) bool {
	broken, causes := c.broken(t), (&library{lab: c.lab}).roots(t)
	if len(broken) == 0 && len(causes) == 0 {
		return true
	}
	t.Logf("not whole: %s: %+v", strings.Join(broken, "; "), causes)
	return false
}

// one is a seed: inject, wait, check, ask, undo.
func (c *chaos) one(t *testing.T, seed uint64) (row seedRow, made bool) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // the same seed makes the same mutation
	var m mutation
	for range 30 { // what the API server or a missing file refuses is no mutation
		m = c.mutate(t, r)
		if m.inject == "" {
			continue
		}
		if got := c.sh(t, m.on, asAdmin+m.inject); got.code == 0 {
			break
		}
		c.sh(t, m.on, asAdmin+m.undo)
		m.inject = ""
	}
	if m.inject == "" {
		t.Logf("seed %d: no mutation was accepted", seed)
		return row, false
	}
	time.Sleep(chaosLasts)
	row = seedRow{seed: seed, kind: c.kind.name, what: m.on + ": " + m.what, broken: c.broken(t)}
	row.said = c.asked(t, len(row.broken) > 0)
	right := slices.ContainsFunc(row.said, func(said string) bool {
		return slices.ContainsFunc(m.names, func(name string) bool { return strings.Contains(strings.ToLower(said), strings.ToLower(name)) })
	})
	switch {
	case len(row.broken) > 0 && len(row.said) == 0:
		row.verdict = brokenSilent
	case len(row.broken) > 0 && right:
		row.verdict = brokenRight
	case len(row.broken) > 0:
		row.verdict = brokenOther
	case len(row.said) == 0:
		row.verdict = wholeSilent
	case right:
		row.verdict = wholeRight
	default:
		row.verdict = wholeOther
	}
	c.sh(t, m.on, asAdmin+m.undo)
	c.isWhole = false
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && !c.isWhole; time.Sleep(2 * time.Second) {
		c.isWhole = c.whole(t)
	}
	return row, true
}

// asked is what the doctor says on the control plane; where it says nothing and something is broken, what it says by probes, and
// then on each machine: the order in which docs/tasks/diagnose.md has them.
func (c *chaos) asked(t *testing.T, further bool) []string {
	t.Helper()
	l := &library{lab: c.lab}
	for _, way := range []struct{ host, flags string }{{}, {flags: "--probe"}, {host: "cp1"}, {host: "w1"}, {host: "w2"}} {
		l.host, l.flags = way.host, way.flags
		var said []string
		for _, cause := range l.roots(t) {
			if cause.ID == "doctor" { // it could not look from here
				continue
			}
			said = append(said, strings.TrimSpace(fmt.Sprintf("%s %s: %.240s %s", cause.ID, cause.Object, cause.Message, cmp.Or(way.flags, atHost(way.host)))))
		}
		if len(said) > 0 || !further {
			return said
		}
	}
	return nil
}

func atHost(host string) string {
	if host == "" {
		return ""
	}
	return "(--host on " + host + ")"
}

// scores are of all clusters together.
type scores struct {
	file string

	mu   sync.Mutex
	rows []seedRow
}

// add keeps a row and writes the page again, so that a run that is cut has what it saw.
func (s *scores) add(t *testing.T, row seedRow) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	t.Logf("seed %d, %s: %s: %s: %s: %s", row.seed, row.kind, row.what, row.verdict, strings.Join(row.broken, "; "), strings.Join(row.said, "; "))
	s.rows = append(s.rows, row)
	slices.SortFunc(s.rows, func(a, b seedRow) int { return cmp.Compare(a.seed, b.seed) })
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.file, []byte(s.page()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (s *scores) page() string {
	count, broken := map[string]int{}, 0
	var rows strings.Builder
	for _, row := range s.rows {
		count[row.verdict]++
		if len(row.broken) > 0 {
			broken++
		}
		fmt.Fprintf(&rows, "| %d | %s | %s | %s | %s | %s |\n", row.seed, row.kind, cell(row.what), row.verdict,
			cell(strings.Join(row.broken, "; ")), cell(strings.Join(row.said, "; ")))
	}
	return fmt.Sprintf("%d seeds broke a cluster: of %d the doctor named what was mutated, of %d something else, of %d nothing. %d broke nothing: "+
		"of %d it named what was mutated, of %d something else, of %d nothing.\n\n"+
		"| Seed | Cluster | Mutation | Verdict | Broken | The doctor says |\n|---|---|---|---|---|---|\n%s", broken, count[brokenRight],
		count[brokenOther], count[brokenSilent], len(s.rows)-broken, count[wholeRight], count[wholeOther], count[wholeSilent], rows.String())
}

// serverSet is what the API server sets, and a replaced object may not have.
var serverSet = []string{"resourceVersion", "uid", "managedFields", "creationTimestamp", "generation"}

// object is one of the cluster's, in kubectl's words: -n NAMESPACE KIND/NAME.
func (c *chaos) object(t *testing.T, name string) map[string]any {
	t.Helper()
	r := c.sh(t, "cp1", "timeout 10 "+admin+"get "+name+" -o json")
	object := map[string]any{}
	if r.code != 0 || json.Unmarshal([]byte(r.out), &object) != nil {
		return nil
	}
	delete(object, "status")
	if meta, is := object["metadata"].(map[string]any); is {
		for _, field := range serverSet {
			delete(meta, field)
		}
	}
	return object
}
