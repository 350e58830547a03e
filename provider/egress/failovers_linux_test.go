package egress

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

var failovers = flag.Int("failovers", 200, "how often the owner of the address changes in TestEgress_Failovers")

// Failovers while pods send all the time: no packet has another source, and a connection of TCP outlives them.
func TestEgress_Failovers(t *testing.T) {
	c := newCluster(t)
	ctx, stop := context.WithCancel(t.Context())
	c.own(0)
	sources := map[string]int{}
	var mu sync.Mutex
	var servers []net.PacketConn
	c.outside.Inside(func() {
		for _, address := range []string{far4, far6, near4} {
			server, err := net.ListenPacket("udp", net.JoinHostPort(address, "4000"))
			if err != nil {
				t.Fatal(err)
			}
			servers = append(servers, server)
		}
	})
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	for _, server := range servers {
		defer func() { _ = server.Close() }()
		group.Go(func() {
			for {
				_, source, err := server.ReadFrom(make([]byte, 1))
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(source.String())
				mu.Lock()
				sources[host]++
				mu.Unlock()
			}
		})
		for i := range 2 {
			group.Go(func() { sendAll(ctx, c.nodes[i].pod, server.LocalAddr().String()) })
		}
	}
	echo := c.echo(c.nodes[1].pod)
	for n := range *failovers {
		owner := rand.IntN(4) - 1
		if n == *failovers-1 {
			owner = 2
		}
		c.own(owner)
		if owner >= 0 && n%20 == 0 {
			echo(n)
		}
	}
	echo(*failovers)
	mu.Lock()
	defer mu.Unlock()
	t.Logf("packets by source after %d failovers: %v", *failovers, sources)
	for source := range sources {
		if source != service4 && source != service6 {
			t.Errorf("%d packets came from %s", sources[source], source)
		}
	}
	if sources[service4] < *failovers || sources[service6] < *failovers {
		t.Errorf("packets by source: %v, want at least one in each failover", sources)
	}
}

// sendAll sends from old connections and new ones, until the end of the test.
func sendAll(ctx context.Context, from *machine, to string) {
	var old net.Conn
	from.Inside(func() { old, _ = net.Dial("udp", to) })
	for ctx.Err() == nil {
		from.Inside(func() {
			if client, err := net.Dial("udp", to); err == nil {
				_, _ = client.Write([]byte("n")) // some are refused: no Node owns the address
				_ = client.Close()
			}
			_, _ = old.Write([]byte("o"))
		})
		time.Sleep(time.Millisecond)
	}
}

// echo opens a connection, and returns what sends over it and waits for the answer.
func (c *cluster) echo(from *machine) func(round int) {
	c.t.Helper()
	var listener net.Listener
	var client net.Conn
	var err error
	c.outside.Inside(func() { listener, err = net.Listen("tcp", net.JoinHostPort(far4, "4001")) })
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			server, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(server, server) }()
		}
	}()
	from.Inside(func() { client, err = net.DialTimeout("tcp", listener.Addr().String(), time.Minute) })
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return func(round int) {
		c.t.Helper()
		text := fmt.Appendf(nil, "round %d", round)
		_ = client.SetDeadline(time.Now().Add(time.Minute))
		if _, err := client.Write(text); err != nil {
			c.t.Fatalf("failover %d: send: %v", round, err)
		}
		if _, err := io.ReadFull(client, make([]byte, len(text))); err != nil {
			c.t.Fatalf("failover %d: the answer did not arrive: %v", round, err)
		}
	}
}
