package workflow

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/ccmadm/ccmadm/api/finding"
)

// Confirmed asks, and takes an end without an answer for a no.
func Confirmed(in io.Reader, out io.Writer, question string) bool {
	fmt.Fprintf(out, "%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes"
}

// Confirm asks before anything is changed, unless the answer is yes already.
func (env *Env) Confirm(yes bool, question string) error {
	if yes || env.DryRun || Confirmed(env.In, env.Progress(), question) {
		return nil
	}
	return finding.Refusedf("it was not confirmed").WithHint("answer y, or give --yes; nothing was changed")
}
