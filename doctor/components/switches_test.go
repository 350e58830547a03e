package components

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// with gives arguments to a component, in the place of those of the same names, on one machine or, without a name, on all.
func with(component, node string, args ...string) func(*world) {
	return func(w *world) {
		for _, p := range w.pods {
			if p.Labels[v1alpha1.ComponentLabel] == component && (node == "" || p.Spec.NodeName == node) {
				command := slices.DeleteFunc(p.Spec.Containers[0].Command, func(arg string) bool {
					name, _, _ := strings.Cut(arg, "=")
					return slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, name+"=") })
				})
				p.Spec.Containers[0].Command = append(command, args...)
			}
		}
	}
}

// networks gives each Node one for its pods.
func networks(w *world) {
	for i := range w.Nodes {
		w.Nodes[i].Spec.PodCIDRs = []string{fmt.Sprintf("10.244.%d.0/24", i)}
	}
}

// request is a certificate request of that age; approved says for how long it has been, 0: it is not.
func request(signer string, age, approved time.Duration, changes ...func(*certificatesv1.CertificateSigningRequest)) func(*world) {
	return func(w *world) {
		r := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csr-%d", len(w.Undone)), CreationTimestamp: ago(age)}}
		r.Spec.SignerName, r.Spec.Username = signer, "system:bootstrap:abcdef"
		if approved > 0 {
			r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, LastUpdateTime: ago(approved),
			})
		}
		for _, change := range changes {
			change(&r)
		}
		if Undone(&r) { // as a snapshot keeps them
			w.Undone = append(w.Undone, r)
		}
	}
}

// peer is what etcd logs of a member that it does not reach.
func peer(address string, age time.Duration) func(*world) {
	return func(w *world) {
		w.logs["etcd-cp1"] = append(w.logs["etcd-cp1"], `{"level":"warn","ts":"`+now.Add(-age).Format("2006-01-02T15:04:05.000000Z0700")+
			`","caller":"rafthttp/probing_status.go:68","msg":"prober detected unhealthy status","round-tripper-name":"ROUND_TRIPPER_SNAPSHOT",`+
			`"remote-peer-id":"91bc3c398fb3c146","rtt":"0s","error":"dial tcp `+address+`: connect: connection refused"}`)
	}
}

// etcdLogs has etcd log something.
func etcdLogs(caller, says string, age time.Duration) func(*world) {
	return func(w *world) {
		w.logs["etcd-cp1"] = append(w.logs["etcd-cp1"], `{"level":"warn","ts":"`+now.Add(-age).Format("2006-01-02T15:04:05.000000Z0700")+
			`","caller":"`+caller+`",`+says+`}`)
	}
}

// members gives each Node an address, by which members of etcd reach each other.
func members(w *world) {
	for i := range w.Nodes {
		n := &w.Nodes[i]
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.0.2.%d", i+1)}}
		with(Etcd, n.Name, "--initial-advertise-peer-urls=https://"+n.Status.Addresses[0].Address+":2380")(w)
	}
}

// judgeControl is what is judged of what the control plane has to do.
func (w *world) judgeControl() []finding.Finding {
	c := Collector{Trim: func(*corev1.Pod) {}}
	for _, p := range w.pods {
		c.Pod(beside(p))
	}
	seen := c.Seen(w.Nodes)
	for pod, lines := range w.logs {
		seen.KeepLog(pod, lines)
	}
	return slices.Concat(JudgeSwitches(seen, w.Cluster), JudgeNetworks(seen, w.Cluster), JudgeSigning(seen, w.Cluster), JudgeEtcd(seen, w.Cluster))
}

// control is a change of what the control plane has to do.
type control struct {
	name    string
	changes []func(*world)
	// want are ID, object and words of the message of each finding, next words of its remedy.
	want []string
	next string
}

