package main

import (
	"fmt"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
)

// join has kubelets register Nodes with their addresses, and waits until all are initialized.
func (tr *trial) join(nodes map[string]string) {
	tr.Helper()
	for name, ip := range nodes {
		onlyRegisters(tr.T, name, ip)
	}
	for name := range nodes {
		initialized(tr.T, name)
	}
}

func (tr *trial) delete(node string) {
	tr.Helper()
	if err := tr.admin.CoreV1().Nodes().Delete(tr.Context(), node, metav1.DeleteOptions{}); err != nil {
		tr.Fatal(err)
	}
}

// claim has the kubelet of a Node say that it has these addresses. In the status of its Node it may not write them.
func (tr *trial) claim(node, ips string) {
	tr.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.ProvidedNodeIPAnnotation, ips)
	if _, err := tr.kubelet(node).CoreV1().Nodes().Patch(tr.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		tr.Fatal(err)
	}
	policyHoldsFor(tr.T, tr.kubelet(node), node)
}

// floods asks hundreds of times for another machine's address, while the honest kubelets ask.
func (tr *trial) floods(node, ip string, honest map[string]string) {
	tr.Helper()
	const many, workers, first = 400, 8, 100
	csr := signed(tr.T, node, ip, nil)
	requests := tr.kubelet(node).CertificatesV1().CertificateSigningRequests()
	made := make(chan *certificatesv1.CertificateSigningRequest, many)
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for range many / workers {
				now, err := requests.Create(tr.Context(), csr, metav1.CreateOptions{})
				if err != nil {
					tr.Error(err)
					now = csr
				}
				made <- now
			}
		})
	}
	for i := range many {
		now := <-made
		tr.flood[now.UID] = fmt.Sprintf("one of %d requests of one kubelet", many)
		if i == first {
			for node, ip := range honest {
				tr.serves(node, ip)
			}
		}
	}
	all.Wait()
	for node, ip := range honest {
		tr.serves(node, ip)
	}
}

// deleted has somebody ask under the name of a Node that is deleted, for what the next machine of that name has.
func (tr *trial) deleted() {
	tr.Helper()
	const next = "198.18.5.63"
	tr.held(tr.ask(forgery{what: "a Node that will be deleted", as: "ghost", ip: next, want: "AddressNotOfNode"}))
	tr.delete("ghost")
	tr.held(tr.ask(forgery{what: "a Node that was deleted", as: "ghost", ip: next, want: "NoNode"}))
	late := map[types.UID]forgery{}
	for uid, what := range tr.forged {
		if what == "a Node that will be deleted" || what == "a Node that was deleted" {
			late[uid] = forgery{what: what + ", and came again", want: "OlderThanNode"}
		}
	}
	passes(tr.T, metav1.Now())
	tr.join(map[string]string{"ghost": next})
	tr.serves("ghost", next)
	tr.held(late)
}
