// Command summary shows what `go test -json` says, as plain text, and at the end the ten slowest tests.
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
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // the go command's own words
			}
			fmt.Fprint(out, e.Output)
			switch e.Action {
			case "fail":
				failed++
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
	switch {
	case failed > 0:
		return fmt.Errorf("%d failures", failed)
	case len(tests) == 0:
		return errors.New("no test matches")
	}
	return nil
}
