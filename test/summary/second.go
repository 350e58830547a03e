package main

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// mostSecond is how many tests may pass only the second time, in all runs together. Each may be a busy machine; many
// are a defect that shows itself now and then.
const mostSecond = 2

// second prints the tests that passed only the second time, and fails where there are more than [mostSecond]. Each file
// is what one run has noted: a line "1.36 ^(TestA|TestB)$" for a try that passed, nothing where none was needed. A run
// without a file did not take place.
func second(out io.Writer, files []string) error {
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read what was run twice: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			minor, tests, _ := strings.Cut(strings.TrimSpace(line), " ")
			tests = strings.TrimSuffix(strings.TrimPrefix(tests, "^("), ")$")
			for name := range strings.SplitSeq(tests, "|") {
				names = append(names, name+" on Kubernetes "+minor)
			}
		}
	}
	fmt.Fprintf(out, "tests that passed only the second time: %d\n", len(names))
	for _, name := range names {
		fmt.Fprintln(out, "  "+name)
	}
	if len(names) > mostSecond {
		return fmt.Errorf("%d tests passed only the second time, more than %d", len(names), mostSecond)
	}
	return nil
}
