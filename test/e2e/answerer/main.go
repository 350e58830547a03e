// Command answerer is a workload that says who answered whom: its host name, and the client's address as it sees it, or
// as a header of the PROXY protocol says.
//
//	answerer                    answers HTTP and UDP on port 8080; told to end, it goes on for five seconds
//	answerer get URL            prints the body of an answer, for images without a shell
//	answerer ask ADDRESS:PORT   prints the answer to a datagram
//	answerer watch ADDRESS:PORT sends datagrams from one socket, and prints the answers, until it is interrupted
//
// Reads the host name. Writes only to its standard output.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/pires/go-proxyproto"
)

const (
	port     = ":8080"
	patience = 2 * time.Second
	// lameDuck is how long clients may go on coming that were not told yet.
	lameDuck = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 0:
		err = serve(ctx)
	case len(args) == 2 && args[0] == "get":
		err = get(ctx, args[1])
	case len(args) == 2 && args[0] == "ask":
		err = ask(ctx, args[1], 1)
	case len(args) == 2 && args[0] == "watch":
		err = ask(ctx, args[1], 0)
	default:
		err = errors.New("usage: answerer [get URL | ask ADDRESS:PORT | watch ADDRESS:PORT]")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "answerer: error:", err)
		os.Exit(1)
	}
}

func serve(ctx context.Context) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	datagrams, err := net.ListenPacket("udp", port)
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 512)
		for {
			_, from, err := datagrams.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo(answer(host, from.String()), from)
		}
	}()
	listener, err := net.Listen("tcp", port)
	if err != nil {
		return err
	}
	use := func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) { return proxyproto.USE, nil } // most send none
	headers := &proxyproto.Listener{Listener: listener, ConnPolicy: use}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(answer(host, r.RemoteAddr)) })}
	server.SetKeepAlivesEnabled(false)
	context.AfterFunc(ctx, func() {
		time.Sleep(lameDuck)
		_ = server.Close()
	})
	if err := server.Serve(headers); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func answer(host, client string) []byte {
	if address, _, err := net.SplitHostPort(client); err == nil {
		client = address
	}
	return fmt.Appendf(nil, "%s %s\n", host, client)
}

func get(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
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
	_, err = io.Copy(os.Stdout, response.Body)
	return err
}

// ask sends a datagram every 100 ms until there is an answer, or for ever where times is 0. All are of one socket, so
// that what the kernel remembers of the flow matters.
func ask(ctx context.Context, target string, times int) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "udp", target)
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	buffer := make([]byte, 512)
	for answered := 0; ctx.Err() == nil && (times == 0 || answered < times); time.Sleep(100 * time.Millisecond) {
		wait := patience
		if times == 0 {
			wait = 200 * time.Millisecond
		}
		_, err := connection.Write([]byte("?"))
		if err == nil {
			_ = connection.SetReadDeadline(time.Now().Add(wait))
			var n int
			if n, err = connection.Read(buffer); err == nil {
				answered++
				fmt.Print(string(buffer[:n]))
				continue
			}
		}
		if times > 0 {
			return err
		}
	}
	return nil
}
