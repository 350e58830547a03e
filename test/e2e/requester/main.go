// Command requester is a client under steady load: it gets a page twenty times a second, each time by a connection of
// its own, until it is interrupted or the time is up.
//
//	requester URL DURATION
//
// Reads nothing. Writes one line of JSON at the end: how many requests there were, how many failed, and the first
// error.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	every    = 50 * time.Millisecond
	patience = 5 * time.Second
)

// result is the line.
type result struct {
	Requests int    `json:"requests"`
	Failed   int    `json:"failed"`
	First    string `json:"first,omitempty"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "requester: error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: requester URL DURATION")
	}
	length, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var mu sync.Mutex
	var group sync.WaitGroup
	var sum result
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for tick := time.NewTicker(every); ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-tick.C:
			group.Go(func() {
				err := get(context.WithoutCancel(ctx), client, args[0])
				mu.Lock()
				defer mu.Unlock()
				if sum.Requests++; err != nil {
					if sum.Failed++; sum.First == "" {
						sum.First = err.Error()
					}
				}
			})
		}
	}
	group.Wait()
	return json.NewEncoder(os.Stdout).Encode(sum)
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, response.Status)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
