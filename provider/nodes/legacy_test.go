package nodes

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
)

func legacyOf(i *instances) *Legacy {
	served := &Nodes{instances: i, store: i.machines.store}
	return &Legacy{
		Ready:  func() (*Nodes, error) { return served, nil },
		Server: func() string { return "https://198.18.0.1:6443" },
	}
}

// The old interfaces say what InstancesV2 says.
func TestLegacy(t *testing.T) {
	node := withProviderID(shows("w1", uuidA), "onprem://ber1/r1")
	off := withProviderID(shows("w2", uuidC), "onprem://ber1/r2")
	foreign := withProviderID(shows("f", ""), "kwok://f")
	i, _ := withInventory(t, listed, node, off, foreign)
	l := legacyOf(i)
	ctx := t.Context()
	want, err := i.InstanceMetadata(ctx, node)
	if err != nil {
		t.Fatal(err)
	}
	const id = "onprem://ber1/r1"
	for _, tt := range []struct {
		name string
		ask  func() (any, error)
		want any
	}{
		{"NodeAddresses", func() (any, error) { return l.NodeAddresses(ctx, "w1") }, want.NodeAddresses},
		{
			"NodeAddressesByProviderID", func() (any, error) { return l.NodeAddressesByProviderID(ctx, id) },
			want.NodeAddresses,
		},
		{"InstanceID", func() (any, error) { return l.InstanceID(ctx, "w1") }, "ber1/r1"},
		{"InstanceType", func() (any, error) { return l.InstanceType(ctx, "w1") }, "generic"},
		{"InstanceTypeByProviderID", func() (any, error) { return l.InstanceTypeByProviderID(ctx, id) }, "generic"},
		{"CurrentNodeName", func() (any, error) { return l.CurrentNodeName(ctx, "w1") }, types.NodeName("w1")},
		{"InstanceExistsByProviderID", func() (any, error) { return l.InstanceExistsByProviderID(ctx, id) }, true},
		{"InstanceShutdownByProviderID", func() (any, error) { return l.InstanceShutdownByProviderID(ctx, id) }, false},
		{"InstanceShutdownByProviderID, off", func() (any, error) {
			return l.InstanceShutdownByProviderID(ctx,
				"onprem://ber1/r2")
		}, true},
		{
			"GetZoneByProviderID", func() (any, error) { return l.GetZoneByProviderID(ctx, id) },
			cloudprovider.Zone{FailureDomain: "ber-b", Region: "ber"},
		},
		{
			"GetZoneByNodeName", func() (any, error) { return l.GetZoneByNodeName(ctx, "w1") },
			cloudprovider.Zone{FailureDomain: "ber-b", Region: "ber"},
		},
		{"ListClusters", func() (any, error) { return l.ListClusters(ctx) }, []string{"ber1"}},
		{"Master", func() (any, error) { return l.Master(ctx, "ber1") }, "https://198.18.0.1:6443"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.ask()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// Whatever is asked for that is not there: a caller that is told InstanceNotFound
// would delete a Node.
func TestLegacy_NotThere(t *testing.T) {
	foreign := withProviderID(shows("f", ""), "kwok://f")
	twice := withProviderID(shows("g", ""), "kwok://twice")
	again := withProviderID(shows("h", ""), "kwok://twice")
	i, _ := withInventory(t, listed, foreign, twice, again)
	l := legacyOf(i)
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"there is none": func() error { _, err := l.NodeAddresses(ctx, "x"); return err },
		"there are 0": func() error {
			_, err := l.InstanceExistsByProviderID(ctx,
				"onprem://ber1/x")
			return err
		},
		"there are 2": func() error {
			_, err := l.InstanceTypeByProviderID(ctx,
				"kwok://twice")
			return err
		},
		"that of another provider":           func() error { _, err := l.InstanceID(ctx, "f"); return err },
		`this is "ber1"`:                     func() error { _, err := l.Master(ctx, "ham1"); return err },
		cloudprovider.NotImplemented.Error(): func() error { _, err := l.GetZone(ctx); return err },
	} {
		err := ask()
		if err == nil || !strings.Contains(err.Error(), name) || errors.Is(err, cloudprovider.InstanceNotFound) {
			t.Errorf("want an error with %q, got %v", name, err)
		}
	}
	if exists, _ := l.InstanceExistsByProviderID(ctx, "onprem://ber1/x"); !exists {
		t.Error("a machine without Node does not exist")
	}
	if err := l.AddSSHKeyToAllInstances(ctx, "", nil); !errors.Is(err, cloudprovider.NotImplemented) {
		t.Errorf("got %v", err)
	}
}
