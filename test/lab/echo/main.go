// Command echo is the lab's test workload: it answers every HTTP request on :8080 with its own host name.
//
// `echo` serves; `echo get URL` prints the body of the answer and fails unless it is 200, for images without a shell.
// Reads the host name. Writes only to its standard output.
package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = serve(ctx)
	case len(args) == 2 && args[0] == "get":
		err = get(ctx, args[1], os.Stdout)
	default:
		err = fmt.Errorf("usage: echo [get URL]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo: error:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, host) }
	server := &http.Server{Addr: ":8080", Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

func get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	_, err = io.Copy(out, response.Body)
	return err
}
