package phases

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ccmadm/ccmadm/api/finding"

	"k8s.io/apimachinery/pkg/util/version"
)

// The kubeadm minors that ccmadm is tested with.
const (
	OldestKubeadm = "1.34"
	NewestKubeadm = "1.36"
)

// The two halves of `kubeadm init`, cut where the API server answers for the first time.
// The names are those of kubeadm 1.34 to 1.36, cmd/kubeadm/app/cmd/init.go.
var (
	kubeadmFirstHalf  = []string{"preflight", "certs", "kubeconfig", "etcd", "control-plane", "kubelet-start", "wait-control-plane"}
	kubeadmSecondHalf = []string{"upload-config", "upload-certs", "mark-control-plane", "bootstrap-token", "kubelet-finalize", "addon", "show-join-command"}
)

// kubeadm runs the installed kubeadm and streams what it prints. kubeadm's own dry run gets a directory outside
// /etc, and there the configuration that this dry run has not written.
func (d *Data) kubeadm(ctx context.Context, args ...string) error {
	cmd := kubeadmCommand(ctx, args...)
	if d.DryRun {
		dir, err := os.MkdirTemp("", "ccmadm-dryrun-")
		if err != nil {
			return fmt.Errorf("make a directory for kubeadm's dry run: %w", err)
		}
		defer os.RemoveAll(dir) //nolint:errcheck // below the temporary directory
		config := filepath.Join(dir, "kubeadm.yaml")
		if err := os.WriteFile(config, d.Kubeadm.Bytes(), 0o600); err != nil {
			return fmt.Errorf("write the configuration of kubeadm's dry run: %w", err)
		}
		cmd = kubeadmCommand(ctx, append(slices.Clone(args), "--config="+config)...) // the last one wins
		cmd.Env = append(os.Environ(), "KUBEADM_INIT_DRYRUN_DIR="+dir, "KUBEADM_JOIN_DRYRUN_DIR="+dir)
	}
	return d.stream(cmd, args)
}

// stream runs a command of kubeadm and shows all that it prints.
func (d *Data) stream(cmd *exec.Cmd, args []string) error {
	cmd.Stdin, cmd.Stdout, cmd.Stderr = d.In, d.progress(), d.Err
	d.Sayf("running kubeadm %s", strings.Join(maskArgs(args), " "))
	runtime.LockOSThread() // the signal above comes when the thread ends that started kubeadm
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errNoKubeadm()
	}
	if err != nil {
		return finding.Errorf("run kubeadm %s: %w", args[0], err).
			WithHint("kubeadm's own words are above; when the cause is fixed, the same ccmadm command goes on from here")
	}
	return nil
}

// kubeadmOutput runs the installed kubeadm and returns what it prints to stdout.
func kubeadmOutput(ctx context.Context, args ...string) ([]byte, error) {
	cmd := kubeadmCommand(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run kubeadm %s: %w: %s", strings.Join(maskArgs(args), " "), err, lastLine(stderr.Bytes()))
	}
	return out, nil
}

// kubeadmCommand ends kubeadm as Ctrl-C would: SIGTERM first, SIGKILL if it does not listen.
func kubeadmCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "kubeadm", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// Whatever ends ccmadm, SIGKILL included, ends this kubeadm: the next run must not meet it at work.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// KubeadmVersion asks the installed kubeadm.
func KubeadmVersion(ctx context.Context) (*version.Version, error) {
	out, err := kubeadmOutput(ctx, "version", "-o", "short")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, errNoKubeadm()
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

func errNoKubeadm() *finding.Error {
	return (&finding.Error{Code: finding.ExitError, Err: errors.New("kubeadm is not in the PATH")}).
		WithHint("install kubeadm, kubelet and a container runtime first; ccmadm runs them and does not bring them along")
}

// askOnce spares a run the process starts: the version is wanted in several phases.
func askOnce(ctx context.Context) func() (*version.Version, error) {
	return sync.OnceValues(func() (*version.Version, error) { return KubeadmVersion(ctx) })
}

func checkKubeadmVersion(v *version.Version) error {
	minor := version.MajorMinor(v.Major(), v.Minor())
	switch {
	case minor.LessThan(version.MustParseGeneric(OldestKubeadm)):
		return fmt.Errorf("kubeadm %s is too old: ccmadm drives %s to %s", v, OldestKubeadm, NewestKubeadm)
	case version.MustParseGeneric(NewestKubeadm).LessThan(minor):
		return fmt.Errorf("kubeadm %s is too new: ccmadm drives %s to %s", v, OldestKubeadm, NewestKubeadm)
	}
	return nil
}

// initHalf returns the arguments for one half of `kubeadm init`. The phases to be skipped are given as a flag, and
// the flag makes kubeadm ignore skipPhases in the file, so the user's own are added to it.
func (d *Data) initHalf(skip []string) []string {
	rest, userSkips := takeFlag(d.KubeadmRest, "skip-phases")
	if userSkips == nil {
		userSkips = d.Kubeadm.SkipPhases()
	}
	skip = append(slices.Clone(skip), userSkips...)
	args := []string{"init", "--config=" + KubeadmConfig, "--skip-phases=" + strings.Join(skip, ",")}
	return append(d.kubeadmFlags(args), rest...)
}

// kubeadmFlags appends what kubeadm and ccmadm have in common.
func (d *Data) kubeadmFlags(args []string) []string {
	if len(d.IgnorePreflightErrors) > 0 {
		args = append(args, "--ignore-preflight-errors="+strings.Join(d.IgnorePreflightErrors, ","))
	}
	if d.DryRun {
		args = append(args, "--dry-run")
	}
	return args
}

// takeFlag splits off a flag that may be given several times with comma separated values.
func takeFlag(args []string, name string) (rest, values []string) {
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
func maskArgs(args []string) []string {
	shown := slices.Clone(args)
	for i, arg := range shown {
		if strings.HasPrefix(arg, "--certificate-key=") {
			arg = "--certificate-key=<hidden>"
		}
		shown[i] = string(maskSecrets([]byte(arg)))
	}
	return shown
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}
