package diagnosis

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/templates"
)

// faulty is a cluster in which several things are wrong at once.
func faulty() *Snapshot {
	s := newSnapshot(templates.Deployment, 30, service("web", time.Hour), logged(
		"E1122 error syncing 'w6': failed to get instance metadata for node w6: UnauthorizedOperation: 403, requeuing"))
	for i := range s.Nodes[6:] {
		n := &s.Nodes[6+i]
		n.Spec.ProviderID, n.Spec.Taints = "", append(n.Spec.Taints, corev1.Taint{Key: v1alpha1.UninitializedTaint, Effect: corev1.TaintEffectNoSchedule})
	}
	s.Heartbeats[3].Spec.RenewTime.Time = taken.Add(-3 * time.Minute)
	s.Nodes[4].Status.NodeInfo.KubeletVersion = "v1.31.2"
	return s
}

func TestWriteHTML(t *testing.T) {
	var out bytes.Buffer
	d := Diagnose(faulty())
	if err := d.WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	if name := os.Getenv("CCMADM_PAGE"); name != "" { // to be looked at in a browser
		if err := os.WriteFile(name, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"31 Nodes", "led by cp1_8c1b", "<h2>What blocks what</h2>", "D3", "W9", "w30", "Deployment/kube-system/ccm", "prefers-color-scheme: dark"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not on the page", want)
		}
	}
	last := strings.LastIndex(out.String(), "<pre>")
	if do := strings.LastIndex(out.String(), "<b>Do:</b>"); do < 0 || last < do {
		t.Error("what to do does not come last")
	}
}

// Whatever is called whatever, the page has the elements of the template and no others, and asks nobody for anything.
func TestWriteHTML_HostileText(t *testing.T) {
	const attack = `"><img src=x onerror=alert(1)><script>alert(1)</script></style></title>'` + hostile
	s := faulty()
	s.Nodes[1].Name, s.Nodes[7].Name = attack, "javascript:alert(1)"
	s.Version, s.Deployments[0].Name = attack, attack
	s.Services[0].Name = attack
	s.NotSeen = []NotSeen{{What: attack, Message: attack}}
	s.Leases = newSnapshot(templates.StaticPod, 0).Leases
	s.Leases[0].Spec.HolderIdentity = new(attack)
	var out bytes.Buffer
	if err := Diagnose(s).WriteHTML(&out); err != nil {
		t.Fatal(err)
	}
	for tokens := html.NewTokenizer(&out); tokens.Next() != html.ErrorToken; {
		token := tokens.Token()
		switch token.Data {
		case "script", "img", "iframe", "link", "object", "svg", "form", "input":
			if token.Type != html.TextToken {
				t.Errorf("the page has an element %s", token)
			}
		}
		for _, a := range token.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "href" && !strings.HasPrefix(a.Val, "#finding-") {
				t.Errorf("the page has %s", token)
			}
		}
		if strings.ContainsAny(token.Data, "\x1b\u202e") {
			t.Errorf("the page has what changes a text's direction: %q", token.Data)
		}
	}
}
