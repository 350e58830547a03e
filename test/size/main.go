// Command size measures the tree: files over 400 lines and functions over 60, or in tests over 160; packages of more than 30 files,
// files of a package that refer to each other in a circle of more than 8, and structs that more than 40 functions of a package
// take, tests left out. Each has its reason in allow.txt, or is an error. It says, too, how much of the product is tests.
//
//	go run ./test/size
//
// Reads: the Go files of the module that it is run in, generated ones left out. Writes: nothing but its report. It ends
// with status 1 when something is over a limit without a reason.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The limits, as CONTRIBUTING says.
const (
	maxFile   = 400 // lines
	maxFunc   = 60  // lines
	maxTable  = 160 // lines of a function of tests: many are one table
	maxFiles  = 30  // of a package
	maxCircle = 8   // files
	maxTakers = 40  // functions
)

func main() {
	if err := run(".", os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(root string, out io.Writer) error {
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
	fmt.Fprintf(out, "%d files, %d functions, %d lines of Go\n", m.files, m.functions, m.product+m.tests)
	fmt.Fprintf(out, "product test:code %.2f (%d lines of tests, %d of code; test/ left out)\n",
		float64(m.productTests)/float64(m.product), m.productTests, m.product)
	fmt.Fprintf(out, "%d scripts of the command lines\n", len(scripts))

	wrong := 0
	for _, o := range m.over {
		if reason := allowed.reason(o); reason != "" {
			fmt.Fprintf(out, "allowed: %s: %s\n", o, reason)
			continue
		}
		wrong++
		fmt.Fprintf(out, "OVER: %s\n", o)
	}
	for _, a := range allowed {
		if !a.used {
			fmt.Fprintf(out, "not needed any more: %s %s\n", a.kind, a.where)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d over a limit without a reason", wrong)
	}
	return nil
}
