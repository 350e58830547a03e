package workflow

import (
	"context"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ccmadm/ccmadm/kubeadm"
	"github.com/ccmadm/ccmadm/machine"
	"github.com/ccmadm/ccmadm/templates"
)

// Host is the machine of a run as kubeadm knows it: its role, and kubeadm's configuration.
type Host struct {
	*Env
	// Role is Init or Join.
	Role kubeadm.Role
	// KubeadmFile is the user's kubeadm configuration with the flags folded in.
	KubeadmFile *kubeadm.File

	answers *answers
}

// answers of the machine, each asked for once in a run.
type answers struct {
	kubeadm  Once[*version.Version]
	metadata Once[map[string]string]
}

// InPhase returns a copy for a phase by name.
func (h *Host) InPhase(phase string) *Host {
	c := *h
	c.Env = h.Env.InPhase(phase)
	return &c
}

// KubeadmVersion returns the version of the installed kubeadm.
func (h *Host) KubeadmVersion(ctx context.Context) (*version.Version, error) {
	return h.answers.kubeadm.Get(func() (*version.Version, error) { return kubeadm.Version(ctx, h.Machine) })
}

// Metadata asks the cloud's metadata service: where there is none, every question takes its time.
func (h *Host) Metadata(ctx context.Context, m *templates.Metadata) (map[string]string, error) {
	return h.answers.metadata.Get(func() (map[string]string, error) { return machine.AskMetadata(ctx, m) })
}
