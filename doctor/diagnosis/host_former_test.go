package diagnosis

import (
	"testing"

	"github.com/ccmadm/ccmadm/templates"
)

// Components that were not started again after a renewal are one finding, with a command for each.
func TestDiagnose_Former(t *testing.T) {
	s := newSnapshot(templates.StaticPod, 1)
	end := taken.Add(1e16)
	s.Host = &Host{Name: "cp1", Node: "cp1", Certificates: []HostCertificate{
		{File: "/etc/kubernetes/controller-manager.conf", End: end, Former: "kube-controller-manager"},
		{File: "/etc/kubernetes/admin.conf", End: end},
		{File: "/etc/kubernetes/scheduler.conf", End: end, Former: "kube-scheduler"},
	}}
	const message = "kube-controller-manager was started before /etc/kubernetes/controller-manager.conf was renewed, and " +
		"kube-scheduler was started before /etc/kubernetes/scheduler.conf was renewed"
	const next = "crictl stop $(crictl ps -q --name '^kube-controller-manager$'); crictl stop $(crictl ps -q --name '^kube-scheduler$')"
	d := Diagnose(s)
	if len(d.Causes) != 1 || d.Causes[0].ID != "K22" || d.Causes[0].Message != message || d.Causes[0].Next != next {
		t.Errorf("got %+v", d.Causes)
	}
}
