package inventory

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/config"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

const head = "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {site: ber1}\n"

// full is testdata/full.yaml, defaulted.
func full() *config.Inventory {
	return &config.Inventory{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: kind},
		Metadata: config.InventoryMetadata{Site: "ber1", Serial: 42},
		Defaults: config.Place{Region: "ber", Zone: "ber-a", InstanceType: "generic"},
		Policy: config.InventoryPolicy{
			UnknownNodes: config.HoldUnknown, Deletion: config.DeletionAbsence,
			Absence:        config.AbsencePolicy{MinSnapshots: 3, MinDuration: minutes(30)},
			DeletionBudget: config.DeletionBudget{Max: 2, Per: metav1.Duration{Duration: time.Hour}, MaxPercent: 10},
		},
		Machines: []config.Machine{
			{
				ID: "r12-u07", State: config.MachineDecommissioned, Force: true, Hostname: "w07",
				Match: config.MachineMatch{
					SystemUUID: "4C4C4544-0042-3510-8052-B3C04F4B4E32", Serial: "ABC123",
					MACs: []string{"52:54:00:12:34:56"}, Hostnames: []string{"w07.ber.example"}, ProviderIDs: []string{"legacy://7"},
				},
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.18.0.17"}},
				Place:     config.Place{Region: "ber", Zone: "ber-b", InstanceType: "r650"},
				Rack:      "r12", Labels: map[string]string{"example.com/disk": "nvme"},
				Taints: []corev1.Taint{{Key: "example.com/gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
				Power: config.Power{State: config.PowerOff, BMC: &config.BMC{
					Redfish:   "https://198.18.1.7",
					SecretRef: "bmc",
				}}, Protected: true,
			},
			{
				ID:    "r12-u08",
				State: config.MachineActive,
				Place: config.Place{Region: "ber", Zone: "ber-a", InstanceType: "generic"},
				Power: config.Power{State: config.PowerUnknown},
			},
		},
	}
}

func TestDecode(t *testing.T) {
	file, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got.Inventory); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestDecode_Refuses(t *testing.T) {
	for _, tt := range []struct {
		name, document string
		want           []string // all of them at once
	}{
		{"nothing", "", []string{"there is nothing in it"}},
		{"comments only", "# later\n", []string{"there is nothing in it"}},
		{"a page of HTML", "<html><body>502</body></html>", []string{`read Inventory: line 1: must be a mapping, not "<html>`}},
		{"another kind", "apiVersion: v1\nkind: List\n", []string{`line 1: apiVersion: Unsupported value: "v1"`, `line 2: kind: Unsupported value: "List"`}},
		{"two documents", head + "---\n" + head, []string{"want one document"}},
		{"cut off within a word", head + "machines:\n- id: a\n  stat", []string{"read Inventory: line "}},
		{"fields that are not there", head + "machine: []\nmachines: [{id: a, Zone: b}]", []string{`unknown field "machine"`, `unknown field "machines[0].Zone"`}},
		{"a field twice", head + "machines: []\nmachines: []", []string{`"machines" already set`}},
		{"no site", "apiVersion: ccmadm.dev/v1alpha1\nkind: Inventory\nmetadata: {serial: " +
			"-1}\n", []string{"metadata.site: Invalid", "metadata.serial: Invalid"}},
		{
			"policies",
			head + "policy: {unknownNodes: drop, deletion: yes please, absence: {minSnapshots: -1, minDuration: -1s}, " +
				"deletionBudget: {max: -1, per: -1s, maxPercent: 101}}",
			[]string{
				"policy.unknownNodes: Unsupported", "policy.deletion: Unsupported", "policy.absence.minSnapshots: Invalid",
				"policy.absence.minDuration: Invalid", "policy.deletionBudget.max: Invalid", "policy.deletionBudget.per: Invalid",
				"policy.deletionBudget.maxPercent: Invalid",
			},
		},
		{
			"a machine",
			head + `machines: [{id: A/b, state: gone, power: {state: maybe}, zone: "a b", rack: "/", hostname: w_1,
  match: {systemUUID: 00000000-0000-0000-0000-000000000000, macs: [x], providerIDs: [x]},
  addresses: [{type: InternalIP, address: 10.0.0}, {type: Fax, address: a}, {type: Hostname, address: "a b"}],
  labels: {topology.kubernetes.io/zone: a, "a b": c}, taints: [{key: "", effect: v1alpha1.DeletionNever}]}]`,
			[]string{
				"machines[0].id: Invalid", "machines[0].state: Unsupported", "machines[0].power.state: Unsupported", "machines[0].zone: Invalid",
				"machines[0].rack: Invalid", "machines[0].hostname: Invalid", "machines[0].match.systemUUID: Invalid",
				"machines[0].match.macs[0]: Invalid", "machines[0].match.providerIDs[0]: Invalid", "machines[0].addresses[0].address: Invalid",
				"machines[0].addresses[1].type: Unsupported", "machines[0].addresses[2].address: Invalid",
				"machines[0].labels[topology.kubernetes.io/zone]: Forbidden", "machines[0].labels[a b]: Invalid",
				"machines[0].taints[0].key: Invalid", "machines[0].taints[0].effect: Unsupported",
			},
		},
		{
			"what two machines share",
			head + `machines:
- {id: a, hostname: w1, match: {serial: S, macs: ["52:54:00:12:34:56"], systemUUID: 4c4c4544-0042-3510-8052-b3c04f4b4e32, providerIDs: [x://1]}}
- {id: a, match: {hostnames: [W1], serial: S, macs: [5254.0012.3456], systemUUID: 4C4C4544004235108052B3C04F4B4E32, providerIDs: [x://1]}}`,
			[]string{
				"machines[1].id: Invalid", "machines[1].hostname: Invalid", "machines[1].match.serial: Invalid",
				"machines[1].match.macs[0]: Invalid", "machines[1].match.systemUUID: Invalid", "machines[1].match.providerIDs[0]: Invalid",
				"is listed twice",
			},
		},
		{
			"what would block or mislead a machine",
			head + `machines:
- id: a
  match: {serial: To be filled by O.E.M., macs: ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01"]}
  addresses: [{type: InternalIP, address: 0.0.0.0}, {type: InternalIP, address: "::1"}, {type: ExternalIP, address: 224.0.0.1}]
  labels: {ccmadm.dev/machine: b, ccmadm.dev/rack: r}
  taints:
  - {key: gpu, effect: NoSchedule}
  - {key: gpu, value: other, effect: NoSchedule}
  - {key: node.cloudprovider.kubernetes.io/uninitialized, effect: NoSchedule}
  - {key: ccmadm.dev/maintenance, effect: NoSchedule}`,
			[]string{
				"machines[0].match.serial: Invalid", "machines[0].match.macs[0]: Invalid", "machines[0].match.macs[1]: Invalid",
				"machines[0].match.macs[2]: Invalid", "machines[0].addresses[0].address: Invalid", "machines[0].addresses[1].address: Invalid",
				"machines[0].addresses[2].address: Invalid", "machines[0].labels[ccmadm.dev/machine]: Forbidden",
				"machines[0].labels[ccmadm.dev/rack]: Forbidden", "machines[0].taints[1]: Duplicate",
				"machines[0].taints[2].key: Forbidden", "machines[0].taints[3].key: Forbidden",
			},
		},
		{
			"one address of two machines",
			head + `machines:
- {id: a, addresses: [{type: InternalIP, address: 198.18.0.1}]}
- {id: b, addresses: [{type: ExternalIP, address: 198.018.0.1}]}`,
			[]string{"machines[1].addresses: Invalid value: \"198.18.0.1\": is listed twice"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode([]byte(tt.document))
			if err == nil {
				t.Fatalf("got %+v and no error", got)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error without %q: %v", want, err)
				}
			}
		})
	}
}

