package lbsuite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/ccmadm/ccmadm/api/finding"
	"github.com/ccmadm/ccmadm/doctor/lbtest/traffic"
	"github.com/ccmadm/ccmadm/phases/workflow"
)

// inPod is the flags of both programs.
type inPod struct {
	run  string
	port int
}

func (p *inPod) declare(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.run, "run-id", "", "ID of the test run")
	cmd.Flags().IntVar(&p.port, "port", 0, "port to listen on")
}

func (p *inPod) check() error {
	if p.run == "" || p.port < 1 || p.port > 65535 {
		return finding.Usagef("--run-id and --port are missing: `ccmadm lb test` starts this program in its pods")
	}
	return nil
}

// listen opens the TCP port on all addresses.
func (p *inPod) listen(ctx context.Context) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(p.port))
	if err != nil {
		return nil, finding.Errorf("listen for the test's clients: %w", err)
	}
	return l, nil
}

// NewServer returns the program of server pods, which answers until it is told to end. Its names come from the pod's environment.
func NewServer(s workflow.Streams) *cobra.Command {
	var p inPod
	cmd := &cobra.Command{
		Use: "server", Short: "Answer the clients of a test run", Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			tcp, err := p.listen(cmd.Context())
			if err != nil {
				return err
			}
			udp, err := (&net.ListenConfig{}).ListenPacket(cmd.Context(), "udp", ":"+strconv.Itoa(p.port))
			if err != nil {
				_ = tcp.Close()
				return finding.Errorf("listen for the test's clients: %w", err)
			}
			id := traffic.Identity{Run: p.run, Server: s.Getenv("POD_NAME"), Node: s.Getenv("NODE_NAME")}
			return ended(traffic.Serve(cmd.Context(), tcp, udp, id))
		},
	}
	p.declare(cmd)
	return cmd
}

// NewClient returns the program of client pods, which sends requests for the suite until it is told to end.
func NewClient(workflow.Streams) *cobra.Command {
	var p inPod
	cmd := &cobra.Command{
		Use: "client", Short: "Send requests of a test run", Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			l, err := p.listen(cmd.Context())
			if err != nil {
				return err
			}
			server := &http.Server{Handler: traffic.Agent(p.run), ReadHeaderTimeout: 5 * time.Second}
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				return ended(fmt.Errorf("serve the test: %w", err))
			}
			return nil
		},
	}
	p.declare(cmd)
	return cmd
}

// ended gives an error the exit status of a program that failed.
func ended(err error) error {
	if err == nil {
		return nil
	}
	return finding.Errorf("%w", err)
}