// asKubeadm gives components the flags that kubeadm writes.
func asKubeadm(w *world) {
	with(ControllerManager, "", "--controllers=*,bootstrapsigner,tokencleaner", "--allocate-node-cidrs=true",
		"--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt", "--cluster-signing-key-file=/etc/kubernetes/pki/ca.key")(w)
	with(APIServer, "", "--runtime-config=api/alpha=false,resource.k8s.io/v1beta1=true")(w)
}

func judgeControls(t *testing.T, list []control) {
	t.Helper()
	for _, tt := range list {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			asKubeadm(w)
			for _, change := range tt.changes {
				change(w)
			}
			found := w.judgeControl()
			var got []string
			next := false
			for _, f := range found {
				got = append(got, string(f.ID)+" "+f.Object+" "+f.Message)
				next = next || strings.Contains(f.Next, tt.next)
			}
			slices.Sort(got)
			same := len(got) == len(tt.want)
			for i := range min(len(got), len(tt.want)) {
				id, words, _ := strings.Cut(tt.want[i], " ")
				object, words, _ := strings.Cut(words, " ")
				same = same && strings.HasPrefix(got[i], id+" "+object+" ") && strings.Contains(got[i], words)
			}
			if !same || len(got) > 0 && !next {
				t.Errorf("got %q, want %q, with next %q", got, tt.want, tt.next)
			}
		})
	}
}

