package inventory

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const (
	uuidA = "4c4c4544-0042-3510-8052-b3c04f4b4e32"
	uuidB = "5d5d4544-0042-3510-8052-b3c04f4b4e32"
)

func decoded(t *testing.T, document string) *Inventory {
	t.Helper()
	i, err := Decode([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestMatch(t *testing.T) {
	i := decoded(t, head+`machines:
- {id: a, hostname: w1, match: {systemUUID: `+uuidA+`, serial: SA, macs: ["52:54:00:00:00:0a"], providerIDs: [legacy://1]}}
- {id: b, hostname: w2, match: {macs: ["52:54:00:00:00:0b"], hostnames: [w2.ber.example]}}`)
	for _, tt := range []struct {
		name    string
		facts   Facts
		want    string // ID
		rule    Rule
		wantErr string
	}{
		{
			name:  "provider ID before all else",
			facts: Facts{Name: "w1", ProviderID: "onprem://ber1/b", SystemUUID: uuidA},
			want:  "b",
			rule:  ByProviderID,
		},
		{name: "a provider ID from before", facts: Facts{Name: "x", ProviderID: "legacy://1"}, want: "a", rule: ByProviderID},
		{
			name:  "systemUUID before serial and name",
			facts: Facts{Name: "w2", SystemUUID: strings.ToUpper(uuidA), Serial: "?"},
			want:  "a",
			rule:  BySystemUUID,
		},
		{name: "serial before name", facts: Facts{Name: "w2", Serial: "SA"}, want: "a", rule: ByHardware},
		{
			name:  "MAC, however it is written",
			facts: Facts{Name: "x", MACs: []string{"5254.0000.000B"}},
			want:  "b",
			rule:  ByHardware,
		},
		{name: "name", facts: Facts{Name: "w2.ber.example", SystemUUID: uuidB}, want: "b", rule: ByName},
		{name: "nobody", facts: Facts{Name: "w3", SystemUUID: uuidB}},
		{name: "a worthless UUID", facts: Facts{Name: "w3", SystemUUID: "03000200-0400-0500-0006-000700080009"}},
		{
			name:  "an adopted one may be found by name",
			facts: Facts{Name: "w2", ProviderID: "onprem://ber1/node-w2"},
			want:  "b",
			rule:  ByName,
		},
		{
			name:  "and by what it is",
			facts: Facts{Name: "x", ProviderID: "onprem://default/" + uuidA, SystemUUID: uuidA},
			want:  "a",
			rule:  BySystemUUID,
		},
		{name: "a name that was given to the next machine", facts: Facts{Name: "w2", ProviderID: "onprem://ber1/old"}},
		{name: "an id of another site", facts: Facts{Name: "x", ProviderID: "onprem://ham1/a"}},
		{
			name:  "a foreign one is not looked at",
			facts: Facts{Name: "w1", ProviderID: "kwok://w1", SystemUUID: uuidA, Serial: "SA"},
		},
		{
			name:    "two machines",
			facts:   Facts{Name: "x", Serial: "SA", MACs: []string{"52:54:00:00:00:0b"}},
			wantErr: "match Node/x by serial/MAC: more than one machine matches: a and b",
		},
		{
			name:    "the right name on the wrong machine",
			facts:   Facts{Name: "w1", SystemUUID: uuidB},
			wantErr: "machine a is listed with systemUUID " + uuidA + ", the Node shows " + uuidB,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, rule, err := i.Match(tt.facts)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || m != nil {
					t.Fatalf("got %v and error %v, want an error with %q", m, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if m != nil {
				got = m.ID
			}
			if got != tt.want || rule != tt.rule {
				t.Errorf("got %q by %q, want %q by %q", got, rule, tt.want, tt.rule)
			}
		})
	}
}

func TestFactsOf(t *testing.T) {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "w1", Annotations: map[string]string{
			v1alpha1.SerialAnnotation: "S", v1alpha1.MACsAnnotation: "52:54:00:00:00:0a, 52:54:00:00:00:0b",
		}},
		Spec:   corev1.NodeSpec{ProviderID: "onprem://ber1/a"},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: uuidA}},
	}
	want := Facts{
		Name: "w1", ProviderID: "onprem://ber1/a", SystemUUID: uuidA, Serial: "S",
		MACs: []string{"52:54:00:00:00:0a", "52:54:00:00:00:0b"},
	}
	if diff := cmp.Diff(want, FactsOf(node)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
