package host

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/yaml"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/redact"
	"github.com/ccmadm/ccmadm/doctor/components"
	"github.com/ccmadm/ccmadm/doctor/diagnosis"
	"github.com/ccmadm/ccmadm/kubeadm/identity"
	"github.com/ccmadm/ccmadm/machine"
)

// manifests reads every file that the kubelet would take for a static pod.
func (h *looking) manifests() error {
	dir := cmp.Or(h.kubelet.StaticPodPath, machine.ManifestDir)
	entries, err := os.ReadDir(h.Path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list static pods: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue // as the kubelet does
		}
		m := diagnosis.HostManifest{File: filepath.Join(dir, e.Name())}
		data, err := h.Read(m.File)
		if errors.Is(err, fs.ErrPermission) {
			return err
		}
		if err == nil {
			err = h.readManifest(&m, data)
		}
		if err != nil {
			m.Error = finding.Clean(redact.Text(err.Error()))
		}
		h.seen.Manifests = append(h.seen.Manifests, m)
	}
	return nil
}

// readManifest reads one as the kubelet does: with the form of a Pod of v1.
func (h *looking) readManifest(m *diagnosis.HostManifest, data []byte) error {
	var pod corev1.Pod
	if err := yaml.Unmarshal(data, &pod); err != nil {
		return fmt.Errorf("it is no Pod: %w", err)
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" {
		return fmt.Errorf("it is no Pod of v1: kind %q, apiVersion %q", pod.Kind, pod.APIVersion)
	}
	if pod.Name == "" || len(pod.Spec.Containers) == 0 {
		return errors.New("it has no name, or no containers")
	}
	m.Pod = cmp.Or(pod.Namespace, metav1.NamespaceDefault) + "/" + pod.Name
	m.Refers = apiReferences(&pod.Spec)
	if pod.Name == components.APIServer {
		h.serves = bindAddress(&pod.Spec)
	}
	if pod.Spec.HostNetwork {
		m.Ports = hostPorts(&pod.Spec)
	}
	return nil
}

// apiReferences are those that the kubelet refuses in a static pod since 1.34.
func apiReferences(s *corev1.PodSpec) []string {
	var list []string
	if s.ServiceAccountName != "" {
		list = append(list, "serviceaccount "+s.ServiceAccountName)
	}
	for _, v := range s.Volumes {
		switch {
		case v.Secret != nil:
			list = append(list, "secret "+v.Secret.SecretName)
		case v.ConfigMap != nil:
			list = append(list, "configmap "+v.ConfigMap.Name)
		case v.Projected != nil:
			list = append(list, "projected volume "+v.Name)
		case v.PersistentVolumeClaim != nil:
			list = append(list, "persistentvolumeclaim "+v.PersistentVolumeClaim.ClaimName)
		}
	}
	for _, c := range slices.Concat(s.InitContainers, s.Containers) {
		for _, e := range c.EnvFrom {
			if e.SecretRef != nil || e.ConfigMapRef != nil {
				list = append(list, "envFrom of container "+c.Name)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && (e.ValueFrom.SecretKeyRef != nil || e.ValueFrom.ConfigMapKeyRef != nil) {
				list = append(list, "variable "+e.Name)
			}
		}
	}
	return list
}

// hostPorts are those that containers name, and that arguments set.
func hostPorts(s *corev1.PodSpec) []int {
	var list []int
	for _, c := range s.Containers {
		for _, p := range c.Ports {
			list = append(list, int(p.ContainerPort))
		}
		for _, port := range valuesOf(&c, "--secure-port=") {
			if n, err := strconv.Atoi(port); err == nil && n > 0 {
				list = append(list, n)
			}
		}
	}
	return list
}

// bindAddress is the address of this machine at which a static pod listens: that of --bind-address, or else a loopback one, since it is all.
func bindAddress(s *corev1.PodSpec) string {
	for _, c := range s.Containers {
		for _, text := range valuesOf(&c, "--bind-address=") {
			if addr, err := netip.ParseAddr(text); err == nil && !addr.IsUnspecified() {
				return addr.String()
			}
		}
	}
	return "127.0.0.1"
}

// valuesOf are those of a flag on a container's command line, as kubeadm writes it: --NAME=VALUE.
func valuesOf(c *corev1.Container, flag string) []string {
	var values []string
	for _, arg := range slices.Concat(c.Command, c.Args) {
		if value, is := strings.CutPrefix(arg, flag); is {
			values = append(values, value)
		}
	}
	return values
}

// certificates reads the ends of those that kubeadm and ccmadm made, and of the kubelet's.
func (h *looking) certificates() error {
	certsDir, err := identity.CertificatesDir(h.Machine)
	if err != nil {
		return err
	}
	var errs []error
	keep := func(file string, cert *x509.Certificate, err error, renew string, rotated bool) {
		switch {
		case errors.Is(err, fs.ErrNotExist) || err == nil && cert == nil:
		case err != nil:
			errs = append(errs, err)
		default:
			h.seen.Certificates = append(h.seen.Certificates, diagnosis.HostCertificate{
				File: file, Begin: cert.NotBefore.UTC(), End: cert.NotAfter.UTC(), Renew: renew, Rotated: rotated,
				Former: h.former(file, cert.NotAfter),
			})
		}
	}
	const startAgain = ", then have the kubelet start its static pod again"
	for path, renew := range map[string]string{
		machine.CCMKubeconfig: "ccmadm certs renew", machine.AdminConf: "kubeadm certs renew admin.conf",
		machine.ControllerManagerConf: "kubeadm certs renew controller-manager.conf" + startAgain,
		machine.SchedulerConf:         "kubeadm certs renew scheduler.conf" + startAgain,
	} {
		cert, err := identity.ClientCertificate(h.Machine, path)
		keep(path, cert, err, renew, false)
	}
	cert, err := h.certificate(kubeletCertificate)
	keep(kubeletCertificate, cert, err, h.newKubeletConf(h.seen.Node), h.rotates())
	for path, renew := range map[string]string{
		"apiserver.crt": "apiserver", "apiserver-kubelet-client.crt": "apiserver-kubelet-client",
		"front-proxy-client.crt":    "front-proxy-client",
		"apiserver-etcd-client.crt": "apiserver-etcd-client", "etcd/server.crt": "etcd-server", "etcd/peer.crt": "etcd-peer",
		"etcd/healthcheck-client.crt": "etcd-healthcheck-client", "ca.crt": "", "front-proxy-ca.crt": "", "etcd/ca.crt": "",
	} {
		if renew != "" {
			renew = "kubeadm certs renew " + renew + startAgain
		}
		path = filepath.Join(certsDir, path)
		cert, err := h.certificate(path)
		keep(path, cert, err, renew, false)
	}
	slices.SortStableFunc(h.seen.Certificates, func(a, b diagnosis.HostCertificate) int { return cmp.Compare(a.File, b.File) })
	return errors.Join(errs...)
}

// hasCA tells whether this machine has the key of the cluster's CA. One that cannot be looked for is as none.
func (h *looking) hasCA() bool {
	dir, err := identity.CertificatesDir(h.Machine)
	if err != nil {
		return false
	}
	there, _ := h.Exists(filepath.Join(dir, "ca.key"))
	return there
}

func (h *looking) certificate(path string) (*x509.Certificate, error) {
	data, err := h.Read(path)
	if err != nil {
		return nil, err
	}
	certs, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return certs[0], nil
}
