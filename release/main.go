// Command release makes a release of ccmadm: everything that users download, in one folder, and the signatures of it.
//
// It is a module of its own, so that what makes packages is not in the product's list of modules. Start at [artefacts], the
// list of all files; `make release VERSION=v0.1.0` runs it.
//
// Reads: the commit that is checked out, and the keys that COSIGN_PRIVATE_KEY_FILE and GPG_PRIVATE_KEY_FILE name.
// Writes: the output folder, as a whole or not at all. It uploads nothing but by `release push`.
// Running it twice for one commit with one version of Go gives the same bytes, the signatures included.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot(os.Getenv)
	root.SetArgs(os.Args[1:])
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "release: error: %v\n", err)
		os.Exit(1) // stop has nothing left to do
	}
}
