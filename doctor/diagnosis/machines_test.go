package diagnosis

import (
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// faults are what is wrong with a snapshot.
type faults []func(*Snapshot)

const onHostPath = "/etc/kubernetes/cloud-config"

// listing has the provider onprem lead as a static pod, with its files of the machine.
func listing(s *Snapshot) {
	s.Provider = onprem
	p := &s.Pods[0]
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0))}
	c := &p.Spec.Containers[0]
	c.Image, c.Args = "ghcr.io/ccmadm/cloud-controller-manager:dev", []string{"--cloud-provider=onprem"}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "config", MountPath: onHostPath}}
	p.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: onHostPath},
	}}}
	p.Status.ContainerStatuses[0].State.Running.StartedAt = ago(time.Hour)
}

// rejected is what the leader writes of a reading, so long ago.
func rejected(why string, when time.Duration) func(*Snapshot) {
	return func(s *Snapshot) {
		s.Inventory = v1alpha1.MachinesStale + why
		s.Events = append(s.Events, corev1.Event{
			InvolvedObject: corev1.ObjectReference{
				Kind: "ConfigMap", Namespace: v1alpha1.Namespace, Name: v1alpha1.LastGoodMachinesName,
			},
			Reason: "InventoryRejected", Message: "the last good inventory stays in use, and no Node is deleted: " + why,
			LastTimestamp: ago(when),
		})
	}
}

func deniedServices(s *Snapshot) { denied("watch", "", "services")(s) }

// noMap is how the API server answers whether the manager may read its list.
func noMap(s *Snapshot) {
	ask := authorizationv1.ResourceAttributes{
		Verb: "get", Resource: "configmaps", Namespace: v1alpha1.Namespace, Name: "ccmadm-machines",
	}
	s.Reviews = []nodes.Review{{User: "system:cloud-controller-manager", Asked: ask, Answer: "no"}}
	logged("nodes.go:144] \"Inventory rejected, the last good one stays\" err=\"Unreadable: configmaps \\\"ccmadm-machines\\\" is " +
		"forbidden: User \\\"system:cloud-controller-manager\\\" cannot get resource \\\"configmaps\\\" in API group \\\"\\\" in the " +
		"namespace \\\"kube-system\\\"\"")(s)
}

func confirmed(s *Snapshot) { s.Inventory = "Confirmed" }

func startedBefore(d time.Duration) func(*Snapshot) {
	return func(s *Snapshot) { s.Pods[0].Status.ContainerStatuses[0].State.Running.StartedAt = ago(d) }
}

// The texts are those of runs on machines.
func TestDiagnose_Inventory(t *testing.T) {
	const (
		file     = onHostPath + "/inventory.yaml"
		denied   = "Unreadable: open " + file + ": permission denied"
		correct  = "correct the list where it is kept, and before it is used: ccmadm machines check -f FILE"
		lastGood = `kubectl -n kube-system get configmap ccmadm-machines-last-good ` +
			`-o jsonpath='{.binaryData.inventory\.yaml\.gz}' | base64 -d | gunzip`
		chown = "on cp1: chown 0 " + file + " && chmod u+r " + file
	)
	line := func(why string) func(*Snapshot) {
		return logged(`E1122 node_controller.go:286] "Unhandled Error" err="error syncing 'w1': failed to get instance ` +
			`metadata for node w1: find the machine of Node/w1: there is no inventory: ` + why + `, requeuing"`)
	}
	for _, tt := range []struct {
		name       string
		changes    faults
		want, next string
	}{
		{"confirmed", faults{confirmed}, "", ""},
		{"a file without permissions", faults{rejected(denied, time.Minute)}, "M15(1)", chown},
		{"a file that is gone", faults{
			rejected("Unreadable: stat "+file+": no such file or directory", time.Minute),
		}, "M15(1)", "on cp1: " + lastGood + " > " + file},
		{"a file that is not the machine's", faults{
			rejected("Unreadable: open /var/run/list/inventory.yaml: permission denied", time.Minute),
		}, "M15(1)", correct},
		{"a file whose name a shell would read", faults{
			rejected("Unreadable: open /etc/kubernetes/cloud-config/$(reboot): permission denied", time.Minute),
		}, "M15(1)", correct},
		{"a user that only the image knows", faults{
			rejected(denied, time.Minute), func(s *Snapshot) { s.Pods[0].Spec.SecurityContext = nil },
		}, "M15(1)", correct},
		{
			"a ConfigMap that is gone",
			faults{rejected(`Unreadable: configmaps "ccmadm-machines" not found`, time.Minute)},
			"M15(1)", lastGood + " | kubectl -n kube-system create configmap ccmadm-machines " +
				"--from-file=inventory.yaml=/dev/stdin --dry-run=client -o yaml | " +
				"kubectl apply --server-side --field-manager=ccmadm -f -",
		},
		{
			"a ConfigMap that it may not read",
			faults{rejected(`Unreadable: configmaps "ccmadm-machines" is forbidden: User "x" cannot get resource`, time.Minute)},
			"M15(1)", "on cp1: ccmadm apply --force",
		},
		{
			"a ConfigMap that it may not read, as the API server says",
			faults{rejected(`Unreadable: configmaps "ccmadm-machines" is forbidden: User "x" cannot get resource`, time.Minute), noMap},
			"W11(1)>M15(1)", "on cp1: ccmadm apply --force",
		},
		{"a permission that is missing besides", faults{rejected(denied, time.Minute), deniedServices}, "D9(1) M15(1)", ""},
		{"no list", faults{rejected("Malformed: document 1: want apiVersion", time.Minute)}, "M15(1)", correct},
		{
			"a server that says 500",
			faults{rejected("Unreadable: get https://127.0.0.1:8443/machines.yaml: the server says 500", time.Minute)},
			"M15(1)", "nothing, once its server answers; to see its response: curl -sSi https://127.0.0.1:8443/machines.yaml",
		},
		{"noted by a manager that has ended", faults{rejected(denied, 2*time.Hour)}, "", ""},
		{"noted, and no Event of it lately", faults{
			rejected(denied, 20*time.Minute), startedBefore(2 * time.Hour),
		}, "", ""},
		{"told, and read again since", faults{rejected(denied, time.Minute), confirmed}, "", ""},
		{"told, and the last good one not seen", faults{rejected(denied, time.Minute), without(partInventory)}, "", ""},
		{"none at all, and a Node waits", faults{tainted, line(denied)}, "M1(1)>W9(3)>W10(1)", chown},
		{"none when it started, and one since", faults{
			tainted, logged("there is no inventory: "+denied, `I1122 watch.go:54] "Inventory read" serial=1`),
		}, "W9(4)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := Diagnose(newSnapshot(templates.StaticPod, 3, append(faults{listing}, tt.changes...)...))
			if got := words(d); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if tt.next != "" && (len(d.Causes) == 0 || d.Causes[0].Next != tt.next) {
				t.Errorf("got %+v, want next %s", d.Causes, tt.next)
			}
		})
	}
}
