package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"

	"github.com/ccmadm/ccmadm/api/v1alpha1"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/phases/machine"
)

// registered asks the API server for the Node of this machine's kubelet, in its name: it may read its own and no other,
// and is told when there is none. A kubelet whose Node was deleted renews no Lease, and in the cluster nothing tells of
// it.
func (h *looking) registered(ctx context.Context) error {
	data, err := h.Read(machine.KubeletConf)
	if errors.Is(err, fs.ErrNotExist) || h.seen.Unit == nil || h.seen.Unit.PID == 0 {
		return nil // it has not come as far as that, which is another finding
	}
	if err != nil {
		return fmt.Errorf("read the kubelet's kubeconfig: %w", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		return fmt.Errorf("read the kubelet's kubeconfig: %w", err)
	}
	for _, file := range []*string{&config.CertFile, &config.KeyFile, &config.CAFile} {
		if filepath.IsAbs(*file) {
			*file = h.Path(*file)
		}
	}
	name, err := nodeOf(config)
	if name == "" || err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connect as this machine's kubelet: %w", err)
	}
	_, err = client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("get Node/%s as its kubelet: %w", name, err)
	}
	h.seen.Registered = &diagnosis.HostNode{Name: name, Missing: err != nil}
	return nil
}

// nodeOf is the Node whose kubelet signs in so; empty where nobody's does.
func nodeOf(config *rest.Config) (string, error) {
	data := config.CertData
	if len(data) == 0 && config.CertFile != "" {
		var err error
		if data, err = os.ReadFile(config.CertFile); err != nil {
			return "", fmt.Errorf("read the kubelet's certificate: %w", err)
		}
	}
	if len(data) == 0 {
		return "", nil
	}
	certs, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return "", fmt.Errorf("read the kubelet's certificate: %w", err)
	}
	name, is := strings.CutPrefix(certs[0].Subject.CommonName, v1alpha1.NodeUserPrefix)
	if !is {
		return "", nil
	}
	return name, nil
}
