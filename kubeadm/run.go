package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/api/minors"
	"github.com/ccmadm/ccmadm/machine"
)

// FirstHalf lists the phases of `kubeadm init` up to where the API server answers for the first time, by their names in
// all minors that ccmadm knows, cmd/kubeadm/app/cmd/init.go.
func FirstHalf() []string {
	return []string{"preflight", "certs", "kubeconfig", "etcd", "control-plane", "kubelet-start", "wait-control-plane"}
}

// SecondHalf lists the others.
func SecondHalf() []string {
	return []string{"upload-config", "upload-certs", "mark-control-plane", "bootstrap-token", "kubelet-finalize", "addon", "show-join-command"}
}

// Version asks the installed kubeadm.
func Version(ctx context.Context, m *machine.Machine) (*version.Version, error) {
	out, err := m.Output(ctx, "kubeadm", "version", "-o", "short")
	if errors.Is(err, machine.ErrNotFound) {
		return nil, ErrNotInstalled()
	}
	if err != nil {
		return nil, err
	}
	v, err := version.ParseSemantic(strings.TrimSpace(string(out)))
	if err != nil {
		return nil, fmt.Errorf("read the version that kubeadm printed: %w", err)
	}
	return v, nil
}

// ErrNotInstalled is a machine without kubeadm.
func ErrNotInstalled() *finding.Error {
	return finding.Errorf("kubeadm is not in the PATH").
		WithHint("install kubeadm, kubelet and a container runtime first; ccmadm runs them and does not bring them along")
}

// CheckVersion refuses minors that ccmadm was not tested with.
func CheckVersion(v *version.Version) error {
	minor := version.MajorMinor(v.Major(), v.Minor())
	switch {
	case minor.LessThan(version.MustParseGeneric(minors.Oldest())):
		return fmt.Errorf("kubeadm %s is too old: this ccmadm supports %s", v, minors.Window())
	case version.MustParseGeneric(minors.Newest()).LessThan(minor):
		return fmt.Errorf("kubeadm %s is too new: this ccmadm supports %s", v, minors.Window())
	}
	return nil
}

// MaskArgs hides tokens and keys on a command line that is shown.
func MaskArgs(args []string) []string {
	shown := slices.Clone(args)
	for i, arg := range shown {
		if strings.HasPrefix(arg, "--skip-phases=") { // names only: the one after bootstrap-token would look like its value
			continue
		}
		if strings.HasPrefix(arg, "--certificate-key=") {
			arg = "--certificate-key=<hidden>"
		}
		shown[i] = string(MaskSecrets([]byte(arg)))
	}
	return shown
}
