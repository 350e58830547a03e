package e2e

import "testing"

const (
	vsphereCluster = "vSphere's own manager, static pod"
	sampleCluster  = "Upstream's sample of a manager, static pod"
)

// TestFaults_VSphere has a vendor's own manager as the victim, which logs in words of its own.
func TestFaults_VSphere(t *testing.T) {
	vendorsFaults(t, "vsphere", vsphereCluster, func(t *testing.T) *lab {
		l, _ := newVSphere(t, "faultsvsphere")
		return l
	})
}

// TestFaults_Sample has a manager that no profile knows.
func TestFaults_Sample(t *testing.T) {
	vendorsFaults(t, "sample", sampleCluster, func(t *testing.T) *lab { return newSample(t, "faultssample") })
}

func vendorsFaults(t *testing.T, vendor, cluster string, start func(*testing.T) *lab) {
	t.Parallel()
	l := &library{lab: start(t), cluster: cluster, table: &faultTable{rows: map[string][]string{}}}
	l.run(t, "network", "--name", l.name)
	l.kubectl(t, "wait --for=condition=Ready --timeout=240s node cp1 w1")
	l.all(t, faultsOfVendorsStaticPod(vendor))
	l.table.write(t, vendor, cluster)
}
