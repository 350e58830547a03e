package manifests

import (
	"testing"
	"time"

	"github.com/ccmadm/ccmadm/templates"
)

// The objects of a rehearsal in a pod, of a provider that uses all that there is.
func TestRehearsal(t *testing.T) {
	p := foreign(t)
	r := RehearsalRun{
		Name: "ccmadm-rehearsal-abcde", Holder: "laptop", OwnImage: "registry.example/ccmadm:v1", Task: []byte("{}"),
		Files: map[string][]byte{"cloud.conf": []byte("x")}, Args: []string{"--log"}, Limit: 10 * time.Minute,
	}
	v := values(templates.StaticPod)
	v.Files = []string{"cloud.conf"}
	objects, err := Rehearsal(p, v, r)
	if err != nil {
		t.Fatal(err)
	}
	pod, err := RehearsalPod(p, v, r)
	if err != nil {
		t.Fatal(err)
	}
	o, err := toObject(pod)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, append(objects, o))
}

// Nothing but reading is granted, whatever profile: neither a write nor a Lease.
func TestRehearsal_ReadsOnly(t *testing.T) {
	looked := 0
	for _, name := range templates.Names() {
		p, err := templates.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range reading(p.RBAC) {
			for _, verb := range rule.Verbs {
				looked++
				if verb != "get" && verb != "list" && verb != "watch" {
					t.Errorf("profile %s: %s %v", name, verb, rule.Resources)
				}
			}
		}
	}
	if looked < 10 {
		t.Errorf("%d verbs of all profiles were looked at", looked)
	}
}
