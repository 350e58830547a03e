package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

var (
	seeds     = flag.Int("seeds", 10, "how many mutations of a healthy cluster TestChaos makes")
	firstSeed = flag.Uint64("first", 1, "the seed of the first of them")
)

// chaosLasts is how long a mutation lasts until the cluster is checked.
const chaosLasts = time.Minute

// TestChaos mutates a healthy cluster at random, asks simple checks whether anything is broken, and then the doctor. No list
// names the mutations: what the doctor does not know shows as "broken and silent". bin/measured/chaos.md has a row for each seed;
// whether a cause is the right one, a person judges from it. It fails only where the cluster cannot be made or restored.
func TestChaos(t *testing.T) {
	c := &chaos{lab: up(t, "chaos", 1, 2, "--image", agentImage, "--image", answererArchive(t, buildProgram(t, "answerer")))}
	c.make(t)
	for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
		if !c.whole(t) {
			t.Logf("seed %d: the cluster is made again", seed)
			c.again(t)
		}
		c.one(t, seed)
	}
	c.write(t)
}

type chaos struct {
	*lab
	rows []string
	// silent, noisy and named count seeds: broken and nothing said; whole and something said; broken and something said.
	silent, noisy, named, untouched int
}

// make is a cluster with agents, a Service, and a pod on each machine that can ask for it.
func (c *chaos) make(t *testing.T) {
	t.Helper()
	c.must(t, "cp1", ccmadmInit+" --node-agent")
	join := c.joinCommand(t)
	for _, w := range []string{"w1", "w2"} {
		c.must(t, w, join)
	}
	c.run(t, "network", "--name", c.name)
	c.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1 w2")
	c.podOf(t, "echo", answererImage, "echo", "w1")
	c.kubectl(t, "expose pod echo --port=80 --target-port=8080")
	for _, m := range c.nodes {
		c.must(t, m, "tar -C / --ignore-failed-read -cf /root/before.tar etc/kubernetes var/lib/kubelet/config.yaml var/lib/kubelet/kubeadm-flags.env var/lib/kubelet/pki etc/default 2>/dev/null; true")
	}
	eventually(t, 3*time.Minute, "the new cluster passes all checks, and the doctor is silent", func() bool { return c.whole(t) })
}

func (c *chaos) again(t *testing.T) {
	t.Helper()
	for _, m := range c.nodes {
		c.wipe(t, m)
	}
	c.make(t)
}

// whole says that nothing is broken, and that the doctor says so.
func (c *chaos) whole(t *testing.T) bool {
	return len(c.broken(t)) == 0 && len((&library{lab: c.lab}).roots(t)) == 0
}

// one is a seed: inject, wait, check, ask, undo.
func (c *chaos) one(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // the same seed makes the same mutation
	var m mutation
	for range 30 { // what the API server or a missing file refuses is no mutation
		m = c.mutate(t, r)
		if got := c.sh(t, m.on, asAdmin+m.inject); got.code == 0 {
			break
		}
		c.sh(t, m.on, asAdmin+m.undo)
		m.inject = ""
	}
	if m.inject == "" {
		t.Logf("seed %d: no mutation was accepted", seed)
		return
	}
	time.Sleep(chaosLasts)
	broken := c.broken(t)
	said := c.asked(t, len(broken) > 0)
	verdict := "whole, silent"
	switch {
	case len(broken) > 0 && len(said) == 0:
		verdict = "BROKEN, SILENT"
		c.silent++
	case len(broken) > 0:
		verdict = "broken, named"
		c.named++
	case len(said) > 0:
		verdict = "whole, named"
		c.noisy++
	default:
		c.untouched++
	}
	row := fmt.Sprintf("| %d | %s: %s | %s | %s | %s |", seed, m.on, cell(m.what), verdict, cell(strings.Join(broken, "; ")), cell(strings.Join(said, "; ")))
	t.Log(row)
	c.rows = append(c.rows, row)
	c.sh(t, m.on, asAdmin+m.undo)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && !c.whole(t); {
		time.Sleep(3 * time.Second)
	}
}

