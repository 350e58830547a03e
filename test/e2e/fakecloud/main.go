// Command fakecloud answers as much of the APIs of EC2 and OpenStack as a cloud-controller-manager asks while it
// initializes nodes and watches over them, so that the vendors' own programs can be tried on machines of the lab.
//
// Start at [newHandler]. The machines of the cloud are in a file, which is read again at every request: a test powers
// a machine off, terminates it or makes the API refuse by replacing the file.
//
// Reads: the file of --state. Writes: a line per request to standard output. Running it twice needs two addresses.
// It has no load balancers, volumes or routes, verifies no signature (only whose key was used), and gives no pages.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8773", "address")
	state := flag.String("state", "cloud.json", "file with the machines of the cloud")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := serve(ctx, *listen, newHandler(*state, log.New(os.Stdout, "", 0))); err != nil {
		fmt.Fprintln(os.Stderr, "fakecloud: error:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, address string, handler http.Handler) error {
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("serve on %s: %w", address, err)
	}
	return nil
}

// newHandler serves every API on one address; their paths differ.
func newHandler(state string, requests *log.Logger) http.Handler {
	c := &cloud{file: state, requests: requests}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", c.serveEC2)
	mux.HandleFunc("PUT /latest/api/token", c.serveMetadataToken)
	mux.HandleFunc("GET /latest/{what...}", c.serveMetadata)
	mux.HandleFunc("GET /openstack/latest/meta_data.json", c.serveNovaMetadata)
	c.handleOpenStack(mux)
	return mux
}
