package conformance_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"

	"github.com/ccmadm/ccmadm/provider/conformance"
)

// Upstream's fake keeps the rules, by InstancesV2 and by Instances. Those that it breaks are about what it does not
// model; they are named here, so that a fake that learns them is noticed.
func TestCluster_UpstreamFake(t *testing.T) {
	const young = "uninitialized-machine-keeps-its-node"             // it says no, and InstanceNotFound, about what it has not
	const alwaysExists = "load-balancer-is-deleted-with-its-service" // a field says that it exists, not what was ensured
	for _, tt := range []struct {
		name string
		v2   bool
		want []string
	}{
		{"instances v2", true, []string{young, alwaysExists}},
		{"instances v1", false, []string{young, alwaysExists}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := failed(t, conformance.Options{
				Config: plane.Config,
				New:    func() (conformance.Cloud, error) { return newFake(tt.v2).cloud(), nil },
			})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("rules that fail, -want +got:\n%s", diff)
			}
		})
	}
}

// lockedFake is upstream's fake, whose fields may be changed while controllers ask it.
type lockedFake struct {
	*fake.Cloud
	v2 bool
	mu sync.Mutex
}

func newFake(v2 bool) *lockedFake {
	return &lockedFake{v2: v2, Cloud: &fake.Cloud{
		DisableZones: true,
		Exists:       true,
		ExternalIP:   net.IPv4(198, 19, 0, 1),
		ProviderID:   map[types.NodeName]string{},
		ExtID:        map[types.NodeName]string{},
		RouteMap:     map[string]*fake.Route{},
	}}
}

func (f *lockedFake) InstancesV2() (cloudprovider.InstancesV2, bool) { return f, f.v2 }
func (f *lockedFake) Instances() (cloudprovider.Instances, bool)     { return f, !f.v2 }

func (f *lockedFake) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Err != nil {
		return "", f.Err // which upstream's looks at elsewhere only
	}
	if f.ExtID[name] == "" {
		return "", cloudprovider.InstanceNotFound
	}
	return f.Cloud.InstanceID(ctx, name)
}

func (f *lockedFake) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.NodeAddressesByProviderID(ctx, id)
}

func (f *lockedFake) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.NodeAddresses(ctx, name)
}

func (f *lockedFake) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.InstanceExistsByProviderID(ctx, id)
}

func (f *lockedFake) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.InstanceShutdownByProviderID(ctx, id)
}

func (f *lockedFake) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.InstanceExists(ctx, node)
}

func (f *lockedFake) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.InstanceShutdown(ctx, node)
}

func (f *lockedFake) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Cloud.InstanceMetadata(ctx, node)
}

// cloud returns the fake with the hooks that its fields allow: it has one answer for all machines, and its delay, which
// would be Slow, does not end with a context.
func (f *lockedFake) cloud() conformance.Cloud {
	change := func(to func()) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.Lock.Lock() // the fake's own, for routes
		defer f.Lock.Unlock()
		to()
		return nil
	}
	fault := func(on bool) {
		_ = change(func() {
			var err error
			if on {
				err = errors.New("no answer")
			}
			f.Err, f.MetadataErr, f.ErrByProviderID, f.ErrShutdownByProviderID = err, err, err, err
		})
	}
	return conformance.Cloud{
		Provider: f,
		Add: func(m conformance.Machine) error {
			return change(func() {
				f.ProviderID[types.NodeName(m.Name)] = "fake://" + m.UUID
				f.ExtID[types.NodeName(m.Name)] = m.UUID
				f.Addresses, f.ExistsByProviderID = m.Addresses, true
			})
		},
		Remove: func(m conformance.Machine) error {
			return change(func() {
				delete(f.ProviderID, types.NodeName(m.Name))
				delete(f.ExtID, types.NodeName(m.Name))
				f.ExistsByProviderID = false
			})
		},
		Stop:  func(conformance.Machine) error { return change(func() { f.NodeShutdown = true }) },
		Start: func(conformance.Machine) error { return change(func() { f.NodeShutdown = false }) },
		Faults: map[conformance.Fault]func(bool){
			conformance.Forbidden: fault, conformance.WrongProject: fault,
			conformance.Throttled: fault, conformance.Unavailable: fault,
		},
	}
}
