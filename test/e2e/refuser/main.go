// Command refuser stands between a machine and its API server and refuses every request with one status, as an API
// server that is overloaded or going down does: refuser ADDRESS CERTIFICATE KEY STATUS.
//
// Reads: the certificate and key that it is given, which have to be ones that clients trust. Writes nothing.
package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "refuser:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%d arguments, want ADDRESS CERTIFICATE KEY STATUS", len(args))
	}
	status, err := strconv.Atoi(args[3])
	if err != nil {
		return fmt.Errorf("read the status: %w", err)
	}
	server := &http.Server{Addr: args[0], ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, http.StatusText(status), status)
		})}
	return server.ListenAndServeTLS(args[1], args[2])
}