func TestJudgeSwitches(t *testing.T) {
	judgeControls(t, []control{
		{name: "healthy"},
		{
			name: "a controller is switched off on all", changes: []func(*world){with(ControllerManager, "", "--controllers=*,bootstrapsigner,tokencleaner,-csrsigning")},
			want: []string{"Q17 Node/cp1 kube-controller-manager on cp1, cp2, cp3 has --controllers without csrsigning (approved"},
			next: `sed -i -e 's/,-csrsigning\(,\|$\)/\1/' -e 's/=-csrsigning,/=/' -e '/--controllers=-csrsigning$/d' ` +
				`/etc/kubernetes/manifests/kube-controller-manager.yaml`,
		},
		{
			name: "the flag is given again, which adds to it", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-job", "--controllers=bootstrapsigner")},
			want: []string{"Q17 Node/cp1 without job (Jobs get no pods)"}, next: `'s/,-job\(,\|$\)/\1/'`,
		},
		{name: "all are switched on where the flag is given again", changes: []func(*world){with(ControllerManager, "", "--controllers=deployment", "--controllers=*")}},
		{
			name: "by its long name, on one", changes: []func(*world){with(ControllerManager, "cp2", "--controllers=-daemonset-controller,*")},
			want: []string{"Q17 Node/cp2 without daemonset (new Nodes"}, next: `'s/=-daemonset-controller,/=/'`,
		},
		{
			name: "only some are switched on", changes: []func(*world){with(ControllerManager, "", "--controllers=deployment,replicaset"), networks},
			want: []string{"Q17 Node/cp1 daemonset"}, next: "grep -n -e --controllers",
		},
		{name: "one that nothing depends on", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-ttl,-horizontalpodautoscaling,-cloud-node-lifecycle")}},
		{name: "networks are given by another", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-nodeipam", "--allocate-node-cidrs=false")}},
		{name: "networks are given by another, and the controller is off", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-nodeipam"), networks}},
		{
			name: "no networks are given", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-nodeipam"), networks, func(w *world) {
				w.Nodes[4].Spec.PodCIDRs = nil
				w.Skip = func(node string) bool { return node == "w2" } // without a network of pods it is not Ready
			}},
			want: []string{"Q17 Pod/kube-system/kube-controller-manager-cp1 on cp1, cp2, cp3 has --controllers without nodeipam (new Nodes get no network for pods), " +
				"and of the Nodes that are not Ready these have none: w2;"},
			next: "kubectl get nodes -o custom-columns",
		},
		{
			name: "all networks are given", changes: []func(*world){with(ControllerManager, "", "--cluster-cidr=10.244.0.0/22"), networks, func(w *world) {
				w.Nodes[4].Spec.PodCIDRs = nil
			}},
			want: []string{"F5 Node/w2 10.244.0.0/22 is used up: all 4 networks of size /24 are given"}, next: "kubectl get nodes -o custom-columns",
		},
		{name: "one network is left", changes: []func(*world){with(ControllerManager, "", "--cluster-cidr=10.244.0.0/22"), networks, func(w *world) {
			w.Nodes[3].Spec.PodCIDRs, w.Nodes[4].Spec.PodCIDRs = nil, nil
		}}},
		{name: "smaller networks are left", changes: []func(*world){
			with(ControllerManager, "", "--cluster-cidr=10.244.0.0/22", "--node-cidr-mask-size=25"), networks,
			func(w *world) { w.Nodes[4].Spec.PodCIDRs = nil },
		}},
		{name: "the network add-on needs none", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-nodeipam"), func(w *world) {
			for i := range w.Nodes {
				w.Nodes[i].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}
		}}},
		{name: "a new Node has no network yet", changes: []func(*world){with(ControllerManager, "", "--controllers=*,-nodeipam"), networks, func(w *world) {
			w.Nodes[4].Spec.PodCIDRs, w.Nodes[4].CreationTimestamp = nil, ago(10*time.Second)
		}}},
		{name: "switched off and on: the first counts", changes: []func(*world){with(ControllerManager, "", "--controllers=job,-job,*")}},
		{
			name: "an API is switched off", changes: []func(*world){with(APIServer, "cp1", "--runtime-config=api/alpha=true,discovery.k8s.io/v1=false")},
			want: []string{"Q16 Node/cp1 --runtime-config discovery.k8s.io/v1=false"}, next: `-e 's/,discovery.k8s.io\/v1=false\(,\|$\)/\1/'`,
		},
		{
			name: "an API is switched off by a number, and the flag is given again", changes: []func(*world){
				with(APIServer, "cp1", "--runtime-config=discovery.k8s.io/v1=0", "--runtime-config=api/alpha=true"),
			},
			want: []string{"Q16 Node/cp1 --runtime-config discovery.k8s.io/v1=0"}, next: `-e '/--runtime-config=discovery.k8s.io\/v1=0$/d'`,
		},
		{name: "an API is switched on again", changes: []func(*world){
			with(APIServer, "cp1", "--runtime-config=apps/v1=false,apps/v1/daemonsets=False", "--runtime-config=apps/v1,apps/v1/daemonsets=T"),
		}},
		{
			name: "a resource is switched off", changes: []func(*world){with(APIServer, "", "--runtime-config=apps/v1/daemonsets=false")},
			want: []string{"Q16 Node/cp1 apps/v1/daemonsets=false", "Q16 Node/cp2 apps/v1/daemonsets=false", "Q16 Node/cp3 apps/v1/daemonsets=false"},
		},
		{
			name: "all that is stable is switched off but one", changes: []func(*world){with(APIServer, "cp1", "--runtime-config=api/ga=false,apps/v1=true")},
			want: []string{"Q16 Node/cp1 api/ga=false, which switches off admissionregistration.k8s.io/v1"},
		},
		{
			name: "a list is not served, and no flag says why", changes: []func(*world){func(w *world) { w.NotServed = []string{"deployments"} }},
			want: []string{"Q16 APIService/deployments 404 to lists of deployments"},
		},
	})
}

