package components

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/nodes"
	"github.com/ccmadm/ccmadm/templates"
)

// signed is within what time kube-controller-manager approves and signs; it takes a second.
const signed = time.Minute

// KubernetesSigners are those of kube-controller-manager.
func KubernetesSigners() []string {
	return []string{
		certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName,
		certificatesv1.KubeletServingSignerName,
	}
}

// Undone tells whether a request waits for kube-controller-manager: it is approved and has no certificate, or it is a kubelet's for its
// client certificate, which nothing has approved or denied. Who approves requests for serving certificates is another question.
func Undone(r *certificatesv1.CertificateSigningRequest) bool {
	if nodes.Unanswered(r) {
		return r.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName
	}
	return slices.Contains(KubernetesSigners(), r.Spec.SignerName) && len(r.Status.Certificate) == 0 && approvedAt(r) != nil
}

// requestName is a name that may become a part of a command: a snapshot may have been written by anyone.
var requestName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// approvedAt is when a request was approved; nil where it was not, or the signer has refused it.
func approvedAt(r *certificatesv1.CertificateSigningRequest) *time.Time {
	var at *time.Time
	for _, c := range r.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved:
			at = &c.LastUpdateTime.Time
		case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return nil
		}
	}
	return at
}

// JudgeSigning finds certificate requests that kube-controller-manager leaves undone. One finding for all of a kind: what is wrong is wrong
// with the controller.
func JudgeSigning(seen *Seen, cluster Cluster) []finding.Finding {
	if seen == nil {
		return nil
	}
	j := judge{Seen: seen, Cluster: cluster}
	var unsigned, unapproved []*certificatesv1.CertificateSigningRequest
	for i := range j.Undone {
		r := &j.Undone[i]
		at := approvedAt(r)
		switch {
		case at != nil && j.Now.Sub(*at) > signed:
			unsigned = append(unsigned, r)
		case at == nil && nodes.Unanswered(r) && j.Now.Sub(r.CreationTimestamp.Time) > signed:
			unapproved = append(unapproved, r)
		}
	}
	var list []finding.Finding
	if len(unsigned) > 0 {
		r := unsigned[0]
		why, next := j.whyUnsigned(r)
		f := finding.NotSigned.New("CertificateSigningRequest/"+r.Name, fmt.Sprintf("%s of signer %s: approved %s ago, and no certificate since",
			finding.Count(len(unsigned), "request"), r.Spec.SignerName, j.Now.Sub(*approvedAt(r)).Round(time.Second))+why)
		f.Next = next
		list = append(list, f)
	}
	if len(unapproved) > 0 {
		r := unapproved[0]
		f := finding.ClientRequest.New("CertificateSigningRequest/"+r.Name, fmt.Sprintf(
			"%s for a kubelet's client certificate, of %s: not approved for %s",
			finding.Count(len(unapproved), "request"), r.Spec.Username, j.Now.Sub(r.CreationTimestamp.Time).Round(time.Second))+j.whyOff(approving))
		f.Next = look(r.Name)
		if requestName.MatchString(r.Name) {
			f.Next += "; only if that is the Node of a machine that you join: kubectl certificate approve " + r.Name
		}
		list = append(list, f)
	}
	return list
}

// whyOff says that a controller is switched off on the control plane that is active, as far as is known.
func (j *judge) whyOff(name string) string {
	for _, c := range controllers() {
		if c.names[0] != name {
			continue
		}
		for _, p := range j.of(ControllerManager) {
			if _, off := c.off(templates.OwnContainer(&p.Spec, ControllerManager)); off {
				return "; kube-controller-manager on " + p.Spec.NodeName + " has --controllers without " + name
			}
		}
	}
	return ""
}

// whyUnsigned says what keeps kube-controller-manager from signing, and what shows more. Its signers start with a certificate and a key,
// those for all signers or for one of them (kubernetes cmd/kube-controller-manager/app/certificates.go). Where the key of the CA is not on
// the machine, kubeadm writes these flags with empty values (kubernetes cmd/kubeadm/app/phases/controlplane).
func (j *judge) whyUnsigned(r *certificatesv1.CertificateSigningRequest) (why, next string) {
	next = "on each control plane: grep -n -e --controllers -e --cluster-signing /etc/kubernetes/manifests/kube-controller-manager.yaml"
	if why := j.whyOff(signing); why != "" {
		return why, next
	}
	_, kind, _ := strings.Cut(r.Spec.SignerName, "/")
	for _, p := range j.of(ControllerManager) {
		args := templates.ReadArgs(*templates.OwnContainer(&p.Spec, ControllerManager))
		has := func(pair string) (both, given bool) {
			cert, is := templates.LookupArg(args, "cluster-signing-"+pair+"cert-file")
			key, isKey := templates.LookupArg(args, "cluster-signing-"+pair+"key-file")
			return cert.Value != "" && key.Value != "", is || isKey
		}
		all, empty := has("")
		one, partly := has(kind + "-")
		switch {
		case all || one:
		case empty && !partly:
			return "; kube-controller-manager on " + p.Spec.NodeName + " has --cluster-signing-cert-file or --cluster-signing-key-file " +
				"without a value, as kubeadm writes them where the CA is external: sign it with the external CA's key, " +
				"and write status.certificate", look(r.Name)
		default:
			return "; kube-controller-manager on " + p.Spec.NodeName + " has neither --cluster-signing-cert-file and --cluster-signing-key-file " +
				"nor --cluster-signing-" + kind + "-cert-file and -key-file", next
		}
	}
	return "", next
}

// look is the command that shows for which Node a request is: its name and that of who sent it do not tell.
func look(name string) string {
	if !requestName.MatchString(name) {
		return "kubectl get csr"
	}
	return "kubectl get csr " + name + " -o jsonpath={.spec.request} | base64 -d | openssl req -noout -subject"
}
