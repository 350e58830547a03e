// Command witness reports who answers at which address, again and again.
//
//	witness serve PORT...       answers HTTP on these ports with the machine's host name
//	witness watch TARGET...     asks each target four times a second, by a new connection each time
//
// The answer of a target http://ADDRESS:PORT is the first word of the page, that of tls://ADDRESS:PORT the SHA-256
// of the certificate. Reads the host name. Writes one line of JSON for each question. It runs until it is interrupted.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	every    = 250 * time.Millisecond
	patience = time.Second
)

// sighting is a line.
type sighting struct {
	At     time.Time `json:"at"` // of the question
	Target string    `json:"target"`
	Answer string    `json:"answer,omitempty"` // nothing answered, if empty
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := errors.New("want serve with ports, or watch with targets")
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case "serve":
			err = serve(ctx, os.Args[2:])
		case "watch":
			err = watch(ctx, os.Args[2:])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "witness: error:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context, ports []string) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	failed := make(chan error, len(ports))
	for _, port := range ports {
		server := &http.Server{Addr: ":" + port, Handler: page, ReadHeaderTimeout: patience}
		server.SetKeepAlivesEnabled(false)
		go func() { failed <- server.ListenAndServe() }()
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func watch(ctx context.Context, targets []string) error {
	var asking sync.WaitGroup
	lines := make(chan sighting)
	for _, target := range targets {
		asking.Go(func() {
			for tick := time.NewTicker(every); ctx.Err() == nil; {
				s := sighting{At: time.Now(), Target: target}
				s.Answer, _ = ask(ctx, target) // silence is an answer, too
				if ctx.Err() == nil {
					lines <- s
				}
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		})
	}
	go func() {
		asking.Wait()
		close(lines)
	}()
	out := json.NewEncoder(os.Stdout)
	for s := range lines {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func ask(ctx context.Context, target string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if address, is := strings.CutPrefix(target, "tls://"); is {
		return certificate(ctx, address)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	page, err := io.ReadAll(io.LimitReader(response.Body, 1000))
	if words := strings.Fields(string(page)); len(words) > 0 {
		return words[0], err
	}
	return "an empty page", err
}

// certificate is that of who answers; whoever signed it.
func certificate(ctx context.Context, address string) (string, error) {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close() }()
	client := tls.Client(connection, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
	if err := client.HandshakeContext(ctx); err != nil {
		if record := (tls.RecordHeaderError{}); errors.As(err, &record) {
			return "no TLS", nil
		}
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(client.ConnectionState().PeerCertificates[0].Raw)), nil
}
