package usage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Observed gives an error its exit code: what could not be asked is no misuse of the command.
func Observed(err error) error {
	var known *finding.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	return &finding.Error{Code: finding.ExitError, Err: err}
}

// ErrFound ends a command that has shown a difference or a problem: exit status [finding.ExitFound], and no message.
var ErrFound = errors.New("something was found")

// Endings are when a command ends with an exit status of the table.
type Endings map[finding.ExitCode]string

// ExitStatuses is the end of a command's help. Numbers and names are those of [finding.ExitStatuses].
func ExitStatuses(endings Endings) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:\n")
	for _, code := range slices.Sorted(maps.Keys(endings)) {
		fmt.Fprintf(&b, "\n* %d (%s): %s", code, code.Name(), endings[code])
	}
	return b.String()
}
