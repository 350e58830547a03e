package kubeadm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// Validate has the installed kubeadm validate the documents that it knows, as `kubeadm config validate` does: unknown
// fields, versions that it does not install, and all that init and join would only find half-way. Documents of others
// are left out: init and join ignore them, validate does not.
func Validate(ctx context.Context, m *machine.Machine, f *File) error {
	text := f.ownDocuments()
	if text == "" {
		return nil
	}
	tmp, err := os.CreateTemp("", "ccmadm-validate-*.yaml")
	if err != nil {
		return fmt.Errorf("validate with kubeadm: %w", err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // below the temporary directory
	if _, err := tmp.WriteString(text); err != nil {
		return fmt.Errorf("validate with kubeadm: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("validate with kubeadm: %w", err)
	}
	var said strings.Builder
	err = m.Runner.Run(ctx, machine.Command{Name: "kubeadm", Args: []string{"config", "validate", "--config", tmp.Name()}, Out: &said, Err: &said})
	if errors.Is(err, machine.ErrNotFound) {
		return ErrNotInstalled()
	}
	if err == nil {
		return nil
	}
	return finding.Preflightf("%skubeadm config validate: %s", f.prefix(), string(MaskSecrets([]byte(reason(said.String(), err))))).
		WithHint("it is the installed kubeadm's own validation; `kubeadm config migrate` rewrites older versions")
}

// reason is what kubeadm says last, without its advice to turn up the verbosity.
func reason(said string, err error) string {
	said, _, _ = strings.Cut(said, "To see the stack trace")
	var lines []string
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "W") {
			lines = append(lines, strings.TrimPrefix(line, "error: "))
		}
	}
	if len(lines) == 0 {
		return err.Error()
	}
	return strings.Join(lines, "; ")
}

// ownDocuments are those that kubeadm reads.
func (f *File) ownDocuments() string {
	var b strings.Builder
	for _, d := range f.docs {
		group, _, _ := strings.Cut(d.apiVersion, "/")
		switch group {
		case kubeadmGroup, "kubelet.config.k8s.io", "kubeproxy.config.k8s.io":
			fmt.Fprintf(&b, "---\n%s\n", d.Text)
		}
	}
	return b.String()
}
