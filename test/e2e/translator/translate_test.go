package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// read reads what the tests of MetalLB write.
func read[T any](t *testing.T, documents ...string) []T {
	t.Helper()
	var all []T
	for _, d := range documents {
		var one T
		if err := yaml.Unmarshal([]byte(d), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// poolCase is what surrounds a pool of MetalLB, and what ccmadm has for it.
type poolCase struct {
	name    string
	source  source
	want    string // fields of the AddressPool's spec, beside those that all have
	wantErr string
}

func poolCases(t *testing.T) []poolCase {
	t.Helper()
	return []poolCase{
		{
			name:   "a pool without an advertisement is announced, as ccmadm announces what it gives",
			source: source{},
			want:   `{"level":"L2","interfaces":["eth0"]}`,
		},
		{
			name:   "an L2Advertisement without fields is for every pool, Node and interface",
			source: source{l2: read[advertisement](t, `{metadata: {name: all}}`)},
			want:   `{"level":"L2"}`,
		},
		{
			name: "an advertisement of another pool is for nobody",
			source: source{
				l2: read[advertisement](t, `{spec: {ipAddressPools: [b]}}`,
					`{spec: {ipAddressPoolSelectors: [{matchLabels: {tier: back}}]}}`),
			},
			want: `{"level":"L2","interfaces":["eth0"]}`,
		},
		{
			name: "Nodes and interfaces of several advertisements are put together",
			source: source{l2: read[advertisement](t,
				`{spec: {interfaces: [lan2], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: w2}}]}}`,
				`{spec: {interfaces: [eth0], nodeSelectors: [{matchLabels: {kubernetes.io/hostname: w1}}]}}`)},
			want: `{"level":"L2","interfaces":["eth0","lan2"],
				"nodes":{"matchExpressions":[{"key":"kubernetes.io/hostname","operator":"In","values":["w1","w2"]}]}}`,
		},
		{
			name: "an advertisement for all Nodes beside one for some is for all",
			source: source{l2: read[advertisement](t,
				`{spec: {nodeSelectors: [{matchLabels: {kubernetes.io/hostname: w2}}]}}`, `{metadata: {name: all}}`)},
			want: `{"level":"L2"}`,
		},
		{
			name: "a BGPAdvertisement that selects the pool, with a community by its name",
			source: source{
				bgp: read[advertisement](t, `{spec: {ipAddressPoolSelectors: [{matchLabels: {tier: front}}],
					communities: [OWN, "64500:2"], localPref: 50, aggregationLength: 32}}`),
				communities: read[community](t, `{spec: {communities: [{name: OWN, value: "64500:1"}]}}`),
			},
			want: `{"level":"BGP","bgp":{"communities":["64500:1","64500:2"],"localPref":50}}`,
		},
		{
			name:    "one for some peers has no counterpart",
			source:  source{bgp: read[advertisement](t, `{metadata: {name: some}, spec: {peers: [r1]}}`)},
			want:    `{"level":"BGP"}`,
			wantErr: "IPAddressPool/a: BGPAdvertisement/some: no counterpart for peers",
		},
		{
			name: "selectors of two labels have none",
			source: source{
				l2: read[advertisement](t, `{spec: {nodeSelectors: [{matchLabels: {a: b}}, {matchLabels: {c: d}}]}}`),
			},
			want:    `{"level":"L2"}`,
			wantErr: "no counterpart for selectors of labels",
		},
	}
}

func TestTranslate_Pools(t *testing.T) {
	const pool = `{metadata: {name: a, labels: {tier: front}}, spec: {addresses: [192.0.2.0/28]}}`
	for _, tt := range poolCases(t) {
		t.Run(tt.name, func(t *testing.T) {
			tt.source.pools = read[ipAddressPool](t, pool)
			got, err := translate(tt.source, []string{"eth0"})
			if text := errorText(err); text != tt.wantErr && (tt.wantErr == "" || !strings.Contains(text, tt.wantErr)) {
				t.Errorf("error %q, want %q", text, tt.wantErr)
			}
			expectSpec(t, got.pools[0].Spec, tt.want,
				`{"ranges":["192.0.2.0/28"],"avoidEnds":false,"excludeLabel":"Ignore","reuseAfter":"1ms"}`)
		})
	}
}

func TestTranslate_ServiceAllocation(t *testing.T) {
	pools := read[ipAddressPool](t,
		`{metadata: {name: second}, spec: {serviceAllocation: {priority: 20, serviceSelectors: [{matchLabels: {x: z}}]}}}`,
		`{metadata: {name: first}, spec: {serviceAllocation: {priority: 10, namespaces: [a],
			namespaceSelectors: [{matchLabels: {x: z}}]}}}`,
		`{metadata: {name: third}, spec: {serviceAllocation: {namespaces: [a]}}}`,
		`{metadata: {name: last}, spec: {autoAssign: false, avoidBuggyIPs: true}}`,
	)
	got, err := translate(source{pools: pools}, nil)
	if err != nil {
		t.Fatal(err)
	}
	wants := []string{
		`{"priority":999990,"serve":{"namespaces":["a"],"namespaceSelector":{"matchLabels":{"x":"z"}}},"avoidEnds":false}`,
		`{"priority":999980,"serve":{"serviceSelector":{"matchLabels":{"x":"z"}}},"avoidEnds":false}`,
		`{"priority":1,"serve":{"namespaces":["a"]},"avoidEnds":false}`,
		`{"autoAssign":false,"avoidEnds":true}`,
	}
	for i, want := range wants {
		expectSpec(t, got.pools[i].Spec, want, `{"ranges":null,"level":"L2","excludeLabel":"Ignore","reuseAfter":"1ms"}`)
	}
}

func TestTranslate_Peers(t *testing.T) {
	got, err := translate(source{
		peers: read[bgpPeer](t,
			`{metadata: {name: a}, spec: {peerAddress: 192.0.2.1, peerASN: 64500, myASN: 64512, holdTime: 3s, password: "1"}}`,
			`{metadata: {name: b}, spec: {peerAddress: 192.0.2.2, peerPort: 180, peerASN: 64500, myASN: 64512,
				ebgpMultiHop: true, bfdProfile: fast, passwordSecret: {name: s}, nodeSelectors: [{matchLabels: {x: z}}]}}`,
			`{metadata: {name: c}, spec: {peerAddress: 192.0.2.3, peerASN: 64500, myASN: 64512, routerID: 192.0.2.9}}`),
		bfd:       read[bfdProfile](t, `{metadata: {name: fast}, spec: {transmitInterval: 61, detectMultiplier: 4}}`),
		passwords: map[string]string{"s": "2"},
	}, nil)
	if text := errorText(err); text != "BGPPeer/c: no counterpart for routerID" {
		t.Errorf("error %q", text)
	}
	wants := []string{
		`{"address":"192.0.2.1","port":179,"holdTime":"3s","passwordKey":"a"}`,
		`{"address":"192.0.2.2","port":180,"multiHop":255,"passwordKey":"b","nodes":{"matchLabels":{"x":"z"}},
			"bfd":{"enabled":true,"interval":"61ms","multiplier":4}}`,
		`{"address":"192.0.2.3","port":179}`,
	}
	for i, want := range wants {
		expectSpec(t, got.peers[i].Spec, want, `{"asn":64500,"localASN":64512}`)
	}
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2"}, got.passwords); diff != "" {
		t.Errorf("passwords (-want +got):\n%s", diff)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// expectSpec compares with the fields of both documents.
func expectSpec(t *testing.T, spec any, documents ...string) {
	t.Helper()
	var got, want map[string]any
	content, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		if err := json.Unmarshal([]byte(d), &want); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
