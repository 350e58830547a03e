// Command size measures the house: files over 250 lines, functions over 60, lines over 120 columns, tests included,
// each with its reason from allow.txt; how much of the product is tests; how large the largest type of phases
// is; how many scripts show the command line.
//
//	go run ./test/size
//
// Reads: the Go files of the module that it is run in, generated ones left out. Writes: nothing but its report. It ends
// with status 1 when something is over a limit without a reason.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// The limits, as CONTRIBUTING says.
const (
	maxFile    = 250 // lines
	maxFunc    = 60  // lines
	maxColumns = 120 // characters, a tab counts as one
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	allowed, err := readAllowed(filepath.Join(root, "test/size/allow.txt"))
	if err != nil {
		return err
	}
	m, err := measure(root)
	if err != nil {
		return err
	}
	var scripts []string
	for _, pattern := range []string{"cmd/*/testdata/*.txtar", "cmd/*/testdata/*/*.txtar"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return err
		}
		scripts = append(scripts, found...)
	}
	fmt.Printf("%d files, %d functions, %d lines of Go\n", m.files, m.functions, m.product+m.tests)
	fmt.Printf("product test:code %.2f (%d lines of tests, %d of code; test/ left out)\n",
		float64(m.productTests)/float64(m.product), m.productTests, m.product)
	name, methods := m.largestType("phases")
	fmt.Printf("largest type of phases: %s, %d methods\n", name, methods)
	wide := 0
	for _, n := range m.wide {
		wide += n
	}
	fmt.Printf("%d lines over %d columns, %.1f of 1,000\n",
		wide, maxColumns, 1000*float64(wide)/float64(m.product+m.tests))
	fmt.Printf("%d scripts of the command lines\n", len(scripts))

	wrong := 0
	for _, o := range m.over {
		if reason := allowed.reason(o); reason != "" {
			fmt.Printf("allowed: %s: %s\n", o, reason)
			continue
		}
		wrong++
		fmt.Printf("OVER: %s\n", o)
	}
	for _, a := range allowed {
		if !a.used {
			fmt.Printf("not needed any more: %s %s\n", a.kind, a.where)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d over a limit without a reason", wrong)
	}
	return nil
}
