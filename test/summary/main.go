// Command summary shows what `go test -json` says, as plain text, and at the end the ten slowest tests, and
// of those that failed what they said last: a log that is cut loses its beginning.
//
//	go test -json ./test/e2e -run TestReset | go run ./test/summary
//
// Start at [summarize]. Reads standard input, writes standard output. It fails when a test failed, when something that
// is no test did, such as a package that does not compile, and when nothing ran: a misspelled name is no success.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is what cmd/test2json documents.
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64 // seconds
	Output  string
}

func main() {
	if err := summarize(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
}

func summarize(in io.Reader, out io.Writer) error {
	var tests []event
	failed := 0
	said, failures := map[string][]string{}, []string{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // the go command's own words
			}
			fmt.Fprint(out, e.Output)
			said[e.Test] = remember(said[e.Test], e.Output)
			switch e.Action {
			case "fail":
				failed++
				if e.Test != "" {
					failures = append(failures, e.Test)
				}
				fallthrough
			case "pass":
				if e.Test != "" && !strings.Contains(e.Test, "/") {
					tests = append(tests, e)
				}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read test output: %w", err)
		}
	}
	slices.SortFunc(tests, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	if len(tests) > 0 {
		fmt.Fprintf(out, "\nthe slowest of %d tests:\n", len(tests))
	}
	for _, t := range tests[:min(10, len(tests))] {
		fmt.Fprintf(out, "%8.1f s  %s\n", t.Elapsed, t.Test)
	}
	for _, name := range failures {
		fmt.Fprintf(out, "\n%s failed:\n%s", name, strings.Join(said[name], ""))
	}
	switch {
	case failed > 0:
		return fmt.Errorf("%d failures", failed)
	case len(tests) == 0:
		return errors.New("no test matches")
	}
	return nil
}

const (
	// lastSaid is how many lines of a test are repeated when it has failed.
	lastSaid = 20
	// widest is how much of such a line, in bytes.
	widest = 400
)

var (
	// message begins what a test logs.
	message = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)
	// explained are messages that a test logs after it has failed: they are long, and stand above.
	explained = regexp.MustCompile(`^\s+\w+_test\.go:\d+: \$ `)
)

// remember keeps the first line of each message.
func remember(lines []string, output string) []string {
	if !message.MatchString(output) || explained.MatchString(output) {
		return lines
	}
	if len(output) > widest {
		output = output[:widest] + "...\n"
	}
	lines = append(lines, output)
	return lines[max(0, len(lines)-lastSaid):]
}
