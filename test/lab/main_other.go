//go:build !linux

// Command lab boots bare Kubernetes machines on one Linux box. This is the build for every other system.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "lab: error: machines are made of Linux namespaces and cgroups; this is %s\n", runtime.GOOS)
	os.Exit(1)
}
