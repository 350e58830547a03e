package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// waits is the method of a request that is repeated until its body is in the answer.
const waits = "WAIT"

// request is one to the API server.
type request struct {
	method, path, body string
	// prepares: it is allowed, and what follows is the attempt.
	prepares bool
}

// attempt is what an attacker tries.
type attempt struct {
	name string
	do   []request
	// denied says that the API server refuses all requests but those which prepare; else it accepts the last one.
	denied bool
	// own says that it may get addresses that are nobody's: those left in the pool, or free ports of the Nodes.
	own bool
	// undo is for the administrator.
	undo []request
}

// attacker is who tries, and what a successful request is sent with.
type attacker struct {
	name, credentials string
	attempts          []attempt
}

// attacksPerAttacker is a number that does not shrink unseen.
const attacksPerAttacker = 30

// TestTablesOfAttacks: the tables have as many attempts as they are said to have.
func TestTablesOfAttacks(t *testing.T) {
	for _, who := range attackers() {
		names := map[string]bool{}
		for _, a := range who.attempts {
			if names[a.name] || a.name == "" || len(a.do) == 0 {
				t.Errorf("%s: %q is there twice, or empty", who.name, a.name)
			}
			names[a.name] = true
		}
		if len(names) != attacksPerAttacker {
			t.Errorf("%s: %d attempts, want %d", who.name, len(names), attacksPerAttacker)
		}
	}
}

func attackers() []attacker {
	return []attacker{
		{"tenant", `-H "Authorization: Bearer $(cat /run/tenant.token)"`, tenantAttempts()},
		{"kubelet", "--cert /var/lib/kubelet/pki/kubelet-client-current.pem", kubeletAttempts()},
		{"agent", `-H "Authorization: Bearer $(cat /var/lib/kubelet/pods/{agentuid}/volumes/kubernetes.io~projected/*/token)"`, agentAttempts()},
	}
}

// besieged is a cluster that somebody in it wants to take traffic from.
type besieged struct {
	*lab

	witnesses *witnesses
	variables []string // name, value, as strings.NewReplacer wants them
	places    int      // machines that ask
	before    []corev1.Service
}

// TestAttacks: a tenant with ClusterRole edit, a worker's kubelet and that worker's agent, each with its own credentials, try to
// take addresses, ports and traffic. Clients inside and outside of the cluster ask all the time who answers: the API server, the
// kubelets, other machines and honest Services answer for themselves throughout.
func TestAttacks(t *testing.T) {
	t.Parallel()
	b := besiege(t)
	counts := map[string]int{}
	for _, who := range attackers() {
		t.Run(who.name, func(t *testing.T) {
			for _, a := range who.attempts {
				t.Logf("%-8s %-90s %s", who.name, a.name, b.try(t, who, a))
				counts[who.name]++
			}
		})
	}
	b.relieve(t)
	if t.Failed() {
		return
	}
	t.Logf("tenant %d, kubelet %d, agent %d: 0 answered traffic that was not its own; %d honest Services untouched",
		counts["tenant"], counts["kubelet"], counts["agent"], len(b.before))
}

// try carries out an attempt, and returns what came of it.
func (b *besieged) try(t *testing.T, who attacker, a attempt) string {
	t.Helper()
	fill := strings.NewReplacer(b.variables...)
	begun := time.Now()
	result := ""
	for i, answer := range b.send(t, "w2", who.credentials, a.do) {
		code, message, _ := strings.Cut(answer, " ")
		refused := slices.Contains([]string{"403", "409", "422"}, code) || strings.Contains(message, "port is already allocated")
		switch {
		case !refused && !strings.HasPrefix(code, "2"), a.do[i].prepares && refused: // the request is wrong, or the API server is
			t.Fatalf("%s: %s: %s %s: %s", who.name, a.name, a.do[i].method, fill.Replace(a.do[i].path), answer)
		case a.do[i].prepares:
		case a.denied && !refused:
			t.Errorf("%s: %s: %s %s: accepted", who.name, a.name, a.do[i].method, fill.Replace(a.do[i].path))
		case !a.denied && refused:
			t.Errorf("%s: %s: %s: want it accepted, so that something is tried", who.name, a.name, answer)
		case refused:
			result = "denied: " + code + " " + shortened(message)
		}
	}
	if !a.denied {
		time.Sleep(1500 * time.Millisecond) // a pass of the manager, and one of each kube-proxy
		result = "accepted, no effect"
	}
	b.expectOthersServed(t, who.name+": "+a.name, begun)
	if published := b.publishedForTenants(t); published != "" {
		if others := b.othersAmong(published); !a.own || others != "" {
			t.Errorf("%s: %s: published: %s; of others: %s", who.name, a.name, published, others)
		}
		result = "accepted, has only what was free: " + published
	}
	if len(a.undo) > 0 {
		b.send(t, "cp1", administrators, a.undo)
	}
	return result
}