func TestJudgeSigning(t *testing.T) {
	const kubelet, serving = certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName
	failed := func(r *certificatesv1.CertificateSigningRequest) {
		r.Status.Conditions = append(r.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateFailed})
	}
	judgeControls(t, []control{
		{
			name: "approved, and not signed", changes: []func(*world){request(serving, time.Hour, 5*time.Minute), request(kubelet, time.Hour, 4*time.Minute)},
			want: []string{"I3 CertificateSigningRequest/csr-0 2 requests of signer kubernetes.io/kubelet-serving: approved 5m0s ago"},
		},
		{
			name: "and the signer has no certificate", changes: []func(*world){request(serving, time.Hour, 5*time.Minute), func(w *world) {
				for _, p := range w.pods {
					if p.Labels[v1alpha1.ComponentLabel] == ControllerManager {
						p.Spec.Containers[0].Command = p.Spec.Containers[0].Command[:1]
					}
				}
			}},
			want: []string{"I3 CertificateSigningRequest/csr-0 has neither --cluster-signing-cert-file and --cluster-signing-key-file nor --cluster-signing-kubelet-serving-cert-file"},
			next: "grep -n -e --controllers -e --cluster-signing",
		},
		{
			name: "and the CA is external", changes: []func(*world){
				request(serving, time.Hour, 5*time.Minute), with(ControllerManager, "", "--cluster-signing-cert-file=", "--cluster-signing-key-file="),
			},
			want: []string{"I3 CertificateSigningRequest/csr-0 as kubeadm writes them where the CA is external: sign it with the external CA's key, and write status.certificate"},
			next: "kubectl get csr csr-0 -o jsonpath={.spec.request} | base64 -d | openssl req -noout -subject",
		},
		{
			name: "and the signer of these has files of its own", changes: []func(*world){
				request(serving, time.Hour, 5*time.Minute), with(ControllerManager, "", "--cluster-signing-cert-file=", "--cluster-signing-key-file=",
					"--cluster-signing-kubelet-serving-cert-file=x", "--cluster-signing-kubelet-serving-key-file="),
			},
			want: []string{"I3 CertificateSigningRequest/csr-0 has neither"}, next: "grep -n",
		},
		{name: "approved a moment ago", changes: []func(*world){request(serving, time.Hour, 20*time.Second)}},
		{name: "approved, and the signer has refused it", changes: []func(*world){request(serving, time.Hour, 5*time.Minute, failed)}},
		{name: "of a signer that is not Kubernetes'", changes: []func(*world){request("example.org/signer", time.Hour, 5*time.Minute)}},
		{name: "serving certificates wait for an approver", changes: []func(*world){request(serving, time.Hour, 0)}},
		{
			name: "a kubelet's request is not approved", changes: []func(*world){request(kubelet, 3*time.Minute, 0)},
			want: []string{"I4 CertificateSigningRequest/csr-0 of system:bootstrap:abcdef: not approved for 3m0s"}, next: "kubectl get csr csr-0 -o jsonpath={.spec.request} | base64 -d | openssl req -noout -subject; only if that is the Node of a machine " +
				"that you join: kubectl certificate approve csr-0",
		},
		{
			name: "and the approver is switched off", changes: []func(*world){request(kubelet, 3*time.Minute, 0), with(ControllerManager, "", "--controllers=*,-csrapproving")},
			want: []string{
				"I4 CertificateSigningRequest/csr-0 kube-controller-manager on cp1 has --controllers without csrapproving",
				"Q17 Node/cp1 csrapproving (machines that join",
			},
		},
		{name: "a request of a moment ago", changes: []func(*world){request(kubelet, 10*time.Second, 0)}},
	})
}

