package nodes

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"
	nodehelpers "k8s.io/cloud-provider/node/helpers"
)

func TestNodeAddresses(t *testing.T) {
	const (
		internal = corev1.NodeInternalIP
		external = corev1.NodeExternalIP
		hostname = corev1.NodeHostName
		dns      = corev1.NodeInternalDNS
	)
	type addresses = []corev1.NodeAddress
	for _, tt := range []struct {
		name      string
		provided  string // --node-ip
		published addresses
		want      addresses
		wantErr   string
	}{
		{
			name:      "as published",
			published: addresses{{Type: internal, Address: "198.18.0.2"}, {Type: hostname, Address: "w1"}},
			want:      addresses{{Type: internal, Address: "198.18.0.2"}, {Type: hostname, Address: "w1"}},
		},
		{
			name:     "nothing published yet",
			provided: "198.18.0.2",
			want:     addresses{{Type: internal, Address: "198.18.0.2"}, {Type: hostname, Address: "node"}},
		},
		{
			name:      "a dual-stack pair of which one is published",
			provided:  "198.18.0.2,fd00::2",
			published: addresses{{Type: internal, Address: "198.18.0.2"}, {Type: hostname, Address: "w1"}},
			want: addresses{
				{Type: internal, Address: "198.18.0.2"}, {Type: internal, Address: "fd00::2"}, {Type: hostname, Address: "w1"},
			},
		},
		{
			name:     "the order of --node-ip counts",
			provided: "fd00::2,198.18.0.2",
			published: addresses{
				{Type: internal, Address: "198.18.0.2"}, {Type: internal, Address: "fd00::2"}, {Type: hostname, Address: "w1"},
			},
			want: addresses{
				{Type: internal, Address: "fd00::2"}, {Type: internal, Address: "198.18.0.2"}, {Type: hostname, Address: "w1"},
			},
		},
		{
			name:     "one address in two spellings, and twice",
			provided: "fd00::2",
			published: addresses{
				{Type: internal, Address: "fd00:0::0002"}, {Type: hostname, Address: "w1"}, {Type: hostname, Address: "w1"},
			},
			want: addresses{{Type: internal, Address: "fd00::2"}, {Type: hostname, Address: "w1"}},
		},
		{
			name:     "published as external only: internal is added",
			provided: "198.18.0.2",
			published: addresses{
				{Type: external, Address: "198.18.0.2"},
				{Type: dns, Address: "w1.example.org"},
				{Type: hostname, Address: "w1"},
			},
			want: addresses{
				{Type: internal, Address: "198.18.0.2"},
				{Type: external, Address: "198.18.0.2"},
				{Type: dns, Address: "w1.example.org"},
				{Type: hostname, Address: "w1"},
			},
		},
		{
			name:      "host name only",
			published: addresses{{Type: hostname, Address: "w1"}},
			wantErr:   "--node-ip",
		},
		{
			name:    "nothing at all",
			wantErr: "--node-ip",
		},
		{
			name:     "a --node-ip that is none",
			provided: "w1.example.org",
			wantErr:  `parse annotation alpha.kubernetes.io/provided-node-ip: could not parse "w1.example.org"`,
		},
		{
			name:     "two of one family",
			provided: "198.18.0.2,198.18.0.3",
			wantErr:  "dual-stack pair",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{Addresses: tt.published}}
			if tt.provided != "" {
				node.Annotations = map[string]string{cloudproviderapi.AnnotationAlphaProvidedIPAddr: tt.provided}
			}
			got, err := nodeAddresses(node)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got %v and error %v, want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if tt.provided == "" {
				return
			}
			if _, err := nodehelpers.GetNodeAddressesFromNodeIP(tt.provided, got); err != nil {
				t.Errorf("upstream would keep the taint: %v", err)
			}
		})
	}
}
