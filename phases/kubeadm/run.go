package kubeadm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"

	"k8s.io/apimachinery/pkg/util/version"
)

// The kubeadm minors that ccmadm is tested with.
const (
	Oldest = "1.34"
	Newest = "1.36"
)

// The two halves of `kubeadm init`, cut where the API server answers for the first time.
// The names are those of kubeadm 1.34 to 1.36, cmd/kubeadm/app/cmd/init.go.
var (
	FirstHalf  = []string{"preflight", "certs", "kubeconfig", "etcd", "control-plane", "kubelet-start", "wait-control-plane"}
	SecondHalf = []string{"upload-config", "upload-certs", "mark-control-plane", "bootstrap-token", "kubelet-finalize", "addon", "show-join-command"}
)

// kubeadmOutput runs the installed kubeadm and returns what it prints to stdout.
func Output(ctx context.Context, args ...string) ([]byte, error) {
	cmd := Command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run kubeadm %s: %w: %s", strings.Join(MaskArgs(args), " "), err, LastLine(stderr.Bytes()))
	}
	return out, nil
}

// kubeadmCommand ends kubeadm as Ctrl-C would: SIGTERM first, SIGKILL if it does not listen.
func Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubeadm", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// Whatever ends ccmadm, SIGKILL included, ends this kubeadm: the next run must not meet it at work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// KubeadmVersion asks the installed kubeadm.
func Version(ctx context.Context) (*version.Version, error) {
	out, err := Output(ctx, "version", "-o", "short")
	if errors.Is(err, exec.ErrNotFound) {
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

func ErrNotInstalled() *finding.Error {
	return (&finding.Error{Code: finding.ExitError, Err: errors.New("kubeadm is not in the PATH")}).
		WithHint("install kubeadm, kubelet and a container runtime first; ccmadm runs them and does not bring them along")
}

func CheckVersion(v *version.Version) error {
	minor := version.MajorMinor(v.Major(), v.Minor())
	switch {
	case minor.LessThan(version.MustParseGeneric(Oldest)):
		return fmt.Errorf("kubeadm %s is too old: ccmadm drives %s to %s", v, Oldest, Newest)
	case version.MustParseGeneric(Newest).LessThan(minor):
		return fmt.Errorf("kubeadm %s is too new: ccmadm drives %s to %s", v, Oldest, Newest)
	}
	return nil
}

// takeFlag splits off a flag that may be given several times with comma separated values.
func TakeFlag(args []string, name string) (rest, values []string) {
	prefix := "--" + name + "="
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, prefix); ok {
			values = append(values, strings.Split(value, ",")...)
			continue
		}
		rest = append(rest, arg)
	}
	return rest, values
}

// maskArgs hides tokens and keys on a command line that is shown.
func MaskArgs(args []string) []string {
	shown := slices.Clone(args)
	for i, arg := range shown {
		if strings.HasPrefix(arg, "--certificate-key=") {
			arg = "--certificate-key=<hidden>"
		}
		shown[i] = string(MaskSecrets([]byte(arg)))
	}
	return shown
}

func LastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