func TestJudgeEtcd(t *testing.T) {
	judgeControls(t, []control{
		{
			name: "a member of etcd that no Node has", changes: []func(*world){members, peer("192.0.2.99:2380", 10*time.Second), peer("192.0.2.99:2380", 5*time.Second)},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 does not reach member 91bc3c398fb3c146 at 192.0.2.99:2380, and no Node has its address"},
			next: "--cacert=/srv/pki/etcd/ca.crt --cert=/srv/pki/etcd/healthcheck-client.crt --key=/srv/pki/etcd/healthcheck-client.key member remove 91bc3c398fb3c146",
		},
		{
			name: "a member that no Node has, and a Node that was not initialized", changes: []func(*world){members, peer("192.0.2.99:2380", 5*time.Second), func(w *world) {
				w.Nodes[4].Status.Addresses[0].Type = corev1.NodeHostName
			}},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 Node w2 has no address"}, next: "healthcheck-client.key member list -w table",
		},
		{
			name: "a member that no Node has, and one that is not ready", changes: []func(*world){members, peer("192.0.2.99:2380", 5*time.Second), func(w *world) {
				for _, p := range w.pods {
					if p.Name == "etcd-cp3" {
						p.Status.Conditions[0].Status = corev1.ConditionFalse
					}
				}
			}},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 etcd on cp3 is not ready"}, next: "healthcheck-client.key member list -w table",
		},
		{
			name: "members with a network of their own", changes: []func(*world){
				members, with(Etcd, "cp2", "--initial-advertise-peer-urls=https://198.51.100.2:2380"), peer("198.51.100.3:2380", 5*time.Second),
			},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 peer URL of etcd on cp2 has no address of the Node"}, next: "healthcheck-client.key member list -w table",
		},
		{
			name: "the clock here is ahead of etcd's", changes: []func(*world){members, peer("192.0.2.99:2380", 5*time.Second), func(w *world) {
				w.Now = w.Now.Add(time.Minute)
			}},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 does not reach member 91bc3c398fb3c146 at 192.0.2.99:2380"},
		},
		{name: "a member that was not reached half a minute ago", changes: []func(*world){peer("192.0.2.99:2380", 30*time.Second), func(w *world) {
			w.logs["etcd-cp1"] = append(w.logs["etcd-cp1"], `{"level":"info","ts":"`+now.Format(time.RFC3339)+`","msg":"peer became active"}`)
		}}},
		{name: "a member that has been ready since", changes: []func(*world){peer("192.0.2.3:2380", 5*time.Second), func(w *world) {
			w.Nodes[2].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}}
			for _, p := range w.pods {
				if p.Name == "etcd-cp3" {
					p.Status.Conditions[0].LastTransitionTime = ago(8 * time.Second)
				}
			}
		}}},
		{name: "a member that was not reached an hour ago", changes: []func(*world){peer("192.0.2.99:2380", time.Hour)}},
		{name: "a member whose Node is not Ready", changes: []func(*world){peer("192.0.2.3:2380", 5*time.Second), func(w *world) {
			w.Nodes[2].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}}
			w.Skip = func(node string) bool { return node == "cp3" }
		}}},
		{
			name: "a member that is ready", changes: []func(*world){peer("192.0.2.3:2380", 5*time.Second), func(w *world) {
				w.Nodes[2].Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.3"}}
			}},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 it is that of Node cp3, whose etcd is ready"}, next: "on cp1: nc -vz 192.0.2.3 2380",
		},
		{
			name: "a member whose certificate has ended", changes: []func(*world){members, etcdLogs("", `"msg":"prober detected unhealthy status",`+
				`"remote-peer-id":"91bc3c398fb3c146","error":"remote error: tls: expired certificate"`, 2*time.Second)},
			want: []string{"Q18 Pod/kube-system/etcd-cp1 do not accept each other's certificate: remote error: tls: expired certificate"},
			next: "on each control plane: openssl x509 -noout -dates -issuer -in /srv/pki/etcd/peer.crt",
		},
		{
			name: "its disk is slow", changes: []func(*world){etcdLogs("wal/wal.go:824", `"msg":"slow fdatasync","took":"4.1s","expected-duration":"1s"`, 2*time.Second)},
			want: []string{"Q20 Pod/kube-system/etcd-cp1 etcd on cp1 logs: slow fdatasync took 4.1s"}, next: "on cp1: ",
		},
		{name: "its disk was slow", changes: []func(*world){
			etcdLogs("wal/wal.go:824", `"msg":"slow fdatasync","took":"4.1s"`, 30*time.Second), etcdLogs("x", `"msg":"x"`, time.Second),
		}},
		{name: "a request took long", changes: []func(*world){etcdLogs("x", `"msg":"apply request took too long","took":"200ms"`, time.Second)}},
		{name: "etcd is not kubeadm's", changes: []func(*world){peer("192.0.2.99:2380", 5*time.Second), func(w *world) { w.ExternalEtcd = true }}},
	})
}
