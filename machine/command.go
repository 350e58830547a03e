package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Command is a program to be run.
type Command struct {
	Name string
	Args []string
	// Env is added to this process's environment, as NAME=value.
	Env []string
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// Changes says that it changes the machine: a dry run shows it instead.
	Changes bool
}

// Runner runs commands.
type Runner interface {
	Run(context.Context, Command) error
}

var (
	_ Runner = execRunner{}
	_ Runner = printRunner{}
)

// ErrNotFound says that a program is not installed.
var ErrNotFound = exec.ErrNotFound

// execRunner runs them on this machine. It ends a program as Ctrl-C would: SIGTERM first, SIGKILL if it does not
// listen.
type execRunner struct{}

func (execRunner) Run(ctx context.Context, c Command) error {
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.In, c.Out, c.Err
	if c.Env != nil {
		cmd.Env = append(os.Environ(), c.Env...)
	}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	// Whatever ends this process, SIGKILL included, ends the program: the next run must not meet it at work.
	cmd.SysProcAttr = endsWithParent()
	cmd.WaitDelay = 10 * time.Second
	runtime.LockOSThread() // the signal comes when the thread ends that started the program
	defer runtime.UnlockOSThread()
	return cmd.Run()
}

// printRunner shows what would change the machine, and runs what only looks.
type printRunner struct {
	next Runner
	out  io.Writer
}

func (p printRunner) Run(ctx context.Context, c Command) error {
	if !c.Changes {
		return p.next.Run(ctx, c)
	}
	fmt.Fprintf(p.out, "[dryrun] would run %s %s\n", c.Name, strings.Join(c.Args, " "))
	return nil
}

// Output runs a program that only looks, and returns what it prints. Its error ends with the program's last line.
func (m *Machine) Output(ctx context.Context, name string, args ...string) ([]byte, error) {
	return m.output(ctx, Command{Name: name, Args: args})
}

func (m *Machine) output(ctx context.Context, c Command) ([]byte, error) {
	var out, stderr limited
	c.Out, c.Err = &out, &stderr
	err := m.Runner.Run(ctx, c)
	if out.tooMuch || stderr.tooMuch {
		err = errTooMuch
	}
	if err != nil {
		last := lastLine(stderr.kept.Bytes())
		return out.kept.Bytes(), fmt.Errorf("run %s %s: %w: %s", c.Name, strings.Join(c.Args, " "), err, last)
	}
	return out.kept.Bytes(), nil
}

// maxOutput is how much of what a program says is kept: it may speak for another machine.
const maxOutput = 16 << 20

var errTooMuch = errors.New("it says more than 16 MiB")

// limited refuses more than that, which ends the program.
type limited struct {
	kept    bytes.Buffer // not embedded: io.Copy would read into it to the end
	tooMuch bool
}

func (l *limited) Write(data []byte) (int, error) {
	if l.tooMuch = l.tooMuch || l.kept.Len()+len(data) > maxOutput; l.tooMuch {
		return 0, errTooMuch
	}
	return l.kept.Write(data)
}

func lastLine(text []byte) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(lines[len(lines)-1])
}

// ServiceActive asks systemd whether a service runs. A machine without systemd has no services.
func (m *Machine) ServiceActive(ctx context.Context, name string) (bool, error) {
	_, err := m.Output(ctx, "systemctl", "is-active", "--quiet", name)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, ErrNotFound), errors.As(err, &exit) && exit.ExitCode() >= 0:
		return false, nil // systemctl(1): inactive, failed, activating and unknown units have exit codes of their own
	}
	return false, fmt.Errorf("ask whether %s runs: %w", name, err)
}

// UnitEnabled asks systemd whether a unit is started at boot, wherever its file is. A machine without systemd has no units: where it does
// not run, as when an image is built, what it cannot answer is no.
func (m *Machine) UnitEnabled(ctx context.Context, name string) (bool, error) {
	out, err := m.output(ctx, Command{Name: "systemctl", Args: []string{"is-enabled", name}, Env: []string{"LC_ALL=C"}})
	var exit *exec.ExitError
	said := strings.TrimSpace(string(out))
	switch {
	case err == nil, errors.Is(err, ErrNotFound), said != "" && errors.As(err, &exit):
		return said == "enabled", nil // others, as disabled and not-found, have exit codes of their own
	case strings.Contains(err.Error(), "Failed to get unit file state for "+name+": No such file"): // before systemd 254: there is none
		return false, nil
	}
	if runs, look := m.HasSystemd(); look == nil && !runs && ctx.Err() == nil {
		return false, nil
	}
	return false, fmt.Errorf("ask whether %s is enabled: %w", name, err)
}

// Systemctl changes something in the service manager.
func (m *Machine) Systemctl(ctx context.Context, args ...string) error {
	var out bytes.Buffer
	err := m.Runner.Run(ctx, Command{Name: "systemctl", Args: args, Out: &out, Err: &out, Changes: true})
	if err != nil {
		return fmt.Errorf("run systemctl %s: %w: %s", args[0], err, lastLine(out.Bytes()))
	}
	return nil
}

// DaemonReload makes systemd read its units again; where it does not run, as when an image is built, it will read them
// when it does.
func (m *Machine) DaemonReload(ctx context.Context) error {
	if runs, err := m.HasSystemd(); err != nil || !runs {
		return err
	}
	return m.Systemctl(ctx, "daemon-reload")
}

// HasSystemd tells whether systemd runs the machine's services.
func (m *Machine) HasSystemd() (bool, error) { return m.Exists("/run/systemd/system") }
