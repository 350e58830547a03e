package phases

import (
	"os"
	"testing"

	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/machine/machinetest"
	"github.com/ccmadm/ccmadm/phases/kubelet"
	"github.com/ccmadm/ccmadm/phases/phasestest"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// The files that a kubelet's kubeconfig names are below the machine's root, as in a pod, and so is what their absolute
// links point at.
func TestCluster_KubeletConf_BelowTheRoot(t *testing.T) {
	m, _ := machinetest.New(t)
	user, err := phasestest.Cluster.Kubeconfig("system:node:w1", "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeletConf, string(user))
	config, err := identity.Kubeconfig(m, machine.KubeletConf)
	if err != nil {
		t.Fatal(err)
	}
	const pki = "/var/lib/kubelet/pki/"
	for _, c := range config.Clusters {
		machinetest.Put(t, m, machine.PKIDir+"/ca.crt", string(c.CertificateAuthorityData))
	}
	for _, user := range config.AuthInfos {
		machinetest.Put(t, m, pki+"kubelet-client-1.pem", string(user.ClientCertificateData)+string(user.ClientKeyData))
	}
	if err := os.Symlink(pki+"kubelet-client-1.pem", m.Path(pki+"kubelet-client-current.pem")); err != nil {
		t.Fatal(err)
	}
	machinetest.Put(t, m, machine.KubeletConf, `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "`+phasestest.Cluster.Config.Host+`", certificate-authority: pki/ca.crt}
users:
- name: u
  user: {client-certificate: `+pki+`kubelet-client-current.pem, client-key: `+pki+`kubelet-client-current.pem}
contexts:
- name: c
  context: {cluster: c, user: u}
current-context: c
`)
	r, _ := phasestest.Run{}.Must(t, m)
	client, err := workflow.Connect(r.Env, machine.KubeletConf)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().ServerVersion(); err != nil {
		t.Error(err)
	}
	if is := kubelet.WhoseMachine(m); is.Node != "w1" || len(is.CAs) != 1 {
		t.Errorf("it is the machine of %+v", is)
	}
}