// shortened is enough of a refusal to know it.
func shortened(message string) string { return message[:min(len(message), 90)] }

const administrators = "--cert /run/admin.crt --key /run/admin.key"

// message prints what the API server has said.
const message = `echo "$(sed -n 's/^  "message": "\(.*\)",$/\1/p' /run/answer 2>/dev/null | cut -c1-300)"; rm -f /run/answer` + "\n"

// send makes requests with credentials, and returns the code and the message of each.
func (b *besieged) send(t *testing.T, machine, credentials string, requests []request) []string {
	t.Helper()
	fill := strings.NewReplacer(b.variables...)
	var script strings.Builder
	for _, r := range requests {
		if r.method == waits {
			fmt.Fprintf(&script, "for i in $(seq 100); do curl -s --cacert /etc/kubernetes/pki/ca.crt %s 'https://{vip}:6443%s' | grep -qF '%s' && break; sleep 0.1; done; "+
				"[ $i -lt 100 ] && echo 200 || echo 504\n", credentials, r.path, r.body)
			continue
		}
		kind := "application/json"
		if r.method == "PATCH" {
			kind = "application/merge-patch+json"
		}
		if r.body == "" {
			fmt.Fprintf(&script, "curl -s -m 20 -o /run/answer -w '%%{http_code} ' --cacert /etc/kubernetes/pki/ca.crt %s -X %s 'https://{vip}:6443%s'\n"+message,
				credentials, r.method, r.path)
			continue
		}
		fmt.Fprintf(&script, "curl -s -m 20 -o /run/answer -w '%%{http_code} ' --cacert /etc/kubernetes/pki/ca.crt %s -H 'Content-Type: %s' -X %s "+
			"--data-binary @- 'https://{vip}:6443%s' <<'END'\n%s\nEND\n"+message,
			credentials, kind, r.method, r.path, r.body)
	}
	cmd := exec.CommandContext(t.Context(), labBinary, "exec", "--name", b.name, machine, "--", "bash")
	cmd.Stdin = strings.NewReader(fill.Replace(script.String()))
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", machine, err, text)
	}
	out := string(text)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != len(requests) {
		t.Fatalf("%d requests, and %d answers:\n%s", len(requests), len(lines), out)
	}
	return lines
}

// expectOthersServed waits until everybody has answered once since the attempt, and wants nobody else to have answered.
func (b *besieged) expectOthersServed(t *testing.T, what string, begun time.Time) {
	t.Helper()
	since := time.Now()
	if since.Sub(begun) > time.Second {
		since = since.Add(-600 * time.Millisecond)
	}
	deadline := time.Now().Add(15 * time.Second)
	for b.witnesses.wrong(since, b.places) != "" {
		if time.Now().After(deadline) {
			t.Errorf("%s: %s", what, b.witnesses.wrong(since, b.places))
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	answers := map[string]int{}
	for _, s := range b.witnesses.thefts() {
		answers[fmt.Sprintf("%s, and %q answers", s.place(), s.Answer)]++
	}
	for answer, times := range answers {
		t.Errorf("%s: %s (%d times)", what, answer, times)
	}
}

// publishedForTenants names addresses of Services that are not honest ones.
func (b *besieged) publishedForTenants(t *testing.T) string {
	t.Helper()
	var texts []string
	for _, s := range b.servicesNow(t, "tenant") {
		for _, i := range s.Status.LoadBalancer.Ingress {
			texts = append(texts, fmt.Sprintf("%s at http://%s:%d", s.Name, i.IP, s.Spec.Ports[0].Port))
		}
	}
	return strings.Join(texts, ", ")
}

// othersAmong names a target that is among what is published.
func (b *besieged) othersAmong(published string) string {
	for url := range b.witnesses.targets {
		_, at, _ := strings.Cut(url, "://")
		if slices.Contains(strings.FieldsFunc(published, func(r rune) bool { return r == ' ' || r == ',' }), "http://"+at) {
			return url
		}
	}
	return ""
}

func (b *besieged) servicesNow(t *testing.T, namespace string) []corev1.Service {
	t.Helper()
	var list corev1.ServiceList
	out := b.must(t, "cp1", "curl -s --cacert /etc/kubernetes/pki/ca.crt "+administrators+" https://$(hostname -I | cut -d' ' -f1):6443/api/v1/namespaces/"+namespace+"/services")
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return list.Items
}
