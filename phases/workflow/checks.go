package workflow

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/machine"
)

// Check is one thing that must hold before anything is changed.
type Check struct {
	// ID is its entry in the catalogue, whose reason --ignore-preflight-errors takes.
	ID finding.ID
	// Run returns what is wrong, with a hint where there is one.
	Run func(context.Context, *Run) error
}

// RunChecks runs all of them and fails once, with every failure by its name. What several checks need and none gets,
// such as a provider that is not found, is one failure, and the first of them says it. A refusal cannot be ignored, and
// no hint says that it can. With
// -o json or -o yaml the findings go to Out as a list.
func RunChecks(ctx context.Context, r *Run, checks []Check) error {
	var failed []error
	var hints []string
	var list []finding.Finding
	var said []error
	ignorable := false
	code := finding.ExitPreflight
	for _, c := range checks {
		err := c.Run(ctx, r)
		if err == nil {
			continue
		}
		var known *finding.Error
		isKnown := errors.As(err, &known)
		refused := isKnown && known.Code == finding.ExitRefused
		name := c.ID.Kind().Reason
		if Ignored(r, name) && !refused {
			r.Sayf("warning, %s: %v", name, err)
			continue
		}
		if slices.ContainsFunc(said, func(other error) bool { return errors.Is(err, other) }) {
			continue
		}
		said = append(said, err)
		failed = append(failed, fmt.Errorf("%s: %w", name, err))
		list = append(list, c.ID.New("", err.Error()))
		if refused {
			code = finding.ExitRefused
		}
		ignorable = ignorable || !refused
		if isKnown && known.Hint != "" {
			list[len(list)-1].Next = known.Hint
			if !slices.Contains(hints, known.Hint) {
				hints = append(hints, known.Hint)
			}
		}
	}
	if len(failed) == 0 {
		r.Sayf("%s passed", finding.Count(len(checks), "check"))
		return nil
	}
	if err := writeFindings(r.Env, list); err != nil {
		return err
	}
	last := "nothing was changed"
	if ignorable && !r.Existing && !r.AllChecksHold {
		last += "; --ignore-preflight-errors=NAME makes a check a warning"
	}
	hints = append(hints, last)
	return &finding.Error{Code: code, Err: fmt.Errorf("preflight: %w", errors.Join(failed...)), Hint: strings.Join(hints, "\n")}
}

// writeFindings writes failed checks for programs, as `ccmadm lint` does.
func writeFindings(env *Env, list []finding.Finding) error {
	if env.Output == "json" {
		return finding.WriteJSON(env.Out, list)
	}
	objects := env.Objects()
	if objects == nil {
		return nil
	}
	objects.Write(finding.Listed(list))
	return objects.Close()
}

// Ignored tells whether the user has made a failed check a warning.
func Ignored(r *Run, check string) bool {
	return slices.ContainsFunc(r.IgnorePreflightErrors, func(name string) bool {
		return strings.EqualFold(name, check) || strings.EqualFold(name, "all")
	})
}

// CheckRoot fails where ccmadm does not run as root.
func CheckRoot(_ context.Context, r *Run) error {
	if !r.Machine.Superuser {
		return finding.Preflightf("not root").WithHint("run the same command with sudo")
	}
	return nil
}

// CheckWritable finds a read-only or full file system before the first file is half done. It asks the kernel and
// leaves no trace, since a dry run must not.
func CheckWritable(_ context.Context, r *Run) error {
	const enough = 1 << 20 // bytes; everything that ccmadm writes is below 100 kB
	var wrong []error
	for _, dir := range []string{machine.ConfigDir, filepath.Dir(machine.CCMKubeconfig), machine.ManifestDir, filepath.Dir(machine.KubeletDropIn)} {
		existing := r.Machine.Path(dir)
		for {
			if _, err := os.Stat(existing); err == nil {
				break
			}
			existing = filepath.Dir(existing)
		}
		var fs syscall.Statfs_t
		if err := syscall.Statfs(existing, &fs); err != nil {
			wrong = append(wrong, fmt.Errorf("look at the file system of %s: %w", dir, err))
			continue
		}
		const readOnly = 1 // ST_RDONLY
		if fs.Flags&readOnly != 0 {
			wrong = append(wrong, fmt.Errorf("%s is on a read-only file system", dir))
		} else if free := fs.Bavail * uint64(fs.Bsize); free < enough {
			wrong = append(wrong, fmt.Errorf("%s: the disk is full (%d bytes left)", dir, free))
		}
	}
	return errors.Join(wrong...)
}
