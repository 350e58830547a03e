package adoption

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// Confirmed asks, and takes an end without an answer for a no.
func Confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// confirm asks before anything is changed.
func (a *Adoption) confirm(env *workflow.Env, question string) error {
	if a.Yes || env.DryRun || Confirmed(env.In, env.Progress(), question) {
		return nil
	}
	return finding.Refusedf("it was not confirmed").WithHint("--yes answers beforehand; nothing was changed")
}
