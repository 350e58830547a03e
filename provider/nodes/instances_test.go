package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/ccmadm/ccmadm/api/config"
)

// reachable gives the machine an address.
func reachable(node *corev1.Node) *corev1.Node {
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "198.18.0.2"}, {Type: corev1.NodeHostName, Address: node.Name},
	}
	return node
}

func labelled(node *corev1.Node, labels map[string]string) *corev1.Node {
	node.Labels = labels
	return node
}

func TestInstanceMetadata(t *testing.T) {
	configured := config.OnPremConfiguration{Site: "ber1", Region: "ber", Zone: "ber-a", InstanceType: "r650"}
	labels := map[string]string{
		corev1.LabelTopologyRegion: "ham", corev1.LabelTopologyZone: "ham-b", corev1.LabelInstanceTypeStable: "r750",
	}
	betaLabels := map[string]string{
		corev1.LabelFailureDomainBetaRegion: "ham", corev1.LabelFailureDomainBetaZone: "ham-b", corev1.LabelInstanceType: "r750",
	}
	errCache := errors.New("no cache")
	for _, tt := range []struct {
		name     string
		config   config.OnPremConfiguration
		node     *corev1.Node
		cache    error
		want     cloudprovider.InstanceMetadata // without addresses
		wantWarn string
		wantErr  string
	}{
		{
			name:   "a new machine",
			config: configured,
			node:   reachable(machine("w1", uuidA, machineA)),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://ber1/" + uuidA, Region: "ber", Zone: "ber-a",
				InstanceType: "r650",
			},
		},
		{
			name:   "configuration wins over labels",
			config: configured,
			node:   labelled(reachable(machine("w1", uuidA, machineA)), labels),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://ber1/" + uuidA, Region: "ber", Zone: "ber-a",
				InstanceType: "r650",
			},
		},
		{
			name:   "labels stay where nothing is configured",
			config: config.OnPremConfiguration{Site: "default"},
			node:   labelled(reachable(machine("w1", uuidA, machineA)), labels),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://default/" + uuidA, Region: "ham", Zone: "ham-b",
				InstanceType: "r750",
			},
		},
		{
			name:   "labels of the old names count",
			config: config.OnPremConfiguration{Site: "default"},
			node:   labelled(reachable(machine("w1", uuidA, machineA)), betaLabels),
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://default/" + uuidA, Region: "ham", Zone: "ham-b",
				InstanceType: "r750",
			},
		},
		{
			name:   "our provider ID stays, whatever the machine shows by now",
			config: configured,
			node:   withProviderID(reachable(machine("w1", uuidA, machineA)), "onprem://old/"+machineB),
			cache:  errCache, // and nobody asks for the others
			want: cloudprovider.InstanceMetadata{
				ProviderID: "onprem://old/" + machineB, Region: "ber", Zone: "ber-a",
				InstanceType: "r650",
			},
		},
		{
			name:   "a foreign machine gets its own back and nothing else",
			config: configured,
			node:   withProviderID(reachable(machine("w1", uuidA, machineA)), "kwok://w1"),
			cache:  errCache,
			want:   cloudprovider.InstanceMetadata{ProviderID: "kwok://w1"},
		},
		{
			name:    "no identity before the other Nodes are known",
			config:  configured,
			node:    reachable(machine("w1", uuidA, machineA)),
			cache:   errCache,
			wantErr: "no cache",
		},
		{
			name:     "no address",
			config:   configured,
			node:     machine("w1", uuidA, machineA),
			wantWarn: "w1 NoAddress",
			wantErr:  "find addresses of Node/w1: the kubelet published no IP address: start it with --node-ip",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var warned string
			i := &instances{
				config: tt.config,
				nodes: func(context.Context) (cache.Indexer, error) {
					return indexed(t, []*corev1.Node{tt.node}), tt.cache
				},
				warn:    func(node *corev1.Node, reason, _ string) { warned = node.Name + " " + reason },
				metrics: newMetrics(nil, time.Now),
			}
			before := tt.node.DeepCopy()
			got, err := i.InstanceMetadata(t.Context(), tt.node)
			if diff := cmp.Diff(before, tt.node); diff != "" {
				t.Errorf("the Node was changed, -before +after:\n%s", diff)
			}
			if warned != tt.wantWarn {
				t.Errorf("got warning %q, want %q", warned, tt.wantWarn)
			}
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("got %+v and error %v, want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tt.want.NodeAddresses = tt.node.Status.Addresses
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// On no, or on an error today's lifecycle controller might one day take for no,
// a Node would be deleted.
func TestInstanceExists_NeverSaysNo(t *testing.T) {
	i := &instances{metrics: newMetrics(nil, time.Now)} // without an inventory
	for _, node := range []*corev1.Node{
		{},
		machine("w1", "", ""),
		withProviderID(machine("w1", uuidA, machineA), "onprem://elsewhere/gone"),
		withProviderID(machine("w1", uuidA, machineA), "kwok://w1"),
	} {
		if exists, err := i.InstanceExists(t.Context(), node); !exists || err != nil {
			t.Errorf("%q: InstanceExists is %v, %v", node.Spec.ProviderID, exists, err)
		}
		if off, err := i.InstanceShutdown(t.Context(), node); off || err != nil {
			t.Errorf("%q: InstanceShutdown is %v, %v", node.Spec.ProviderID, off, err)
		}
	}
}
