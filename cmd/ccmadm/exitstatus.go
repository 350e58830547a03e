package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// errFound ends a command that has shown a difference or a problem: exit status [finding.ExitFound], and no message.
var errFound = errors.New("something was found")

// ending is when a command ends with an exit status of the table.
type ending struct {
	code finding.ExitCode
	when string
}

// exitStatuses is the end of a command's help. Numbers and names are those of [finding.ExitStatuses].
func exitStatuses(endings ...ending) string {
	var b strings.Builder
	b.WriteString("\n\nExit status:\n")
	slices.SortFunc(endings, func(a, b ending) int { return int(a.code - b.code) })
	for _, e := range endings {
		fmt.Fprintf(&b, "\n* %d (%s): %s", e.code, e.code.Name(), e.when)
	}
	return b.String()
}
