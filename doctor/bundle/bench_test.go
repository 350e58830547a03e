package bundle

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/doctor/diagnosis"
)

// machine is a Node as a kubelet and a cloud-controller-manager make it, as the doctor keeps it.
func machine(i int) corev1.Node {
	name := fmt.Sprintf("ip-10-%d-%d-7.eu-central-1.compute.internal", i/256, i%256)
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.Time{Time: taken}, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: "a", corev1.LabelTopologyRegion: "eu-central-1",
			corev1.LabelInstanceTypeStable: "m7i.2xlarge", corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			"example.com/pool": "workers-a", "node.kubernetes.io/instance-id": fmt.Sprintf("i-0123456789ab%05x", i),
		},
	}}
	n.Spec.PodCIDR, n.Spec.PodCIDRs = "10.244.1.0/24", []string{"10.244.1.0/24"}
	n.Spec.ProviderID = fmt.Sprintf("aws:///eu-central-1a/i-0123456789ab%05x", i)
	for reason, message := range map[string]string{
		"KubeletHasSufficientMemory": "kubelet has sufficient memory available",
		"KubeletHasNoDiskPressure":   "kubelet has no disk pressure",
		"KubeletHasSufficientPID":    "kubelet has sufficient PID available",
		"KubeletReady":               "kubelet is posting ready status",
	} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(reason[7:]), Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastHeartbeatTime: metav1.Time{Time: taken}, LastTransitionTime: metav1.Time{Time: taken},
		})
	}
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: "10.0.0.7"},
		{Type: corev1.NodeHostName, Address: name},
		{Type: corev1.NodeInternalDNS, Address: name},
	}
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "ec2a1b2c3d4e5f60718293a4b5c6d7e8", SystemUUID: "ec2a1b2c-3d4e-5f60-7182-93a4b5c6d7e8",
		BootID: "0c8d5b0e-6d2f-4a93-9b0c-1f2e3d4c5b6a", KernelVersion: "6.8.0-1021-aws", OSImage: "Ubuntu 24.04.2 LTS",
		ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.36.3", OperatingSystem: "linux",
		Architecture: "amd64",
	}
	return n
}

// BenchmarkBundle_Object takes credentials out of a snapshot of 5,000 Nodes.
func BenchmarkBundle_Object(b *testing.B) {
	s := &diagnosis.Snapshot{Taken: taken}
	for i := range 5000 {
		n := machine(i)
		s.Nodes = append(s.Nodes, n)
		s.Heartbeats = append(s.Heartbeats, coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: corev1.NamespaceNodeLease, Name: n.Name, CreationTimestamp: n.CreationTimestamp,
			},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: new(n.Name), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: taken},
			},
		})
	}
	for b.Loop() {
		New(taken).Object("snapshot.json", s)
	}
}