// asked is what the doctor says on the control plane; where it is silent and something is broken, what it says on each machine.
func (c *chaos) asked(t *testing.T, further bool) []string {
	t.Helper()
	l := &library{lab: c.lab}
	var said []string
	for _, host := range []string{"", "cp1", "w1", "w2"} {
		l.host = host
		if host != "" && (!further || len(said) > 0) {
			break
		}
		for _, cause := range l.roots(t) {
			at := ""
			if host != "" {
				at = " (--host on " + host + ")"
			}
			said = append(said, fmt.Sprintf("%s %s: %.160s%s", cause.ID, cause.Object, cause.Message, at))
		}
	}
	return said
}

// broken asks what users ask of a cluster: does the API answer, are Nodes Ready, does a pod start on each, and reach a
// Service by its name; are there logs. Each question is bounded.
func (c *chaos) broken(t *testing.T) []string {
	t.Helper()
	const bounded = "timeout 15 " + admin
	if r := c.sh(t, "cp1", bounded+"get --raw /readyz"); r.code != 0 {
		return []string{"the API server is not ready"}
	}
	var list []string
	if r := c.sh(t, "cp1", bounded+`get nodes --no-headers | awk '$2 != "Ready" {print $1}'`); r.code != 0 || strings.TrimSpace(r.out) != "" {
		list = append(list, "not Ready: "+strings.Join(strings.Fields(r.out), " "))
	}
	var script strings.Builder
	for _, m := range c.nodes {
		fmt.Fprintf(&script, `timeout 20 kubectl delete pod ask-%[1]s --ignore-not-found --now >/dev/null 2>&1
timeout 10 kubectl run ask-%[1]s --image=%[2]s --image-pull-policy=Never --overrides='{"spec":{"nodeSelector":{"kubernetes.io/hostname":"%[1]s"},"tolerations":[{"operator":"Exists"}]}}' >/dev/null || echo create %[1]s
`, m, answererImage)
	}
	for _, m := range c.nodes {
		fmt.Fprintf(&script, `timeout 40 kubectl wait --for=condition=Ready --timeout=30s pod/ask-%[1]s >/dev/null 2>&1 || { echo start %[1]s; }
timeout 15 kubectl exec ask-%[1]s -- /answerer get http://echo.default.svc.cluster.local/ >/dev/null 2>&1 || timeout 15 kubectl exec ask-%[1]s -- /answerer get http://echo.default.svc.cluster.local/ >/dev/null 2>&1 || echo name %[1]s
timeout 10 kubectl logs ask-%[1]s >/dev/null 2>&1 || echo logs %[1]s
`, m)
	}
	r := c.sh(t, "cp1", asAdmin+script.String())
	for line := range strings.Lines(r.out) {
		what, node, _ := strings.Cut(strings.TrimSpace(line), " ")
		says := map[string]string{
			"create": "no pod can be created", "start": "a pod does not start in 30 s on " + node,
			"name": "a pod does not reach a Service by its name on " + node, "logs": "no logs from " + node,
		}[what]
		if says != "" {
			list = append(list, says)
		}
	}
	return list
}

// write keeps what was seen.
func (c *chaos) write(t *testing.T) {
	t.Helper()
	broken := c.silent + c.named
	text := fmt.Sprintf("Seeds %d to %d: %d broke the cluster, and of %d of these the doctor said nothing; of %d that broke nothing it named %d.\n\n"+
		"| Seed | Mutation | Verdict | Broken | The doctor says |\n|---|---|---|---|---|\n%s\n", *firstSeed, *firstSeed+uint64(*seeds)-1,
		broken, c.silent, c.noisy+c.untouched, c.noisy, strings.Join(c.rows, "\n"))
	if err := os.WriteFile(measuredFile(t, "chaos.md"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(text)
}

// object is one of the cluster's, KIND/NAME, without what the API server sets.
func (c *chaos) object(t *testing.T, name string) map[string]any {
	t.Helper()
	r := c.sh(t, "cp1", "timeout 10 "+admin+"-n kube-system get "+name+" -o json")
	object := map[string]any{}
	if r.code != 0 || json.Unmarshal([]byte(r.out), &object) != nil {
		return nil
	}
	delete(object, "status")
	if meta, is := object["metadata"].(map[string]any); is {
		for _, field := range []string{"resourceVersion", "uid", "managedFields", "creationTimestamp", "generation"} {
			delete(meta, field)
		}
	}
	return object
}
