// Command summary shows what `go test -json` says, as plain text, and at the end the ten slowest tests, and
// of those that failed what they said last: a log that is cut loses its beginning.
//
//	go test -json ./test/e2e -run TestReset | go run ./test/summary
//
// With -second it reads no output: it counts and names the tests that passed only the second time, in all runs whose
// files it is given.
//
// Start at [summarize]. Reads standard input, writes standard output, and the file that -again names. It fails when a
// test failed or left itself out, when something that is no test failed, such as a package that does not compile, and
// when nothing ran: a misspelled name is no success.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
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
	again := flag.String("again", "", "`file` for the -run that gives those that failed another try, if they are few")
	twice := flag.Bool("second", false, "count the tests that passed only the second time, as the files of runs say")
	flag.Parse()
	if *twice {
		exit(second(os.Stdout, flag.Args()))
	}
	r, err := summarize(os.Stdin, os.Stdout)
	if *again != "" {
		err = errors.Join(err, os.WriteFile(*again, []byte(r.again()), 0o644))
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// report is what became of the tests, each with its parts as one.
type report struct {
	ended    []event         // in the order of their ends
	begun    map[string]bool // and not ended yet
	failures []string        // tests and parts of tests
	failed   int             // failures, and packages with a failure
	skipped  int             // tests that left themselves out, which are among the failures
	said     map[string][]string
	quoting  map[string]int // lines of a command's output at the end of what the test said; -1: not of interest
}

// mostAgain is how many tests may have another try: a defect has more than one victim, and fails again.
const mostAgain = 2

// again returns the regular expression of the tests that failed: nothing where there are many, where one of them
// never came to its end, as in a panic, or where one left itself out.
func (r *report) again() string {
	var names []string
	for _, e := range r.ended {
		if e.Action == "fail" {
			names = append(names, e.Test)
		}
	}
	if len(names) == 0 || len(names) > mostAgain || len(r.begun) > 0 || r.skipped > 0 {
		return ""
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

func (r *report) add(e event) {
	r.remember(e.Test, e.Output)
	whole := e.Test != "" && !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "run" && whole:
		r.begun[e.Test] = true
	case e.Action == "skip" && e.Test != "": // a test that is left out for its length is not started
		delete(r.begun, e.Test)
		r.skipped++
	case e.Action != "pass" && e.Action != "fail":
		return
	case whole:
		delete(r.begun, e.Test)
		r.ended = append(r.ended, e)
	}
	if e.Action == "fail" || e.Action == "skip" {
		r.failed++
		if e.Test != "" {
			r.failures = append(r.failures, e.Test)
		}
	}
}

func summarize(in io.Reader, out io.Writer) (*report, error) {
	r := &report{begun: map[string]bool{}, said: map[string][]string{}, quoting: map[string]int{}}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(out, "%s", line) // the go command's own words
			}
			fmt.Fprint(out, e.Output)
			r.add(e)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return r, fmt.Errorf("read test output: %w", err)
		}
	}
	return r, r.print(out)
}

// print shows the slowest tests, and of those that failed what they said last.
func (r *report) print(out io.Writer) error {
	slowest := slices.Clone(r.ended)
	slices.SortStableFunc(slowest, func(a, b event) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	if len(slowest) > 0 {
		fmt.Fprintf(out, "\nthe slowest of %d tests:\n", len(slowest))
	}
	for _, t := range slowest[:min(10, len(slowest))] {
		fmt.Fprintf(out, "%8.1f s  %s\n", t.Elapsed, t.Test)
	}
	for _, name := range r.failures {
		fmt.Fprintf(out, "\n%s failed:\n%s", name, strings.Join(r.said[name], ""))
	}
	switch {
	case r.failed > 0:
		return fmt.Errorf("%d failures", r.failed)
	case len(slowest) == 0:
		return errors.New("no test matches")
	}
	return nil
}

const (
	// lastSaid is how many lines of a test are repeated when it has failed.
	lastSaid = 40
	// lastQuoted is how many lines of the output of a command that failed are among them: its error is at the end.
	lastQuoted = 12
	// widest is how much of such a line, in bytes.
	widest = 400
)

var (
	// message begins what a test logs.
	message = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)
	// explained are messages that a test logs after it has failed: they are long, and stand above.
	explained = regexp.MustCompile(`^\s+\w+_test\.go:\d+: \$ `)
	// failedCommand are messages that the output of a command follows.
	failedCommand = regexp.MustCompile(`exit status [1-9]`)
	// quoted are the further lines of a message.
	quoted = regexp.MustCompile(`^\s{8}`)
)

// remember keeps the first line of each message, and the last lines of the output of a command that failed.
func (r *report) remember(test, output string) {
	lines, quotes := r.said[test], r.quoting[test]
	switch {
	case explained.MatchString(output):
		r.quoting[test] = -1
		return
	case message.MatchString(output):
		r.quoting[test] = -1
		if failedCommand.MatchString(output) {
			r.quoting[test] = 0
		}
	case quotes < 0 || len(lines) == 0 || !quoted.MatchString(output):
		return
	case quotes == lastQuoted:
		lines = append(lines[:len(lines)-quotes], lines[len(lines)-quotes+1:]...)
	default:
		r.quoting[test]++
	}
	if len(output) > widest {
		output = output[:widest] + "...\n"
	}
	lines = append(lines, output)
	r.said[test] = lines[max(0, len(lines)-lastSaid):]
}
