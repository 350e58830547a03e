package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// TestExitStatuses has every number in commands' help from the table, with the table's name.
func TestExitStatuses(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\* (\d+) \(([a-z ]+)\): .`)
	byHand := regexp.MustCompile(`(?i)exit (status|code)(es)?:? \d`)
	named := map[finding.ExitCode]bool{}
	walk(newRoot(workflow.Streams{}), func(cmd *cobra.Command) {
		if text := byHand.FindString(cmd.Long); text != "" {
			t.Errorf("%s: %q stands in the help without the table: use usage.ExitStatuses", cmd.CommandPath(), text)
		}
		rows := row.FindAllStringSubmatch(cmd.Long, -1)
		if strings.Contains(cmd.Long, "Exit status:") != (len(rows) > 0) {
			t.Errorf("%s: got rows %q", cmd.CommandPath(), rows)
		}
		before := -1
		for _, r := range rows {
			number, _ := strconv.Atoi(r[1])
			if !slices.ContainsFunc(finding.ExitStatuses(), func(s finding.ExitStatus) bool {
				return int(s.Code) == number && s.Name == r[2]
			}) {
				t.Errorf("%s: %q is not in the table", cmd.CommandPath(), r[0])
			}
			if number <= before {
				t.Errorf("%s: %d stands after %d", cmd.CommandPath(), number, before)
			}
			before = number
			named[finding.ExitCode(number)] = true
		}
	})
	for _, s := range finding.ExitStatuses() {
		if !named[s.Code] && s.Code != finding.ExitUsage {
			t.Errorf("no command's help names %d (%s)", s.Code, s.Name)
		}
	}
}
