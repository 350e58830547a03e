package phases

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Check is one thing that must hold before anything is changed.
type Check struct {
	// Name is what --ignore-preflight-errors takes.
	Name string
	// Run returns what is wrong, with a hint where there is one.
	Run func(context.Context, *Data) error
}

// runChecks runs all of them and fails once, with every failure by its name. What several checks need and none gets,
// such as a provider that is not found, is one failure, and the first of them says it. A refusal cannot be ignored.
func runChecks(ctx context.Context, d *Data, checks []Check) error {
	var failed []error
	var hints []string
	var said []error
	code := finding.ExitPreflight
	for _, c := range checks {
		err := c.Run(ctx, d)
		if err == nil {
			continue
		}
		var known *finding.Error
		isKnown := errors.As(err, &known)
		refused := isKnown && known.Code == finding.ExitRefused
		if ignored(d, c.Name) && !refused {
			d.Sayf("warning, %s: %v", c.Name, err)
			continue
		}
		if slices.ContainsFunc(said, func(other error) bool { return errors.Is(err, other) }) {
			continue
		}
		said = append(said, err)
		failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		if refused {
			code = finding.ExitRefused
		}
		if isKnown && known.Hint != "" && !slices.Contains(hints, known.Hint) {
			hints = append(hints, known.Hint)
		}
	}
	if len(failed) == 0 {
		d.Sayf("%d checks passed", len(checks))
		return nil
	}
	hints = append(hints, "nothing was changed; --ignore-preflight-errors=NAME makes a check a warning")
	return &finding.Error{Code: code, Err: fmt.Errorf("preflight: %w", errors.Join(failed...)), Hint: strings.Join(hints, "\n")}
}

func ignored(d *Data, check string) bool {
	return slices.ContainsFunc(d.IgnorePreflightErrors, func(name string) bool {
		return strings.EqualFold(name, check) || strings.EqualFold(name, "all")
	})
}