// Whatever is accepted can be asked anything, and has no two machines of one id.
func FuzzDecode(f *testing.F) {
	file, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(file, "w07", "4c4c4544-0042-3510-8052-b3c04f4b4e32")
	f.Add([]byte(head+"machines: [{id: a}, {id: b}]"), "a", "")
	f.Fuzz(func(t *testing.T, document []byte, name, uuid string) {
		i, err := Decode(document)
		if err != nil {
			return
		}
		for n := range i.Machines {
			m := &i.Machines[n]
			if i.ByID(m.ID) != m {
				t.Errorf("machine %q is not the only one of its id", m.ID)
			}
			got, rule, err := i.Match(Facts{ProviderID: ProviderID(i.Metadata.Site, m.ID), Name: name, SystemUUID: uuid})
			if err == nil && (got != m || rule != ByProviderID) {
				t.Errorf("machine %q has a provider ID and is matched by %s as %v", m.ID, rule, got)
			}
		}
		if m, rule, err := i.Match(Facts{Name: name, SystemUUID: uuid}); err == nil && (m == nil) != (rule == "") {
			t.Errorf("got machine %v by rule %q", m, rule)
		}
	})
}

func minutes(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Minute}
}

// The address of a machine that will not come back may be given to the next one, and one machine may have it twice.
func TestDecode_AddressesAreFreed(t *testing.T) {
	_, err := Decode([]byte(head + `machines:
- {id: a, state: decommissioned, addresses: [{type: InternalIP, address: 198.18.0.1}]}
- {id: b, addresses: [{type: InternalIP, address: 198.18.0.1}, {type: ExternalIP, address: 198.18.0.1}]}
- {id: c, match: {serial: 6XK0QN3}, taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}`))
	if err != nil {
		t.Error(err)
	}
}
